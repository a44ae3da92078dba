"""The tutorial's network reaches on Fashion-MNIST the accuracy of Keras (the mean of whose five
seeds tests/reference/fashion_mnist_keras.json holds) within half a point, on one device and on
two. The images are those of Debian's package dataset-fashion-mnist."""

import json
import os
import shutil
import sys
import unittest

from command_run import ONWARD, CommandCase

MAKE_MODEL = os.path.abspath("tools/make_tutorial_model.py")
REFERENCE = os.path.abspath("tests/reference/fashion_mnist_keras.json")
DATA = "/usr/share/datasets/fashion-mnist/"
SEEDS = (1, 2, 3)
LINE = (
    "train mlp.onnx --data train-images-idx3-ubyte.gz --labels train-labels-idx1-ubyte.gz "
    "--rescale 1/255 --validation-data t10k-images-idx3-ubyte.gz "
    "--validation-labels t10k-labels-idx1-ubyte.gz --loss sparse_categorical_crossentropy "
    "--optimizer adam --learning-rate 1e-3 --metrics accuracy --epochs 5 --batch-size 128 "
    "--devices cpu:0,cpu:1 --seed 1 --checkpoint-dir run --save-every 100 --resume auto "
    "--output trained.onnx")


class FashionMnistTest(CommandCase):
    def setUp(self):
        super().setUp()
        for name in os.listdir(DATA):
            os.symlink(DATA + name, name)

    def accuracy(self, seed, devices):
        """On the test set, after five epochs."""
        self.run_ok(sys.executable, MAKE_MODEL, "mlp", "-o", "mlp.onnx", "--seed", str(seed))
        line = LINE.replace("cpu:0,cpu:1", devices).replace("--seed 1", "--seed %d" % seed)
        output = self.run_ok(ONWARD, *line.split(), "--json", "--resume", "never")
        epochs = [e for e in map(json.loads, output.splitlines()) if e["event"] == "epoch"]
        self.assertEqual(len(epochs), 5)
        shutil.rmtree("run")
        return epochs[-1]["metrics"]["val_accuracy"]

    def check(self, devices):
        with open(REFERENCE, encoding="utf-8") as f:
            expected = json.load(f)["test_accuracy_mean"]
        reached = [self.accuracy(seed, devices) for seed in SEEDS]
        self.assertAlmostEqual(sum(reached) / len(reached), expected, delta=0.005, msg=reached)

    def test_one_device_is_as_accurate_as_keras(self):
        self.check("cpu:0")

    def test_the_line_as_it_stands_and_what_it_leaves(self):
        self.run_ok(sys.executable, MAKE_MODEL, "mlp", "-o", "mlp.onnx", "--seed", "1")
        output = self.run_ok(ONWARD, *LINE.split())
        self.assertRegex(output, r"epoch 5/5 .* val_accuracy 0\.8")
        self.assertGreater(os.path.getsize("trained.onnx"), 1_000_000)
        self.assertTrue(os.listdir("run"))
        # All is done: the same line again goes on from the end.
        self.assertNotIn("epoch 1/5", self.run_ok(ONWARD, *LINE.split()))

    def test_two_devices_are_as_accurate_as_keras(self):
        self.check("cpu:0,cpu:1")


if __name__ == "__main__":
    unittest.main()
