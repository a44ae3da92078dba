"""The real onward command on broken model files, full disks and folders that cannot be
written: one clear line, the right exit code, earlier files as they were, nothing left."""

import json
import os
import resource
import struct
import subprocess
import sys
import unittest

from command_run import ONWARD, CommandCase

MODELS = os.path.abspath("tests/models")
MODEL = os.path.join(MODELS, "keras_mlp-keras_export-train.onnx")
LIMIT = 40000  # bytes of a file on the full disk; the trained model has 200,000
ROWS = 60


def field(number, payload):
    """A protobuf field of bytes."""
    size, length = len(payload), bytearray()
    while True:
        length.append(size % 128 | (128 if size >= 128 else 0))
        size //= 128
        if not size:
            break
    return bytes([number << 3 | 2]) + bytes(length) + payload


def integer(number, value):
    return bytes([number << 3]) + bytes([value])


def external_model(location):
    """y = Add(x, w), and w's four numbers lie in the file `location`."""
    def value(name):
        dim = field(1, integer(1, 4))
        tensor = integer(1, 1) + field(2, field(1, integer(1, 2)) + dim)
        return field(1, name) + field(2, field(1, tensor))
    node = field(1, b"x") + field(1, b"w") + field(2, b"y") + field(4, b"Add")
    entry = field(1, b"location") + field(2, location.encode())
    weight = integer(1, 4) + integer(2, 1) + field(8, b"w") + field(13, entry) + integer(14, 1)
    graph = field(1, node) + field(2, b"g") + field(5, weight) + field(11, value(b"x"))
    return integer(1, 8) + field(7, graph + field(12, value(b"y"))) + field(8, integer(2, 17))


def mixing_model():
    """y = LpNormalization(x + w) over the batch of 2: no other batch means the same."""
    def value(name):
        dims = field(1, integer(1, 2)) + field(1, integer(1, 4))
        return field(1, name) + field(2, field(1, integer(1, 1) + field(2, dims)))
    axis = field(1, b"axis") + integer(3, 0) + bytes([20 << 3 & 127 | 128, 1, 2])
    add = field(1, b"x") + field(1, b"w") + field(2, b"h") + field(4, b"Add")
    norm = field(1, b"h") + field(2, b"y") + field(4, b"LpNormalization") + field(5, axis)
    weight = integer(1, 4) + integer(2, 1) + field(8, b"w") + field(9, struct.pack("4f", 1, 2, 3, 4))
    graph = field(1, add) + field(1, norm) + field(2, b"g") + field(5, weight)
    graph += field(11, value(b"x")) + field(12, value(b"y"))
    return integer(1, 8) + field(7, graph) + field(8, integer(2, 17))


def write_npy(path, rows, columns):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {columns}), }}\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        f.write(struct.pack(f"<{rows * columns}f", *(i % 7 for i in range(rows * columns))))


def fill_disk():
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))


class HostileCommandTest(CommandCase):
    def setUp(self):
        super().setUp()
        with open("images", "wb") as f:
            f.write(struct.pack(">IIII", 0x803, ROWS, 28, 28) + bytes(range(240)) * (ROWS * 784 // 240))
        with open("labels", "wb") as f:
            f.write(struct.pack(">II", 0x801, ROWS) + bytes(i % 10 for i in range(ROWS)))
        self.data = ["--data", "images", "--labels", "labels", "--rescale", "1/255"]
        self.loss = ["--loss", "sparse_categorical_crossentropy"]

    def test_broken_models(self):
        with open(MODEL, "rb") as f:
            sound = f.read()
        with open(ONWARD, "rb") as f:
            program = f.read(100000)
        files = {"empty": b"", "text": b"not a model\n", "zeros": bytes(1000),
                 "half": sound[:len(sound) // 2], "start": sound[:100],
                 "program": program, "absent-data": external_model("no.bin"),
                 "above": external_model("../up.bin"), "absolute": external_model("/etc/passwd"),
                 "device": external_model("/dev/zero")}
        for name, content in files.items():
            with open(name + ".onnx", "wb") as f:
                f.write(content)
        os.mkdir("folder.onnx")
        os.mkfifo("pipe.onnx")
        for name in [*files, "folder", "pipe", "nowhere"]:
            for words in (["inspect"], ["train", *self.data, *self.loss], ["plan", *self.loss]):
                with self.subTest(name=name, command=words[0]):
                    line = self.run_onward(words[0], name + ".onnx", *words[1:], code=3)
                    self.assertIn(name + ".onnx: ", line)

    def test_external_data(self):
        with open("w.bin", "wb") as f:
            f.write(struct.pack("4f", 1, 2, 3, 4))
        with open("m.onnx", "wb") as f:
            f.write(external_model("w.bin"))
        self.assertIn("it can be trained here", self.run_onward("inspect", "m.onnx"))
        with open("w.bin", "wb") as f:
            f.write(bytes(15))
        self.assertIn("expected 16", self.run_onward("inspect", "m.onnx", code=3))

    def test_data_that_is_cut_short_while_it_trains(self):
        rows = 90000  # more than is read as a whole
        with open("large.npy", "wb") as f:
            header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (90000, 28, 28), }\n"
            f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
            f.truncate(f.tell() + rows * 784)
        with open("labels", "wb") as f:
            f.write(struct.pack(">II", 0x801, rows) + bytes(i % 10 for i in range(rows)))
        with subprocess.Popen(
                [ONWARD, "train", MODEL, "--data", "large.npy", "--labels", "labels", *self.loss,
                 "--batch-size", "1000", "--epochs", "1000"],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                if line.startswith("epoch 1/"):
                    os.truncate("large.npy", 10 << 20)
            errors = process.stderr.read()
            self.assertEqual(process.wait(timeout=60), 4, errors)
        self.assertEqual(len(errors.splitlines()), 1, errors)
        self.assertIn("large.npy: ", errors)

    def test_a_batch_that_stays_fixed(self):
        with open("m.onnx", "wb") as f:
            f.write(mixing_model())
        write_npy("x.npy", 5, 4)
        self.assertIn("only --batch-size 2 fits", self.run_onward("inspect", "m.onnx"))
        train = ["train", "m.onnx", "--data", "x.npy", "--labels", "x.npy", "--loss", "mse",
                 "--epochs", "1", "--batch-size"]
        self.assertIn("--drop-last", self.run_onward(*train, "2", code=3))
        self.assertIn("2 steps", self.run_onward(*train, "2", "--drop-last"))
        self.assertIn("2", self.run_onward(*train, "5", code=3))

    def test_names_that_are_no_text(self):
        with open(MODEL, "rb") as f:
            sound = f.read()
        with open("m.onnx", "wb") as f:
            f.write(sound.replace(b"dense", b"\xff\n\x1b\x00\x80"))
        found = json.loads(self.run_onward("inspect", "m.onnx", "--json"))
        self.assertTrue(found["parameters"])

    def test_inspect_tells_what_trains(self):
        found = json.loads(self.run_onward("inspect", MODEL, "--json"))
        self.assertTrue(found["trainable"])
        self.assertEqual(len(found["parameters"]), 4)
        # Not ONNX, whatever its exporter says.
        line = self.run_onward("inspect", os.path.join(MODELS, "keras_cnn-tf2onnx_function-train.onnx"),
                               code=3)
        self.assertIn("ONNX has no operator StatelessRandomUniformV2", line)
        self.assertIn("export again in inference form (from Keras with tools/keras_export.py)", line)

    def expect_untouched(self, *words, path):
        """The command fails, and `path`, which was there, is as it was; nothing else is new."""
        with open(path, "wb") as f:
            f.write(b"the earlier one")
        before = sorted(os.listdir("."))
        line = self.run_onward(*words, code=8, preexec_fn=fill_disk)
        self.assertIn(path, line)
        with open(path, "rb") as f:
            self.assertEqual(f.read(), b"the earlier one")
        self.assertEqual(sorted(os.listdir(".")), before)

    def test_a_full_disk(self):
        train = ["train", MODEL, *self.data, *self.loss, "--epochs", "1"]
        self.expect_untouched(*train, "--output", "trained.onnx", path="trained.onnx")
        self.run_onward(*train, "--checkpoint-dir", "run")
        self.expect_untouched("export", MODEL, "--checkpoint-dir", "run", "--output", "e.onnx",
                              path="e.onnx")
        with open("many", "wb") as f:
            f.write(struct.pack(">IIII", 0x803, 3000, 28, 28) + bytes(3000 * 784))
        for name in "p.npy", "p.npz", "p.csv":
            self.expect_untouched("predict", MODEL, "--data", "many", "--output", name, path=name)

    def test_a_checkpoint_on_a_full_disk(self):
        train = ["train", MODEL, *self.data, *self.loss, "--checkpoint-dir", "run"]
        self.run_onward(*train, "--epochs", "1")
        before = sorted(os.listdir("run"))
        self.run_onward(*train, "--epochs", "2", "--resume", "auto", code=8,
                        preexec_fn=fill_disk)
        self.assertEqual(sorted(os.listdir("run")), before)
        # The earlier one still serves.
        self.run_onward(*train, "--epochs", "2", "--resume", "auto")

    def test_folders_that_cannot_be_written(self):
        with open("file", "w"):
            pass
        train = ["train", MODEL, *self.data, *self.loss, "--epochs", "1"]
        for path in "file/t.onnx", "absent/t.onnx", "/proc/t.onnx", ".":
            with self.subTest(path=path):
                self.run_onward(*train, "--output", path, code=8)
                self.run_onward("predict", MODEL, "--data", "images", "--output",
                                path if path == "." else path.replace("onnx", "npy"), code=8)
        for path in "file/run", "/proc/run":
            with self.subTest(path=path):
                self.run_onward(*train, "--checkpoint-dir", path, code=8)

    def test_misspelt_flags(self):
        for wrong, right in [("--optimiser", "--optimizer"), ("--epoch", "--epochs"),
                             ("--learningrate", "--learning-rate"), ("--batchsize", "--batch-size"),
                             ("--checkpoint-dri", "--checkpoint-dir"), ("--ouput", "--output"),
                             ("--lables", "--labels"), ("--freze", "--freeze")]:
            with self.subTest(wrong=wrong):
                line = self.run_onward("train", MODEL, *self.data, *self.loss, wrong, "x", code=2)
                self.assertIn(right, line)
        for value, right in [("--optimizer adm", "adam"), ("--loss cros_entropy", "cross_entropy"),
                             ("--metrics acuracy", "accuracy")]:
            with self.subTest(value=value):
                line = self.run_onward("train", MODEL, *self.data, *self.loss, *value.split(), code=2)
                self.assertIn(right, line)
        self.assertIn("train", self.run_onward("trian", MODEL, code=2))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
