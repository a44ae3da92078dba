#!/usr/bin/env python3
"""Writes the tutorial's models as ONNX in training form, with fresh weights. Needs Python alone.

  python3 tools/make_tutorial_model.py mlp -o mlp.onnx
  python3 tools/make_tutorial_model.py cnn -o cnn.onnx --seed 3

  mlp   784 -> Dense 512 relu -> Dropout 0.2 -> Dense 10 softmax (MNIST, Fashion-MNIST)
  cnn   32x32x3 -> two blocks of (Conv relu BatchNorm) x 2, MaxPool, Dropout 0.25 with 32 and 64
        channels -> Dense 512 relu -> BatchNorm -> Dropout 0.5 -> Dense 10 softmax (CIFAR-10)

The files are what tools/keras_export.py writes for the same models in Keras; weights are drawn as
Keras draws them (Glorot uniform, biases zero). The same seed gives the same bytes.
"""
import argparse
import array
import math
import os
import random
import sys
from typing import List, Optional, Sequence, Tuple

OPSET, IR_VERSION = 21, 10
FLOAT, BOOL = 1, 9  # onnx.TensorProto.DataType


# ---- Protocol buffers: the few messages of onnx.proto that are needed --------------------------

def varint(n: int) -> bytes:
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def number(field: int, n: int) -> bytes:
    return varint(field << 3) + varint(n)


def data(field: int, value) -> bytes:
    """A string, bytes or message."""
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


def little_endian(kind: str, values) -> bytes:
    out = array.array(kind, values)
    if sys.byteorder == "big":
        out.byteswap()
    return out.tobytes()


def tensor(dims: Sequence[int], data_type: int, raw: bytes, name: str = "") -> bytes:
    return (b"".join(number(1, d) for d in dims) + number(2, data_type)
            + (data(8, name) if name else b"") + data(9, raw))


def attribute(name: str, value) -> bytes:
    """An int, a float, a list of ints, or a tensor (bytes)."""
    if isinstance(value, int):
        body, kind = number(3, value), 2
    elif isinstance(value, float):
        body, kind = varint(2 << 3 | 5) + little_endian("f", [value]), 1
    elif isinstance(value, bytes):
        body, kind = data(5, value), 4
    else:
        body, kind = b"".join(number(8, i) for i in value), 7
    return data(1, name) + body + number(20, kind)


def value_info(name: str, dims: Sequence) -> bytes:
    shape = b"".join(data(1, data(2, d) if isinstance(d, str) else number(1, d)) for d in dims)
    return data(1, name) + data(2, data(1, number(1, FLOAT) + data(2, shape)))


# ---- Layers, named as tools/keras_export.py names them -----------------------------------------

class Model:
    """A graph that grows layer by layer; `value` and `shape` are of what the last one made."""

    def __init__(self, name: str, input_shape: Sequence[int], seed: int):
        self.name = name
        self.random = random.Random(seed)
        self.shape: Tuple[int, ...] = tuple(input_shape)
        self.value = "input_layer"
        self.graph_input = value_info(self.value, ["batch", *input_shape])
        self.nodes: List[bytes] = []
        self.initializers: List[bytes] = []
        self.counts: dict = {}

    def layer(self, kind: str) -> str:
        n = self.counts[kind] = self.counts.get(kind, -1) + 1
        return f"{kind}_{n}" if n else kind

    def node(self, op_type: str, inputs: Sequence[str], outputs: Sequence[str], name: str = "",
             **attributes) -> None:
        self.nodes.append(
            b"".join(data(1, i) for i in inputs) + b"".join(data(2, o) for o in outputs)
            + data(3, name or outputs[0]) + data(4, op_type)
            + b"".join(data(5, attribute(k, v)) for k, v in attributes.items()))
        self.value = outputs[0]

    def variable(self, name: str, dims: Sequence[int], values) -> str:
        name = f"{self.name}/{name}"
        self.initializers.append(tensor(dims, FLOAT, little_endian("f", values), name))
        return name

    def glorot(self, name: str, dims: Sequence[int], fan_in: int, fan_out: int) -> str:
        limit = math.sqrt(6 / (fan_in + fan_out))
        draw = self.random.random
        return self.variable(name, dims, ((2 * draw() - 1) * limit
                                          for _ in range(math.prod(dims))))

    def dense(self, units: int, activation: str) -> None:
        layer, (size,) = self.layer("dense"), self.shape
        kernel = self.glorot(f"{layer}/kernel", [size, units], size, units)
        bias = self.variable(f"{layer}/bias", [units], [0.0] * units)
        self.node("Gemm", [self.value, kernel, bias], [f"{layer}/Gemm"])
        if activation == "Softmax":
            self.node("Softmax", [self.value], [layer], name=f"{layer}/Softmax", axis=1)
        else:
            self.node(activation, [self.value], [f"{layer}/{activation}"])
        self.shape = (units,)

    def channels_first(self) -> None:
        """(N, H, W, C) to (N, C, H, W); `shape` is (C, H, W) from here on."""
        self.node("Transpose", [self.value], ["conv2d/Transpose"], perm=[0, 3, 1, 2])
        height, width, channels = self.shape
        self.shape = (channels, height, width)

    def conv(self, channels: int, pad: int) -> None:
        """3x3, relu."""
        layer, (before, height, width) = self.layer("conv2d"), self.shape
        kernel = self.glorot(f"{layer}/kernel", [channels, before, 3, 3], 9 * before, 9 * channels)
        bias = self.variable(f"{layer}/bias", [channels], [0.0] * channels)
        self.node("Conv", [self.value, kernel, bias], [f"{layer}/Conv"], group=1,
                  kernel_shape=[3, 3], pads=[pad] * 4, strides=[1, 1])
        self.node("Relu", [self.value], [f"{layer}/Relu"])
        self.shape = (channels, height - 2 + 2 * pad, width - 2 + 2 * pad)

    def batch_normalization(self) -> None:
        layer, channels = self.layer("batch_normalization"), self.shape[0]
        names = [self.variable(f"{layer}/{name}", [channels], [start] * channels)
                 for name, start in (("gamma", 1.0), ("beta", 0.0), ("moving_mean", 0.0),
                                     ("moving_variance", 1.0))]
        out = f"{layer}/BatchNormalization"
        self.node("BatchNormalization", [self.value, *names], [out, out + ":1", out + ":2"],
                  epsilon=1e-3, momentum=0.99, training_mode=1)

    def max_pooling(self) -> None:
        self.node("MaxPool", [self.value], [self.layer("max_pooling2d") + "/MaxPool"],
                  kernel_shape=[2, 2], pads=[0] * 4, strides=[2, 2])
        channels, height, width = self.shape
        self.shape = (channels, height // 2, width // 2)

    def dropout(self, rate: float) -> None:
        layer, x = self.layer("dropout"), self.value
        self.node("Constant", [], [f"{layer}/Constant"],
                  value=tensor([], FLOAT, little_endian("f", [rate])))
        self.node("Constant", [], [f"{layer}/Constant_1"], value=tensor([], BOOL, b"\1"))
        self.node("Dropout", [x, f"{layer}/Constant", f"{layer}/Constant_1"],
                  [f"{layer}/Dropout"])

    def flatten(self) -> None:
        """In Keras' order, (H, W, C)."""
        self.node("Transpose", [self.value], ["flatten/Transpose"], perm=[0, 2, 3, 1])
        self.node("Flatten", [self.value], ["flatten/Flatten"], axis=1)
        self.shape = (math.prod(self.shape),)

    def serialize(self) -> bytes:
        graph = (b"".join(data(1, n) for n in self.nodes) + data(2, self.name)
                 + b"".join(data(5, i) for i in self.initializers) + data(11, self.graph_input)
                 + data(12, value_info(self.value, ["batch", *self.shape])))
        return (number(1, IR_VERSION) + data(2, "onward make_tutorial_model") + data(7, graph)
                + data(8, data(1, "") + number(2, OPSET)))


def mlp(seed: int) -> Model:
    model = Model("mlp", (784,), seed)
    model.dense(512, "Relu")
    model.dropout(0.2)
    model.dense(10, "Softmax")
    return model


def cnn(seed: int) -> Model:
    model = Model("cnn", (32, 32, 3), seed)
    model.channels_first()
    for channels in (32, 64):
        for pad in (1, 0):
            model.conv(channels, pad)
            model.batch_normalization()
        model.max_pooling()
        model.dropout(0.25)
    model.flatten()
    model.dense(512, "Relu")
    model.batch_normalization()
    model.dropout(0.5)
    model.dense(10, "Softmax")
    return model


MODELS = {"mlp": mlp, "cnn": cnn}


def main(argv: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=sorted(MODELS))
    parser.add_argument("-o", "--output", required=True, metavar="FILE.onnx")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    part = f"{args.output}.part"
    try:
        with open(part, "wb") as file:
            file.write(MODELS[args.model](args.seed).serialize())
        os.replace(part, args.output)  # Whole, or not there.
    except OSError as error:
        print(f"make_tutorial_model: {args.output}: {error.strerror}", file=sys.stderr)
        return 8
    return 0


if __name__ == "__main__":
    sys.exit(main())
