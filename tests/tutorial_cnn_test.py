"""The tutorial's CNN, at its full size, trains through the command to its end: on two devices,
on data in CIFAR-10's binary form, with both callbacks, and the exported file is the best epoch's.

Batches are smaller than the tutorial's 64 per device: BatchNormalization's running statistics
follow by a hundredth in each step, and some hundred steps must pass before validation, in Keras
too, sees what was learnt."""

import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

ONWARD = os.path.abspath("tools/onward/onward")
MAKE_MODEL = os.path.abspath("tools/make_tutorial_model.py")
CLASSES = 10
SIDE = 32  # Images are 3 x 32 x 32 bytes.


def patterns(rng):
    """For each class a coarse coloured chequer of -1 and 1, as an image."""
    images = []
    for _ in range(CLASSES):
        grid = [rng.choice((-1, 1)) for _ in range(3 * 8 * 8)]
        images.append([grid[c * 64 + y // 4 * 8 + x // 4]
                       for c in range(3) for y in range(SIDE) for x in range(SIDE)])
    return images


def write_batch(path, rows, seed, contrast, wrong):
    """Rows of a label and an image: its class's pattern, faint in noise. The share `wrong` of the
    labels is drawn anew, so that what is learnt by heart makes the validation worse."""
    classes, rng = patterns(random.Random(7)), random.Random(seed)
    bright = bytes(min(255, 128 + contrast + (b - 128) // 2) for b in range(256))
    dark = bytes(max(0, 128 - contrast + (b - 128) // 2) for b in range(256))
    with open(path, "wb") as f:
        for i in range(rows):
            noise = rng.randbytes(3 * SIDE * SIDE)
            image = bytes(h if p > 0 else l for p, h, l in zip(
                classes[i % CLASSES], noise.translate(bright), noise.translate(dark)))
            label = rng.randrange(CLASSES) if rng.random() < wrong else i % CLASSES
            f.write(bytes([label]) + image)


class TutorialCnnTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(folder.cleanup)
        os.chdir(folder.name)

    def run_onward(self, *words):
        done = subprocess.run([ONWARD, *words, "--json"], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=800)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_trains_to_its_end_with_both_callbacks(self):
        subprocess.run([sys.executable, MAKE_MODEL, "cnn", "-o", "cnn.onnx", "--seed", "1"],
                       check=True)
        write_batch("data_batch_1.bin", 2400, 1, contrast=8, wrong=0.2)
        write_batch("test_batch.bin", 200, 2, contrast=8, wrong=0.2)
        measures = ["--rescale", "1/255", "--loss", "sparse_categorical_crossentropy", "--metrics",
                    "accuracy", "--devices", "cpu:0,cpu:1", "--batch-size", "32"]
        events = self.run_onward(
            "train", "cnn.onnx", "--data", "data_batch_1.bin", "--validation-data",
            "test_batch.bin", *measures, "--optimizer", "adam", "--learning-rate", "1e-3",
            "--epochs", "50", "--early-stopping", "--patience", "10", "--reduce-lr-on-plateau",
            "--reduce-lr-factor", "0.5", "--reduce-lr-patience", "5", "--seed", "1", "--output",
            "trained.onnx")
        notes = [e["text"] for e in events if e["event"] == "note"]
        epochs = [e for e in events if e["event"] == "epoch"]
        losses = [e["metrics"]["val_loss"] for e in epochs]
        best = losses.index(min(losses))

        # Stopped ten epochs after the best, whose parameters are in the file.
        self.assertLess(len(epochs), 50, losses)
        self.assertEqual(len(epochs), best + 11, losses)
        self.assertIn("early stopping: val_loss has not improved for 10 epochs", notes)
        self.assertIn("the parameters of epoch %d, the best, are given back" % (best + 1), notes)
        # It has learnt, and the end is worse than the best.
        self.assertGreater(epochs[best]["metrics"]["val_accuracy"], 0.6)
        self.assertGreater(losses[-1], losses[best])

        # The rate is halved at least once, and the epochs trained with it.
        rates = [e["learning_rate"] for e in epochs]
        self.assertIn("learning rate lowered to 0.0005", notes)
        self.assertEqual(rates[0], 1e-3)
        self.assertLessEqual(rates[-1], 5e-4)
        for before, after in zip(rates, rates[1:]):
            self.assertIn(after, (before, before / 2))

        evaluated, = [e["metrics"] for e in self.run_onward(
            "evaluate", "trained.onnx", "--data", "test_batch.bin", *measures)
            if e["event"] == "evaluated"]
        self.assertAlmostEqual(evaluated["loss"], losses[best], delta=1e-5 * losses[best])
        self.assertEqual(evaluated["accuracy"], epochs[best]["metrics"]["val_accuracy"])


if __name__ == "__main__":
    unittest.main()
