"""Tests of tools/make_tutorial_model.py by Python alone: the bytes, decoded by a reader of its own.

(tests/keras_export_test.py compares the models with Keras'.)
"""
import contextlib
import io
import math
import os
import struct
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
import make_tutorial_model  # noqa: E402


def fields(message: bytes):
    """(field number, value) of a protobuf message; nested messages stay bytes."""
    at = 0

    def varint():
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
            assert key & 7 == 5
            yield key >> 3, message[at:at + 4]
            at += 4


def every(message: bytes, number: int):
    return [value for field, value in fields(message) if field == number]


def initializers(model: bytes):
    """name -> (dims, numbers)"""
    (graph,) = every(model, 7)
    result = {}
    for tensor in every(graph, 5):
        raw = every(tensor, 9)[0]
        result[every(tensor, 8)[0].decode()] = (
            every(tensor, 1), struct.unpack(f"<{len(raw) // 4}f", raw))
    return result


class MakeTutorialModelTest(unittest.TestCase):

    def make(self, *args: str) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            self.assertEqual(make_tutorial_model.main([*args, "-o", path]), 0)
            self.assertEqual(os.listdir(folder), ["model.onnx"])
            with open(path, "rb") as file:
                return file.read()

    def test_the_seed_alone_decides(self):
        first = self.make("mlp", "--seed", "1")
        self.assertEqual(first, self.make("mlp", "--seed", "1"))
        self.assertNotEqual(first, self.make("mlp", "--seed", "2"))

    def test_nodes_in_order(self):
        for name, expected in (
                ("mlp", "Gemm Relu Constant Constant Dropout Gemm Softmax"),
                ("cnn", "Transpose " + 2 * (2 * "Conv Relu BatchNormalization "
                                            + "MaxPool Constant Constant Dropout ")
                 + "Transpose Flatten Gemm Relu BatchNormalization Constant Constant Dropout "
                 + "Gemm Softmax")):
            (graph,) = every(self.make(name), 7)
            kinds = [every(node, 4)[0].decode() for node in every(graph, 1)]
            self.assertEqual(" ".join(kinds), expected)

    def test_weights_are_glorot_uniform(self):
        weights = initializers(self.make("mlp"))
        self.assertEqual({n: d for n, (d, _) in weights.items()}, {
            "mlp/dense/kernel": [784, 512], "mlp/dense/bias": [512],
            "mlp/dense_1/kernel": [512, 10], "mlp/dense_1/bias": [10]})
        _, kernel = weights["mlp/dense/kernel"]
        limit = math.sqrt(6 / (784 + 512))
        self.assertLessEqual(max(map(abs, kernel)), limit * (1 + 1e-6))
        variance = sum(x * x for x in kernel) / len(kernel)
        self.assertAlmostEqual(variance, limit**2 / 3, delta=0.01 * limit**2)
        self.assertEqual(set(weights["mlp/dense/bias"][1]), {0.0})
        conv = initializers(self.make("cnn"))
        self.assertEqual(conv["cnn/conv2d_2/kernel"][0], [64, 32, 3, 3])
        self.assertEqual(conv["cnn/dense/kernel"][0], [6 * 6 * 64, 512])
        self.assertEqual(set(conv["cnn/batch_normalization_4/moving_variance"][1]), {1.0})

    def test_an_unwritable_folder_is_one_line(self):
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            code = make_tutorial_model.main(["mlp", "-o", "/nowhere/at/all/mlp.onnx"])
        self.assertEqual(code, 8)
        self.assertEqual(errors.getvalue().count("\n"), 1)
        self.assertIn("/nowhere/at/all/mlp.onnx: No such file", errors.getvalue())


if __name__ == "__main__":
    unittest.main()
