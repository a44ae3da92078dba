"""The tutorial's network reaches on Fashion-MNIST the accuracy of Keras (the mean of whose five
seeds tests/reference/fashion_mnist_keras.json holds) within half a point, on one device and on
two. The images are those of Debian's package dataset-fashion-mnist."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

ONWARD = os.path.abspath("tools/onward/onward")
MAKE_MODEL = os.path.abspath("tools/make_tutorial_model.py")
REFERENCE = os.path.abspath("tests/reference/fashion_mnist_keras.json")
DATA = "/usr/share/datasets/fashion-mnist/"
SEEDS = (1, 2, 3)


class FashionMnistTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(folder.cleanup)
        os.chdir(folder.name)

    def accuracy(self, seed, devices):
        """On the test set, after five epochs."""
        subprocess.run([sys.executable, MAKE_MODEL, "mlp", "-o", "mlp.onnx", "--seed", str(seed)],
                       check=True)
        done = subprocess.run(
            [ONWARD, "train", "mlp.onnx", "--data", DATA + "train-images-idx3-ubyte.gz",
             "--labels", DATA + "train-labels-idx1-ubyte.gz", "--rescale", "1/255",
             "--validation-data", DATA + "t10k-images-idx3-ubyte.gz",
             "--validation-labels", DATA + "t10k-labels-idx1-ubyte.gz",
             "--loss", "sparse_categorical_crossentropy", "--optimizer", "adam",
             "--learning-rate", "1e-3", "--metrics", "accuracy", "--epochs", "5",
             "--batch-size", "128", "--devices", devices, "--seed", str(seed), "--json"],
            capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=900)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        epochs = [e for e in map(json.loads, done.stdout.splitlines()) if e["event"] == "epoch"]
        self.assertEqual(len(epochs), 5)
        return epochs[-1]["metrics"]["val_accuracy"]

    def check(self, devices):
        with open(REFERENCE, encoding="utf-8") as f:
            expected = json.load(f)["test_accuracy_mean"]
        reached = [self.accuracy(seed, devices) for seed in SEEDS]
        self.assertAlmostEqual(sum(reached) / len(reached), expected, delta=0.005, msg=reached)

    def test_one_device_is_as_accurate_as_keras(self):
        self.check("cpu:0")

    def test_two_devices_are_as_accurate_as_keras(self):
        self.check("cpu:0,cpu:1")


if __name__ == "__main__":
    unittest.main()
