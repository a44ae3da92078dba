"""What tools/benchmark trains: the models, the data and the operations of each work.

Models come from the project's own scripts and files, data from a seed; Python alone is needed.
"""
import array
import dataclasses
import math
import os
import random
import struct
import sys
from typing import Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Union

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tools"))
import make_tutorial_model as onnx_writer  # noqa: E402

CLASSES = 10
RESNET_FILE = os.path.join("tests", "models", "resnet18thin-torch-ts-train.onnx")
RESNET_FILE_WIDTH = 4


@dataclasses.dataclass(frozen=True)
class Work:
    """One model with its data.

    `multiply_adds`: of one sample's forward pass, one number a layer; the first is of the layer that
    reads the input, whose gradient nobody needs.
    `epoch`: samples of one pass over the data.
    """
    name: str
    about: str
    image: Tuple[int, ...]
    batch: int
    epoch: int
    flags: Tuple[str, ...]
    multiply_adds: Tuple[int, ...]
    make_model: Callable[[], bytes]

    def operations_per_sample(self) -> int:
        """Of a training step done directly: forward, gradients of weights and of activations."""
        return 2 * (3 * sum(self.multiply_adds) - self.multiply_adds[0])


# ---- Models --------------------------------------------------------------------------------------

def fields(message: bytes) -> Iterator[Tuple[int, Union[int, bytes]]]:
    """(number, value) of the fields of a protobuf message that has only integers and byte strings."""
    at = 0

    def varint() -> int:
        nonlocal at
        n = shift = 0
        while True:
            byte = message[at]
            at += 1
            n |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return n

    while at < len(message):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        elif key & 7 == 2:
            size = varint()
            yield key >> 3, message[at:at + size]
            at += size
        else:
            raise ValueError(f"field {key >> 3} is neither an integer nor bytes")


def rewritten(message: bytes, change: Callable[[int, bytes], Optional[bytes]]) -> bytes:
    """`message` with change(number, value) for each field of bytes; None drops the field."""
    out = []
    for field, value in fields(message):
        if isinstance(value, int):
            out.append(onnx_writer.number(field, value))
            continue
        new = change(field, value)
        if new is not None:
            out.append(onnx_writer.data(field, new))
    return b"".join(out)


# What one block of random numbers repeats after: a prime, so that no two filters are alike.
_BLOCK = 65537


def _weights(count: int, deviation: float, block: array.array) -> bytes:
    scaled = array.array("f", (x * deviation for x in block[:min(count, _BLOCK)]))
    whole = (scaled * -(-count // len(scaled)))[:count]
    return onnx_writer.little_endian("f", whole)


def widened(model: bytes, factor: int, seed: int = 0) -> bytes:
    """A residual network with `factor` times as many channels everywhere, and fresh weights."""
    draw = random.Random(seed)
    block = array.array("f", (draw.uniform(-3**0.5, 3**0.5) for _ in range(_BLOCK)))

    def tensor(value: bytes) -> bytes:
        dims = [v for field, v in fields(value) if field == 1]
        (name,) = [v.decode() for field, v in fields(value) if field == 8]
        if name == "fc.weight":
            dims = [dims[0], dims[1] * factor]
            raw = _weights(math.prod(dims), (3 * dims[1])**-0.5, block)
        elif len(dims) == 4:
            image = dims[1] == 3
            dims = [dims[0] * factor, dims[1] * (1 if image else factor), *dims[2:]]
            raw = _weights(math.prod(dims), (2 / (dims[0] * dims[2] * dims[3]))**0.5, block)
        elif name == "fc.bias":
            return value
        else:  # BatchNormalization's: all elements alike
            (old,) = [v for field, v in fields(value) if field == 9]
            dims, raw = [dims[0] * factor], old * factor
        return onnx_writer.tensor(dims, onnx_writer.FLOAT, raw, name)

    def graph(field: int, value: bytes) -> Optional[bytes]:
        if field == 13:  # shapes of values, with the old channels
            return None
        return tensor(value) if field == 5 else value

    return rewritten(model, lambda field, value: rewritten(value, graph) if field == 7 else value)


def _resnet(width: int) -> bytes:
    with open(os.path.join(ROOT, RESNET_FILE), "rb") as file:
        model = file.read()
    return model if width == RESNET_FILE_WIDTH else widened(model, width // RESNET_FILE_WIDTH)


# ---- Operations ----------------------------------------------------------------------------------

def _cnn_multiply_adds() -> List[int]:
    out, side, before = [], 32, 3
    for channels in (32, 64):
        for pad in (1, 0):
            side += 2 * pad - 2
            out.append(side * side * channels * 9 * before)
            before = channels
        side //= 2
    return out + [side * side * before * 512, 512 * CLASSES]


def _resnet_multiply_adds(width: int) -> List[int]:
    out, side, before = [32 * 32 * width * 49 * 3], 16, width
    for stage in range(4):
        channels = width << stage
        if stage:
            side //= 2
            out.append(side * side * channels * before)  # the branch's 1x1
        out.append(side * side * channels * 9 * before)
        out += [side * side * channels * 9 * channels] * 3
        before = channels
    return out + [before * CLASSES]


# ---- The list ------------------------------------------------------------------------------------

_ADAM = ("--loss", "sparse_categorical_crossentropy", "--optimizer", "adam",
         "--learning-rate", "0.001")
_SGD = ("--loss", "cross_entropy", "--optimizer", "sgd", "--momentum", "0.9",
        "--learning-rate", "0.01")

WORKS: Dict[str, Work] = {w.name: w for w in (
    Work("mlp", "the tutorial's MLP, 784-512-10, dropout, Adam", (28, 28), 128, 64 * 128, _ADAM,
         (784 * 512, 512 * CLASSES), lambda: onnx_writer.mlp(0).serialize()),
    Work("cnn", "the tutorial's CNN on 32x32x3, BatchNorm, dropout, Adam", (32, 32, 3), 64, 8 * 64,
         _ADAM, tuple(_cnn_multiply_adds()), lambda: onnx_writer.cnn(0).serialize()),
    Work("resnet-thin", "ResNet-18, 4 channels wide, on 3x64x64, SGD with momentum", (3, 64, 64),
         32, 16 * 32, _SGD, tuple(_resnet_multiply_adds(4)), lambda: _resnet(4)),
    Work("resnet", "ResNet-18 on 3x64x64, SGD with momentum", (3, 64, 64), 32, 4 * 32, _SGD,
         tuple(_resnet_multiply_adds(64)), lambda: _resnet(64)),
)}


# ---- Data ----------------------------------------------------------------------------------------

def write_data(path: str, image: Sequence[int], samples: int, seed: int) -> Tuple[str, str]:
    """IDX images and labels, path-images and path-labels.

    In an image of noise a brighter band tells the class; one label in ten is drawn at random, so
    that the loss stays away from zero and numbers stay as large as they are in real training.
    """
    draw = random.Random(seed)
    size = math.prod(image)
    band = size // CLASSES
    darker = bytes(b // 2 for b in range(256))
    brighter = bytes(96 + b // 2 for b in range(256))
    labels = bytearray()
    images, targets = path + "-images", path + "-labels"
    with open(images, "wb") as file:
        file.write(struct.pack(f">{2 + len(image)}I", 0x801 + len(image), samples, *image))
        for _ in range(samples):
            noise = draw.randbytes(size)
            label = draw.randrange(CLASSES)
            at = label * band
            file.write(noise[:at].translate(darker) + noise[at:at + band].translate(brighter)
                       + noise[at + band:].translate(darker))
            labels.append(draw.randrange(CLASSES) if draw.random() < 0.1 else label)
    with open(targets, "wb") as file:
        file.write(struct.pack(">II", 0x801, samples) + labels)
    return images, targets
