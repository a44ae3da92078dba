"""The PyTorch models of tests/models/: small, with the layers and habits of the usual ones."""
import torch
import torch.nn.functional as F
from torch import nn


class MLP(nn.Module):
    """784 -> 32 -> 10, logits."""

    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(784, 32)
        self.drop = nn.Dropout(0.2)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x):
        return self.fc2(self.drop(F.relu(self.fc1(x.flatten(1)))))


class CNND(nn.Module):
    """Conv, BatchNorm, both poolings, view(), BatchNorm1d; ends in log_softmax."""

    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
            nn.Dropout(0.1), nn.Conv2d(4, 8, 3, padding="same", bias=False), nn.BatchNorm2d(8),
            nn.LeakyReLU(0.1), nn.AvgPool2d(2))
        self.c = nn.Sequential(nn.Linear(8 * 64, 16), nn.BatchNorm1d(16), nn.ReLU(),
                               nn.Dropout(0.5), nn.Linear(16, 10))

    def forward(self, x):
        x = self.f(x)
        x = x.view(x.size(0), -1)
        return F.log_softmax(self.c(x), dim=1)


class BasicBlock(nn.Module):
    """torchvision's residual block, with its names."""

    def __init__(self, inplanes: int, planes: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = None
        if stride != 1 or inplanes != planes:
            self.downsample = nn.Sequential(nn.Conv2d(inplanes, planes, 1, stride, bias=False),
                                            nn.BatchNorm2d(planes))

    def forward(self, x):
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(out + (x if self.downsample is None else self.downsample(x)))


class ResNet18Thin(nn.Module):
    """torchvision's ResNet-18 (topology, names, initial weights) at 1/16 of its width."""

    def __init__(self, width: int = 4, classes: int = 10):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        planes = width
        for stage in range(4):
            out = width << stage
            blocks = nn.Sequential(BasicBlock(planes, out, 1 if stage == 0 else 2),
                                   BasicBlock(out, out, 1))
            setattr(self, f"layer{stage + 1}", blocks)
            planes = out
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(planes, classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class Gated(nn.Module):
    """An image and a row of features: grouped and dilated convolutions, GroupNorm, channels
    shuffled, one Linear used twice between LayerNorms, a Softmax in the middle, PReLU."""

    def __init__(self):
        super().__init__()
        self.spread = nn.Conv2d(3, 8, 3, padding=2, dilation=2)
        self.norm = nn.GroupNorm(2, 8)
        self.mix = nn.Conv2d(8, 12, (3, 2), stride=(1, 2), groups=4, padding=(1, 0))
        self.slope, self.slopes = nn.PReLU(), nn.PReLU(12)
        self.shared = nn.Linear(6, 6)
        self.before, self.between = nn.LayerNorm(6), nn.LayerNorm(6)
        self.gate = nn.Linear(6, 12)
        self.head = nn.Linear(12 * 4 + 6, 5)

    def forward(self, image, features):
        x = self.slope(self.norm(self.spread(image)))
        b, c, h, w = x.shape
        x = x.view(b, 2, c // 2, h, w).transpose(1, 2).reshape(b, c, h, w)
        x = F.adaptive_avg_pool2d(self.slopes(self.mix(x)), 2)
        f = features + F.gelu(self.shared(self.before(features)))
        f = f + F.elu(self.shared(self.between(f)))
        x = x * torch.softmax(self.gate(f), 1)[:, :, None, None]
        return self.head(torch.cat([F.hardtanh(x, -2.0, 2.0).flatten(1), f], 1))


class TCN(nn.Module):
    """Causal dilated convolutions over a sequence that the model itself standardises; a learnt
    factor (a single number) and a table that is no parameter; ends in log_softmax."""

    def __init__(self):
        super().__init__()
        self.register_buffer("center", torch.tensor([[0.1], [0.2], [0.3], [-0.4]]))
        self.register_buffer("deviation", torch.tensor([[1.5], [0.5], [2.0], [1.25]]))
        self.register_buffer("place", torch.linspace(-1, 1, 8 * 11).view(8, 11))
        self.first = nn.Conv1d(4, 8, 3, dilation=2)
        self.bn = nn.BatchNorm1d(8)
        self.second = nn.Conv1d(8, 8, 3, padding="same", dilation=2)
        self.gain = nn.Parameter(torch.tensor(0.5))
        self.drop = nn.Dropout(0.2)
        self.fc = nn.Linear(8, 5)

    def forward(self, x):
        x = (x - self.center) / self.deviation
        x = F.relu(self.bn(self.first(F.pad(x, (4, 0)))))
        x = F.avg_pool1d(x + self.gain * self.drop(F.relu(self.second(x))), 3, 2, 1)
        x = F.max_pool1d(x, 2, 1) + self.place
        return F.log_softmax(self.fc(x[:, :, -1] + x.mean(-1)), dim=1)


class Volume(nn.Module):
    """Three dimensions: Conv3d, BatchNorm3d, both poolings, strides that differ."""

    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(
            nn.Conv3d(1, 6, 3, padding=1), nn.BatchNorm3d(6), nn.ELU(), nn.MaxPool3d((1, 2, 2)),
            nn.Conv3d(6, 8, 3, stride=(1, 2, 2), padding=(1, 0, 1)), nn.Softplus(),
            nn.AvgPool3d((2, 1, 2), padding=(1, 0, 0)), nn.AdaptiveAvgPool3d(1))
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        return self.fc(self.f(x).flatten(1))


# name -> (model, shape of one sample by input)
MODELS = {"mlp": (MLP, {"x": (1, 28, 28)}), "cnnd": (CNND, {"x": (3, 32, 32)}),
          "resnet18thin": (ResNet18Thin, {"x": (3, 64, 64)}),
          "gated": (Gated, {"image": (3, 8, 8), "features": (6,)}), "tcn": (TCN, {"x": (4, 23)}),
          "volume": (Volume, {"x": (1, 6, 10, 10)})}
CLASSES = {"gated": 5, "tcn": 5, "volume": 4}  # 10 where it is not here
LOG_PROBABILITIES = {"cnnd", "tcn"}  # end in log_softmax


def make(name: str, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return MODELS[name][0]()
