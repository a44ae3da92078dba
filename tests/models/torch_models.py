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


# name -> (model, shape of one sample)
MODELS = {"mlp": (MLP, (1, 28, 28)), "cnnd": (CNND, (3, 32, 32)),
          "resnet18thin": (ResNet18Thin, (3, 64, 64))}


def make(name: str, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return MODELS[name][0]()
