"""The process takes what `onward plan` forecast, within 10 % and a constant: what the
program itself takes, measured on a run that needs next to nothing."""

import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest

from command_run import ONWARD, CommandCase

MODELS = os.path.abspath("tests/models")
MLP = os.path.join(MODELS, "keras_mlp-keras_export-train.onnx")
CNN = os.path.join(MODELS, "keras_cnn-keras_export-train.onnx")
CLASSES = 10


def write_idx(path, dims):
    """Images of bytes, and their labels."""
    count = 1
    for d in dims:
        count *= d
    with open(path, "wb") as f:
        f.write(struct.pack(">BBBB", 0, 0, 8, len(dims)) + struct.pack(f">{len(dims)}I", *dims))
        f.write(bytes(range(251)) * (count // 251) + bytes(count % 251))
    with open(path + "-labels", "wb") as f:
        f.write(struct.pack(">II", 0x801, dims[0]) + bytes(i % CLASSES for i in range(dims[0])))


def run(*words):
    """The output of the command and the peak of its resident memory in bytes."""
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen([ONWARD, *words], stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read().decode()
    if process.returncode != 0:
        raise AssertionError(text)
    return text, usage.ru_maxrss * 1024


class MemoryTest(CommandCase):
    def forecast_and_peak(self, model, data, batch, *more):
        words = [model, "--data", data, "--labels", data + "-labels", "--rescale", "1/255", "--loss",
                 "sparse_categorical_crossentropy", "--optimizer", "adam", "--batch-size", str(batch),
                 "--threads", "2", *more]
        planned, _ = run("plan", *words, "--json")
        _, peak = run("train", *words, "--epochs", "1")
        return json.loads(planned.splitlines()[-1])["run"], peak

    def check(self, model, dims, rows, batch, *more):
        write_idx("small", [8, *dims])
        write_idx("large", [rows, *dims])
        small, small_peak = self.forecast_and_peak(model, "small", 8, *more)
        large, large_peak = self.forecast_and_peak(model, "large", batch, *more)
        program = small_peak - small["total_bytes"]
        total = large["total_bytes"]
        print(f"{os.path.basename(model)} {more}: forecast {total}, took {large_peak - program}, "
              f"the program {program}")
        self.assertGreater(total, 100 << 20)
        self.assertGreater(program, 0)
        self.assertLess(program, 100 << 20)
        self.assertAlmostEqual(large_peak - program, total, delta=0.1 * total)

    def test_mlp(self):
        self.check(MLP, [28, 28], 24000, 9000)

    def test_mlp_on_two_devices_with_validation(self):
        self.check(MLP, [28, 28], 24000, 9000, "--devices", "cpu:0,cpu:1", "--validation-split",
                   "0.25")

    def test_cnn(self):
        self.check(CNN, [32, 32, 3], 512, 512)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
