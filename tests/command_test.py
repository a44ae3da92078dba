"""Runs the real onward command on small data, as a user does: training, resuming,
evaluating, predicting, exporting, and every kind of mistake with its exit code."""

import gzip
import json
import os
import signal
import struct
import subprocess
import sys
import time
import unittest

from command_run import ONWARD, CommandCase

MODEL = os.path.abspath("tests/models/keras_mlp-keras_export-train.onnx")
CNN = os.path.abspath("tests/models/keras_cnn-keras_export-train.onnx")
CLASSES = 10


def noise(n, seed):
    """n bytes that a linear congruential generator makes."""
    out, state = bytearray(), seed * 2654435761 % 2**32
    for _ in range(n):
        state = (state * 1664525 + 1013904223) % 2**32
        out.append(state >> 24)
    return bytes(out)


def write_images(path, rows, seed=1):
    """IDX images in which a bright row of pixels tells the class, and their labels."""
    labels = [(i * 7 + seed) % CLASSES for i in range(rows)]
    data = bytearray(b // 4 for b in noise(rows * 784, seed))
    for i, label in enumerate(labels):
        start = i * 784 + label * 56
        data[start:start + 56] = b"\xe0" * 56
    with gzip.open(path + "-images.gz", "wb") as f:
        f.write(struct.pack(">IIII", 0x803, rows, 28, 28) + bytes(data))
    with gzip.open(path + "-labels.gz", "wb") as f:
        f.write(struct.pack(">II", 0x801, rows) + bytes(labels))


def write_python_batch(path, records):
    """CIFAR-10's records as pickle.dump(..., protocol=2) writes {"labels": [...], "data": NumPy's
    array}."""
    def text(word):
        return b"X" + struct.pack("<I", len(word)) + word
    data = text(b"".join(r[1:] for r in records).decode("latin1").encode())
    shape = b"J" + struct.pack("<i", len(records)) + b"M" + struct.pack("<H", 3072)
    dtype = (b"cnumpy\ndtype\n" + text(b"u1") + b"K\x00K\x01\x87R(K\x03" + text(b"|") +
             b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb")
    labels = b"](" + b"".join(b"K" + r[:1] for r in records) + b"e"
    with open(path, "wb") as f:
        f.write(b"\x80\x02}(" + text(b"labels") + labels + text(b"data") +
                b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + text(b"b") +
                b"\x87R(K\x01" + shape + b"\x86" + dtype + b"\x89c_codecs\nencode\n" + data +
                text(b"latin1") + b"\x86Rtbu.")


class CommandTest(CommandCase):
    def setUp(self):
        super().setUp()
        write_images("train", 150)
        write_images("test", 70, seed=2)

    def train(self, *more, code=0, epochs="3"):
        return self.run_onward(
            "train", MODEL, "--data", "train-images.gz", "--labels", "train-labels.gz",
            "--rescale", "1/255", "--loss", "sparse_categorical_crossentropy", "--optimizer", "adam",
            "--metrics", "accuracy", "--epochs", epochs, "--batch-size", "32", "--seed", "1", *more,
            code=code)

    def evaluate(self, model, *more):
        text = self.run_onward(
            "evaluate", model, "--data", "test-images.gz", "--labels", "test-labels.gz",
            "--rescale", "1/255", "--loss", "sparse_categorical_crossentropy", "--metrics",
            "accuracy", "--json", *more)
        events = [json.loads(line) for line in text.splitlines()]
        return [e for e in events if e["event"] == "evaluated"][0]["metrics"]

    def test_trains_and_the_trained_file_is_better(self):
        text = self.train("--output", "trained.onnx", "--validation-data", "test-images.gz",
                          "--validation-labels", "test-labels.gz", epochs="6")
        self.assertIn("val_accuracy", text)
        before, after = self.evaluate(MODEL), self.evaluate("trained.onnx")
        self.assertLess(after["loss"], before["loss"])
        self.assertGreater(after["accuracy"], 0.9)

    def test_devices_give_the_same_metrics(self):
        self.train("--devices", "cpu:0,cpu:1", "--output", "two.onnx")
        self.train("--devices", "cpu:0", "--threads", "1", "--output", "one.onnx")
        two, one = self.evaluate("two.onnx"), self.evaluate("one.onnx", "--devices", "cpu:0,cpu:1")
        self.assertAlmostEqual(two["loss"], one["loss"], places=4)

    def test_resumed_is_uninterrupted_bit_for_bit(self):
        self.train("--output", "whole.onnx", "--threads", "1")
        # 150 samples in batches of 32: step 7 lies in the middle of the second epoch.
        self.train("--steps", "7", "--checkpoint-dir", "run", "--save-every", "7", "--threads", "1")
        text = self.train("--checkpoint-dir", "run", "--save-every", "7", "--resume", "auto",
                          "--output", "resumed.onnx", "--threads", "1")
        self.assertIn("resumed from", text)
        with open("whole.onnx", "rb") as a, open("resumed.onnx", "rb") as b:
            self.assertEqual(a.read(), b.read())
        self.assertIn("nothing to do", self.train("--checkpoint-dir", "run", "--save-every", "7",
                                                  "--resume", "auto", "--threads", "1"))

    def test_a_folder_with_checkpoints_is_not_mixed_with_another_run(self):
        run = ["--checkpoint-dir", "run", "--save-every", "3"]
        self.train("--steps", "6", *run)
        before = sorted(os.listdir("run"))
        for more in [[], ["--resume", "never"], ["--resume", "run/step-00000003"]]:
            line = self.train(*run, *more, code=2)
            self.assertIn("run: holds the checkpoints of a run up to step 6; --resume auto", line)
            self.assertEqual(sorted(os.listdir("run")), before)
        self.assertIn("resumed from", self.train("--steps", "7", *run, "--resume",
                                                 "run/step-00000006"))
        self.train("--steps", "3", "--checkpoint-dir", "other", "--resume", "run/step-00000003")

    def test_the_choice_of_auto_is_printed(self):
        text = self.train("--threads", "1", epochs="1")
        self.assertIn("devices: cpu:0 (1 thread), chosen by auto\n", text)
        self.assertNotIn("chosen by auto", self.train("--devices", "cpu:0", epochs="1"))

    # By a delta of 10 the first epoch stays the best.
    def test_a_run_that_stopped_early_stays_stopped(self):
        flags = ["--checkpoint-dir", "run", "--resume", "auto", "--early-stopping", "--monitor",
                 "loss", "--min-delta", "10", "--threads", "1"]
        first = self.train(*flags, "--patience", "2", "--output", "a.onnx", epochs="30")
        given = "the parameters of epoch 1, the best, are given back"
        self.assertIn(given, first)
        again = self.train(*flags, "--patience", "2", "--output", "b.onnx", epochs="30")
        self.assertIn("nothing to do", again)
        # More patience goes on, and still knows the best.
        more = self.train(*flags, "--patience", "3", "--output", "c.onnx", epochs="30")
        self.assertNotIn("nothing to do", more)
        self.assertIn("epoch 4/30", more)
        self.assertIn(given, more)
        texts = []
        for name in ["a.onnx", "b.onnx", "c.onnx"]:
            with open(name, "rb") as f:
                texts.append(f.read())
        self.assertEqual(texts[0], texts[1])
        self.assertEqual(texts[0], texts[2])

    # The loss shrinks by little in each epoch: by Keras' own deltas of 0 and 1e-4 only the
    # plateau sees no improvement, by one of 10 both do.
    def test_each_callback_has_its_own_delta(self):
        flags = ["--optimizer", "sgd", "--learning-rate", "1e-6", "--validation-data",
                 "train-images.gz", "--validation-labels", "train-labels.gz", "--early-stopping",
                 "--patience", "1", "--reduce-lr-on-plateau", "--reduce-lr-patience", "1"]
        text = self.train(*flags)
        self.assertIn("learning rate lowered", text)
        self.assertNotIn("early stopping", text)
        text = self.train(*flags, "--reduce-lr-min-delta", "0")
        self.assertNotIn("learning rate lowered", text)
        text = self.train(*flags, "--reduce-lr-min-delta", "0", "--min-delta", "10")
        self.assertNotIn("learning rate lowered", text)
        self.assertIn("early stopping", text)
        text = self.train(*flags, "--min-delta", "10", "--patience", "9")
        self.assertIn("learning rate lowered", text)

    def test_standardizing_knows_the_training_data_alone(self):
        with gzip.open("train-images.gz") as f:
            images = bytearray(f.read())
        half = 16 + 75 * 784
        images[half:] = bytes(len(images) - half)  # the part for validation is black
        with gzip.open("train-images.gz", "wb") as f:
            f.write(bytes(images))
        flags = ["--standardize", "--validation-split", "0.5", "--checkpoint-dir", "run", "--threads",
                 "1"]
        self.train(*flags, "--steps", "2", "--save-every", "1")
        with open(os.path.join("run", sorted(os.listdir("run"))[-1], "manifest.json")) as f:
            kept = json.load(f)["training"]["onward.standardize"]
        mean, = [s["mean"] for s in kept.values()]
        self.assertAlmostEqual(sum(mean) / len(mean), sum(images[16:half]) / (75 * 784) / 255,
                               places=9)
        self.assertIn("--standardize", self.train("--resume", "auto", "--validation-split", "0.4",
                                                  *flags[:1], *flags[3:], code=7))
        self.train(*flags, "--resume", "auto", "--output", "trained.onnx")
        # Other data: what it is brought to is what the training data was.
        rows = ["--data", "test-images.gz", "--labels", "test-labels.gz"]
        self.run_onward("export", MODEL, "--checkpoint-dir", "run", "--output", "exported.onnx")
        with open("trained.onnx", "rb") as a, open("exported.onnx", "rb") as b:
            self.assertEqual(a.read(), b.read())
        checkpoint = os.path.join("run", sorted(n for n in os.listdir("run") if "step" in n)[-1])
        by_file = self.evaluate("trained.onnx", "--standardize")
        self.assertEqual(by_file, self.evaluate(MODEL, "--standardize", "--checkpoint", checkpoint))
        self.assertNotEqual(by_file, self.evaluate("trained.onnx"))
        line = self.run_onward("evaluate", MODEL, *rows, "--standardize", "--loss",
                               "sparse_categorical_crossentropy", code=2)
        self.assertIn("is not known", line)

    def test_dropped_biases_train_again(self):
        model = MODEL.replace("keras_export-train", "kerasexport_tensorflow-eval")
        flags = ["--data", "train-images.gz", "--labels", "train-labels.gz", "--rescale", "1/255",
                 "--loss", "sparse_categorical_crossentropy", "--optimizer", "adam", "--seed", "1",
                 "--batch-size", "32", "--threads", "1", "--epochs", "3"]
        plain = self.run_onward("train", model, *flags, "--output", "plain.onnx")
        self.assertNotIn("bias", plain)
        text = self.run_onward("train", model, *flags, "--restore-biases", "--output", "whole.onnx")
        self.assertIn("biases that were dropped train again, from zero: ", text)
        self.assertEqual(text.count("is back"), 2, text)
        self.run_onward("train", model, *flags, "--restore-biases", "--steps", "7",
                        "--checkpoint-dir", "run")
        self.run_onward("train", model, *flags, "--restore-biases", "--resume", "auto",
                        "--checkpoint-dir", "run", "--output", "resumed.onnx")
        self.run_onward("export", model, "--checkpoint-dir", "run", "--output", "exported.onnx")
        with open("whole.onnx", "rb") as f:
            whole = f.read()
        for other in ["resumed.onnx", "exported.onnx"]:
            with open(other, "rb") as f:
                self.assertEqual(f.read(), whole)
        # The biases have moved, and both ways of predicting know them.
        checkpoint = os.path.join("run", sorted(n for n in os.listdir("run") if "step" in n)[-1])
        data = ["--data", "test-images.gz", "--rescale", "1/255", "--output"]
        self.run_onward("predict", "whole.onnx", *data, "a.csv")
        self.run_onward("predict", model, "--checkpoint", checkpoint, *data, "b.csv")
        self.run_onward("predict", "plain.onnx", *data, "c.csv")
        texts = []
        for name in ["a.csv", "b.csv", "c.csv"]:
            with open(name) as f:
                texts.append(f.read().split("\n", 1)[1])
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(texts[0], texts[2])

    def test_fixed_shards_do_not_depend_on_devices(self):
        self.train("--shards", "4", "--devices", "cpu:0", "--output", "a.onnx")
        self.train("--shards", "4", "--devices", "cpu:0,cpu:1,cpu:2", "--output", "b.onnx")
        with open("a.onnx", "rb") as a, open("b.onnx", "rb") as b:
            self.assertEqual(a.read(), b.read())

    def test_a_checkpoint_is_exported_and_predicts(self):
        self.train("--checkpoint-dir", "run", "--output", "trained.onnx")
        self.run_onward("export", MODEL, "--checkpoint-dir", "run", "--output", "exported.onnx")
        with open("trained.onnx", "rb") as a, open("exported.onnx", "rb") as b:
            self.assertEqual(a.read(), b.read())
        self.run_onward("predict", "trained.onnx", "--data", "test-images.gz", "--rescale", "1/255",
                        "--output", "p.csv")
        with open("p.csv") as f:
            rows = [[float(x) for x in line.split(",")] for line in f.read().splitlines()[1:]]
        self.assertEqual(len(rows), 70)
        for row in rows:
            self.assertAlmostEqual(sum(row), 1, places=4)

    def test_early_stopping_gives_back_the_best(self):
        text = self.train("--validation-data", "test-images.gz", "--validation-labels",
                          "test-labels.gz", "--early-stopping", "--patience", "1",
                          "--learning-rate", "0.5", "--output", "t.onnx", epochs="30")
        self.assertIn("early stopping", text)
        self.assertIn("given back", text)

    def test_cifar_files_hold_their_labels(self):
        loss = ["--loss", "sparse_categorical_crossentropy"]
        records = [bytes([i % CLASSES]) + noise(64, i) * 48 for i in range(32)]
        for name in ("data_batch_1.bin", "data_batch_2.bin"):
            with open(name, "wb") as f:
                f.write(b"".join(records))
        for prefix in ("", "input_layer="):
            text = self.run_onward(
                "train", CNN, "--data", prefix + "data_batch_1.bin,data_batch_2.bin", *loss,
                "--validation-data", prefix + "data_batch_2.bin", "--rescale", "1/255", "--metrics",
                "accuracy", "--batch-size", "32")
            self.assertIn("data_batch_1.bin: 'labels' is taken as the labels", text)
            self.assertIn("val_accuracy", text)
        error = self.run_onward("train", MODEL, "--data", "train-images.gz", *loss, code=2)
        self.assertIn("--labels is missing", error)
        self.assertIn("CIFAR's batches", error)
        # The Python batches of the same images say the same.
        write_python_batch("data_batch_1", records)
        metrics = []
        for name in ("data_batch_1.bin", "data_batch_1"):
            text = self.run_onward("evaluate", CNN, "--data", name, *loss, "--rescale", "1/255",
                                   "--metrics", "accuracy")
            self.assertIn(name + ": 'labels' is taken as the labels", text)
            metrics.append(text.splitlines()[-1])
            text = self.run_onward("predict", CNN, "--data", name, "--rescale", "1/255",
                                   "--output", name + ".npy")
            self.assertIn(name + ": 'labels' holds labels, which are not used", text)
            self.assertNotIn("taken", text)
        self.assertIn("accuracy", metrics[0])
        self.assertEqual(*metrics)
        with open("data_batch_1.npy", "rb") as a, open("data_batch_1.bin.npy", "rb") as b:
            self.assertEqual(a.read(), b.read())
        self.run_onward("train", CNN, "--data", "data_batch_1,data_batch_2.bin", *loss,
                        "--validation-data", "data_batch_1", "--rescale", "1/255")

    def test_notes_are_those_of_the_command(self):
        data = ["--data", "test-images.gz", "--rescale", "1/255"]
        loss = ["--labels", "test-labels.gz", "--loss", "sparse_categorical_crossentropy"]
        trained = self.run_onward("train", MODEL, *data, *loss)
        evaluated = self.run_onward("evaluate", MODEL, *data, *loss)
        predicted = self.run_onward("predict", MODEL, *data, "-o", "p.npy")
        self.assertIn("1 Dropout node draws a mask\n", trained)
        self.assertIn("Softmax", trained)
        self.assertIn("Softmax", evaluated)
        for text in (evaluated, predicted):
            self.assertNotIn("Dropout", text)

    def test_a_learning_rate_that_changes_is_shown(self):
        words = ["--reduce-lr-on-plateau", "--reduce-lr-patience", "0", "--early-stopping",
                 "--patience", "2", "--learning-rate", "0.5"]
        text = self.train(*words, epochs="30")
        lowered, stopped = text.rfind("learning rate lowered"), text.find("early stopping")
        self.assertGreater(lowered, 0)
        self.assertGreater(stopped, lowered)
        lines = text.splitlines()
        at = next(i for i, line in enumerate(lines) if "lowered to 0.25" in line)
        self.assertIn("  learning rate 0.5  ", lines[at - 1])
        self.assertIn("  learning rate 0.25  ", lines[at + 1])
        self.assertNotIn("learning rate", self.train())
        # 150 samples in batches of 32: the epochs' last steps are those before 5, 10, 15.
        events = [json.loads(line) for line in self.train(
            "--schedule", "linear", "--learning-rate", "0.0015", "--json").splitlines()]
        rates = [e["learning_rate"] for e in events if e["event"] == "epoch"]
        for rate, expected in zip(rates, (0.0011, 0.0006, 0.0001)):
            self.assertAlmostEqual(rate, expected)
        self.assertEqual(len(rates), 3)

    def test_a_reader_that_goes_away_does_not_end_training(self):
        self.train("--output", "whole.onnx", "--threads", "1")
        with subprocess.Popen(
                [ONWARD, "train", MODEL, "--data", "train-images.gz", "--labels",
                 "train-labels.gz", "--rescale", "1/255", "--loss",
                 "sparse_categorical_crossentropy", "--optimizer", "adam", "--metrics", "accuracy",
                 "--epochs", "3", "--batch-size", "32", "--seed", "1", "--threads", "1",
                 "--output", "unread.onnx"],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            process.stdout.readline()
            process.stdout.close()
            errors = process.stderr.read()
            self.assertEqual((process.wait(timeout=60), errors), (0, ""))
        with open("whole.onnx", "rb") as a, open("unread.onnx", "rb") as b:
            self.assertEqual(a.read(), b.read())

    def test_accumulation_counts_batches_per_step(self):
        text = self.train("--accumulate", "2", epochs="1")
        self.assertIn("3 steps", text)

    def test_a_trace_shows_two_devices_at_once(self):
        rows = 256
        with open("images", "wb") as f:
            f.write(struct.pack(">IIIII", 0x804, rows, 32, 32, 3) + noise(1024, 3) * 3 * rows)
        with open("labels", "wb") as f:
            f.write(struct.pack(">II", 0x801, rows) + bytes(i % CLASSES for i in range(rows)))
        self.run_onward(
            "train", CNN, "--data", "images", "--labels", "labels", "--rescale", "1/255", "--loss",
            "sparse_categorical_crossentropy", "--batch-size", "128", "--epochs", "6", "--devices",
            "cpu:0,cpu:1", "--threads", "2", "--bucket-mb", "0.001", "--trace", "trace.json")
        with open("trace.json") as f:
            events = json.load(f)["traceEvents"]
        spans = [(e["pid"], e["ts"], e["ts"] + e["dur"]) for e in events
                 if e["ph"] == "X" and e["tid"] == 0]
        first = [s for s in spans if s[0] == 0]
        second = [s for s in spans if s[0] == 1]
        self.assertTrue(first and second)
        overlap = any(a[1] < b[2] and b[1] < a[2] for a in first for b in second)
        self.assertTrue(overlap, "the devices never computed at the same time")
        # The first bucket leaves before backward ends: in some step a device computes
        # backward after a collective has begun.
        mine = [e for e in events if e["ph"] == "X" and e["pid"] == 0]
        begun = [e["ts"] for e in mine if e["tid"] == 1000]
        backward = [e["ts"] + e["dur"] for e in mine if e["tid"] == 0 and e["cat"] == "backward"]
        updates = sorted(e["ts"] for e in mine if e["tid"] == 0 and e["cat"] == "update")
        early = [c for c in begun for b in backward
                 if c < b and not any(c < u < b for u in updates)]
        self.assertTrue(early, "no collective began before backward ended")

    def test_a_batch_size_that_is_fixed_in_the_model(self):
        source = os.path.join(os.path.dirname(MODEL), "mlp-torch-dynamo-default.onnx")
        with open(source, "rb") as f, open("fixed.onnx", "wb") as g:
            # Every batch of 2 becomes one of 5: of shapes (dim_value), and of the Reshape.
            model = f.read().replace(b"\x0a\x02\x08\x02\x0a", b"\x0a\x02\x08\x05\x0a")
            g.write(model.replace(struct.pack("<qq", 2, 784), struct.pack("<qq", 5, 784)))
        with open(source + ".data", "rb") as f, open(os.path.basename(source) + ".data", "wb") as g:
            g.write(f.read())
        self.assertIn("any batch trains here", self.run_onward("inspect", "fixed.onnx"))
        words = ["train", "fixed.onnx", "--data", "test-images.gz", "--labels", "test-labels.gz",
                 "--loss", "cross_entropy", "--rescale", "1/255", "--batch-size"]
        self.assertIn("14 steps", self.run_onward(*words, "5"))
        self.assertIn("10 steps", self.run_onward(*words, "7"))
        train = ["train-images.gz" if w == "test-images.gz" else
                 "train-labels.gz" if w == "test-labels.gz" else w for w in words]
        self.assertIn("24 steps", self.run_onward(*train, "5", "--validation-split", "0.2"))
        self.assertIn("30 steps", self.run_onward(*train, "5", "--validation-split", "0.015"))

    def test_plan_and_inspect(self):
        text = self.run_onward("plan", MODEL, "--loss", "cross_entropy", "--batch-size", "32",
                               "--devices", "cpu:0,cpu:1", "-o", "plan.onnx")
        self.assertIn("all-reduce 0", text)
        self.assertGreater(os.path.getsize("plan.onnx"), 0)
        for model in (MODEL, CNN):
            text = self.run_onward("inspect", model)
            self.assertIn("Gemm", text)
            outputs = [line for line in text.splitlines() if line.startswith("  output  ")]
            self.assertEqual(len(outputs), 1)
            self.assertTrue(outputs[0].endswith("  float32[batch, 10]"), outputs)
        found = json.loads(self.run_onward("inspect", MODEL, "--freeze", "*/dense/*", "--json"))
        self.assertEqual(found["trainable"], True)
        self.assertEqual([name.split("/")[-2] for name in found["parameters"]], ["dense_1"] * 2)
        self.assertEqual([name.split("/")[-2] for name in found["frozen"]], ["dense"] * 2)
        self.assertIn("'heads.*'", self.run_onward("inspect", MODEL, "--train-only", "heads.*",
                                                   code=2))

    def test_every_stage_of_the_walk_is_dumped(self):
        stages = ["import", "training", "loss", "gradients", "optimizer", "simplified", "fused",
                  "replicated", "plan"]
        text = self.run_onward("plan", MODEL, "--loss", "cross_entropy", "--dump", "all",
                               "--dump-dir", "stages")
        graphs = {s + ".onnx" for s in stages[:-1]}
        self.assertEqual(set(os.listdir("stages")), graphs | {s + ".txt" for s in stages})
        for stage in stages:
            self.assertGreater(os.path.getsize("stages/%s.txt" % stage), 100, text)
        self.run_onward("plan", MODEL, "--loss", "cross_entropy", "--dump", "plann", code=2)

    def test_mistakes(self):
        with open("broken.onnx", "wb") as f, open(MODEL, "rb") as m:
            f.write(m.read()[:2000])
        data = ["--data", "train-images.gz", "--labels", "train-labels.gz", "--rescale", "1/255"]
        loss = ["--loss", "sparse_categorical_crossentropy"]
        for code, words in [
            (3, ["train", "broken.onnx", *data, *loss]),
            (3, ["train", "absent.onnx", *data, *loss]),
            (2, ["train", MODEL, *data, "--loss", "sparse_categorical_crosentropy"]),
            (2, ["train", MODEL, *data, *loss, "--learning-rat", "1"]),
            (2, ["train", MODEL, *data]),
            (4, ["train", MODEL, "--data", "absent.npy", "--labels", "train-labels.gz", *loss]),
            (4, ["train", MODEL, "--data", "train-labels.gz", "--labels", "train-labels.gz", *loss]),
            (3, ["train", MODEL, *data, *loss, "--devices", "gpu:0"]),
            (2, ["train", MODEL, *data, *loss, "--devices", "cpu:0,cpu:0"]),
            (8, ["train", MODEL, *data, *loss, "--output", "/proc/trained.onnx"]),
            (7, ["train", MODEL, *data, *loss, "--checkpoint-dir", "none", "--resume", "latest"]),
            (5, ["train", MODEL, *data, *loss, "--learning-rate", "1e30", "--epochs", "5"]),
        ]:
            with self.subTest(words=words):
                self.run_onward(*words, code=code)

    def test_a_label_that_is_no_class_is_named(self):
        with gzip.open("train-labels.gz", "wb") as f:
            f.write(struct.pack(">II", 0x801, 150) + bytes([3] * 100 + [12] * 50))
        self.assertIn("12", self.train(code=4))

    def test_an_interrupt_saves(self):
        words = [ONWARD, "train", MODEL, "--data", "train-images.gz", "--labels",
                 "train-labels.gz", "--loss", "sparse_categorical_crossentropy", "--epochs",
                 "1000000", "--checkpoint-dir", "run", "--save-every", "1000000"]
        for number, code in [(signal.SIGINT, 130), (signal.SIGTERM, 42)]:
            process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       text=True)
            line = ""
            while not line.startswith("epoch"):
                line = process.stdout.readline()
                if not line:
                    self.fail("ended early: " + process.communicate()[1])
            process.send_signal(number)
            _, errors = process.communicate(timeout=60)
            self.assertEqual(process.returncode, code, errors)
            self.assertIn("saved in run", errors)
            self.assertTrue(any(n.startswith("step-") for n in os.listdir("run")))
            words += ["--resume", "auto"]


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
