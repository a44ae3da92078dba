"""PyTorch on the CPU as it trains fastest: fused optimizer, images channels-last; --compile for
torch.compile of model and loss."""
import peer

args = peer.arguments(__doc__, ("compile",))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

torch.set_num_threads(args.threads)
torch.manual_seed(0)


class KerasOrder(nn.Module):
    """Flatten in the order of channels-last, whose weights the tutorial's CNN has; copies nothing."""

    def forward(self, x):
        return x.permute(0, 2, 3, 1).flatten(1)


def tutorial(work: str) -> nn.Sequential:
    if work == "mlp":
        return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Dropout(0.2), nn.Linear(512, 10))
    layers, before = [], 3
    for channels in (32, 64):
        for padding in (1, 0):
            layers += [nn.Conv2d(before, channels, 3, padding=padding), nn.ReLU(),
                       nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)]
            before = channels
        layers += [nn.MaxPool2d(2), nn.Dropout(0.25)]
    return nn.Sequential(*layers, KerasOrder(), nn.Linear(36 * before, 512), nn.ReLU(),
                         nn.BatchNorm1d(512, eps=1e-3, momentum=0.01), nn.Dropout(0.5),
                         nn.Linear(512, 10))


def make_model() -> nn.Module:
    weights = {name: torch.from_numpy(value.copy())
               for name, value in peer.read_weights(args.model).items()}
    if args.work.startswith("resnet"):
        import torch_models
        model = torch_models.ResNet18Thin(width=len(weights["conv1.weight"]))
        model.load_state_dict(weights, strict=False)
        return model
    model, counts = tutorial(args.work), {}
    for layer in model:
        kind, names = {
            nn.Linear: ("dense", ("kernel", "bias")),
            nn.Conv2d: ("conv2d", ("kernel", "bias")),
            nn.BatchNorm2d: ("batch_normalization", ("gamma", "beta")),
            nn.BatchNorm1d: ("batch_normalization", ("gamma", "beta")),
        }.get(type(layer), ("", ()))
        if not kind:
            continue
        n = counts[kind] = counts.get(kind, -1) + 1
        name = f"{kind}_{n}" if n else kind
        with torch.no_grad():
            for parameter, part in zip((layer.weight, layer.bias), names):
                value = weights[f"{name}/{part}"]
                parameter.copy_(value.T if kind == "dense" and part == "kernel" else value)
    return model


model = make_model().train()
images = args.work != "mlp"
if images:
    model = model.to(memory_format=torch.channels_last)
if args.work.startswith("resnet"):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
else:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-7, fused=True)


def loss_of(x, y):
    return F.cross_entropy(model(x), y)


if args.compile:
    loss_of = torch.compile(loss_of)


def to_device(x, y):
    x = torch.from_numpy(x)
    if images:
        x = x.contiguous(memory_format=torch.channels_last)
    return x, torch.from_numpy(y)


def step(batch):
    loss = loss_of(*batch)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.detach()


def classes(x):
    model.eval()
    with torch.no_grad():
        out = model(torch.from_numpy(x)).argmax(1).numpy()
    model.train()
    return out


peer.loop(args, "first", to_device, step, classes)
