"""The command's main, linked with commands that only say what they were given."""

import json
import os
import pathlib
import subprocess
import unittest

ONWARD = pathlib.Path("tools/onward/fake_onward").resolve()
TRAIN = ["train", "m.onnx", "--data", "x.npy", "--labels", "y.npy", "--loss", "mse"]


def onward(*arguments):
    return subprocess.run([ONWARD, *arguments], capture_output=True, check=False)


class Main(unittest.TestCase):
    def test_each_command_is_called(self):
        data = ["--data", "x.npy"]
        for arguments in (
            TRAIN,
            ["evaluate", "m.onnx", *data, "--labels", "y.npy", "--loss", "mse"],
            ["predict", "m.onnx", *data, "-o", "p.npy"],
            ["inspect", "m.onnx"],
            ["plan", "m.onnx", "--loss", "mse"],
            ["export", "m.onnx", "--checkpoint", "c", "-o", "t.onnx"],
        ):
            done = onward(*arguments)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout.decode(), arguments[0] + " m.onnx\n")
            self.assertEqual(done.stderr, b"")

    def test_operators_is_called_without_a_model(self):
        self.assertEqual(onward("operators").stdout, b"operators 0\n")
        self.assertEqual(onward("operators", "--json").stdout, b"operators 1\n")

    def test_a_status_becomes_its_exit_code_and_one_line(self):
        for code in (1, 2, 3, 4, 5, 6, 7, 8, 42, 130):
            done = onward(*TRAIN, "--seed", str(code))
            self.assertEqual(done.returncode, code)
            self.assertEqual(done.stderr, b'onward: ended "%d"\xff\n' % code)

    def test_json_has_the_error_too(self):
        done = onward(*TRAIN, "--seed", "4", "--json")
        self.assertEqual(done.returncode, 4)
        error = json.loads(done.stdout.decode().splitlines()[-1])
        self.assertEqual((error["event"], error["code"]), ("error", 4))
        self.assertIn('ended "4"', error["error"])
        done = onward("train", "--json", "--lerning-rate", "1")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--learning-rate", json.loads(done.stdout)["error"])

    def test_a_reader_that_goes_away_ends_nothing(self):
        for arguments in (["train", "--help"], ["inspect", "m.onnx"]):
            reading, writing = os.pipe()
            os.close(reading)
            done = subprocess.run([ONWARD, *arguments], stdout=writing, stderr=subprocess.PIPE,
                                  check=False)
            os.close(writing)
            self.assertEqual((done.returncode, done.stderr), (0, b""))

    def test_exceptions_stop_here(self):
        done = onward(*TRAIN, "--steps", "1")
        self.assertEqual((done.returncode, done.stderr), (1, b"onward: thrown\n"))
        done = onward(*TRAIN, "--steps", "2")
        self.assertEqual((done.returncode, done.stderr), (3, b"onward: out of memory\n"))

    def test_help_and_configuration_go_to_standard_output(self):
        done = onward("--help")
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertIn(b"Commands:", done.stdout)
        done = onward("train", "--epochs", "7", "--print-config")
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"epochs: 7\n", done.stdout)

    def test_a_full_disk_is_an_error(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([ONWARD, "--help"], stdout=full, check=False)
        self.assertEqual(done.returncode, 8)


if __name__ == "__main__":
    unittest.main()
