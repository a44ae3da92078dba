"""Models of every exporter are trained by the command; what comes out passes ONNX's checker,
loads in onnxruntime, and predicts there what `onward predict` predicts."""

import glob
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.abspath("../onnxruntime"))  # third_party/onnxruntime.BUILD
import numpy
import onnxruntime

from command_run import ONWARD, CommandCase

CHECK = os.path.abspath("tests/check_model")
MODELS = os.path.abspath("tests/models")
REFERENCES = sorted(glob.glob(os.path.abspath("tests/reference/training-*.json")))
ROWS = 21  # two batches of eight and a smaller one


class OtherRuntimeTest(CommandCase):
    def write_data(self, reference):
        """Random inputs and labels; gives them, and how the command names the inputs."""
        random = numpy.random.default_rng(7)
        inputs = {}
        for tensor in reference["inputs"]:
            inputs[tensor["name"]] = random.normal(size=[ROWS, *tensor["shape"][1:]]).astype("f4")
            numpy.save(tensor["name"] + ".npy", inputs[tensor["name"]])
        numpy.save("labels.npy", random.integers(0, reference["classes"], ROWS))
        return inputs, ",".join("%s=%s.npy" % (name, name) for name in inputs)

    def test_trained_files_predict_the_same_elsewhere(self):
        self.assertGreaterEqual(len(REFERENCES), 15)
        for path in REFERENCES:
            with open(path, encoding="utf-8") as f:
                reference = json.load(f)
            with self.subTest(reference["model"]):
                inputs, named = self.write_data(reference)
                model = os.path.join(MODELS, reference["model"])
                self.run_ok(ONWARD, "train", model, "--data", named, "--labels", "labels.npy",
                            "--loss", reference["loss"], "--optimizer", "adam", "--epochs", "2",
                            "--batch-size", "8", "--output", "trained.onnx")
                self.run_ok(CHECK, "trained.onnx")
                self.run_ok(ONWARD, "predict", "trained.onnx", "--data", named, "--batch-size", "8",
                            "--output", "predicted.npy")
                session = onnxruntime.InferenceSession("trained.onnx",
                                                       providers=["CPUExecutionProvider"])
                expected = session.run(None, inputs)[0]
                untrained = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
                self.assertGreater(numpy.abs(expected - untrained.run(None, inputs)[0]).max(), 1e-4,
                                   "training changed nothing")
                numpy.testing.assert_allclose(numpy.load("predicted.npy"), expected, rtol=1e-4,
                                              atol=1e-5)


if __name__ == "__main__":
    unittest.main()
