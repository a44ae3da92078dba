"""The backend test suite of ONNX, run as users of onnx.backend do.

Its node tests are generated when they are loaded, the others lie in the package. A case
that is left out stands in LEFT_OUT with its reason; everything else must pass, and
COUNTS says how many there are, so that cases cannot vanish.
"""

import os
import sys
import unittest
import warnings

for package in ("keras", "onnxruntime"):  # third_party/keras.BUILD: ONNX; and numpy
    sys.path.insert(0, os.path.abspath(os.path.join("..", package)))
sys.path.insert(0, os.path.abspath("backend/python"))
warnings.simplefilter("ignore")

import numpy
import onnx
import onnx.backend.test.loader
import onnx.numpy_helper

import onward.backend

# Cases of each kind, and how many of them at least must pass.
COUNTS = {"node": (1884, 1860), "simple": (23, 23), "pytorch-converted": (82, 82),
          "pytorch-operator": (35, 35)}

HALF_ATTENTION = [
    "test_attention_%s%s" % (name, expanded)
    for name in ("4d_causal_bf16", "4d_padded_kv_bf16", "4d_causal_padded_kv_bf16",
                 "4d_attn_mask_causal_bf16", "3d_causal_bf16")
    for expanded in ("", "_expanded")
] + ["test_attention_4d_causal_fp16_expanded"]

# Name of the case, or what it begins with, before '*': why it is left out.
LEFT_OUT = {
    "test_bernoulli*": "draws from numpy's generator, and ONNX lets a backend draw from any",
    "test_training_dropout": "its mask is drawn from numpy's generator",
    "test_training_dropout_default": "its mask is drawn from numpy's generator",
    "test_training_dropout_mask": "its mask is drawn from numpy's generator",
    "test_training_dropout_default_mask": "its mask is drawn from numpy's generator",
    "test_dft_inverse": "expects the rounding errors of numpy's transform, 1.9e-7 for zeros",
    "test_dft_inverse_opset19": "expects the rounding errors of numpy's transform",
    **{name: "expects the sums inside of softmax rounded to 16 bits at every step; here a node is "
             "rounded once" for name in HALF_ATTENTION},
    "test_scan_sum": "Scan of opset 8, which had a batch axis and which nobody writes",
}


def reason_to_leave_out(name):
    for pattern, reason in LEFT_OUT.items():
        if name == pattern or (pattern.endswith("*") and name.startswith(pattern[:-1])):
            return reason
    return None


def stored_value(path, declared):
    """The value in a .pb file, of the kind that the model declares."""
    with open(path, "rb") as f:
        content = f.read()
    kind = declared.type.WhichOneof("value")
    proto = {"sequence_type": onnx.SequenceProto, "optional_type": onnx.OptionalProto}.get(
        kind, onnx.TensorProto)()
    proto.ParseFromString(content)
    if kind == "sequence_type":
        return onnx.numpy_helper.to_list(proto)
    if kind == "optional_type":
        return onnx.numpy_helper.to_optional(proto)
    return onnx.numpy_helper.to_array(proto)


def stored_case(folder):
    """Model and data sets of a case that lies in a folder."""
    model = onnx.load(os.path.join(folder, "model.onnx"))
    sets = []
    for name in sorted(os.listdir(folder)):
        if not name.startswith("test_data_set_"):
            continue
        where = os.path.join(folder, name)

        def values(kind, declared):
            count = sum(file.startswith(kind) for file in os.listdir(where))
            return [stored_value(os.path.join(where, "%s_%d.pb" % (kind, i)), declared[i])
                    for i in range(count)]

        sets.append((values("input", model.graph.input), values("output", model.graph.output)))
    return model, sets


class BackendSuiteTest(unittest.TestCase):
    def check(self, got, expected, rtol, atol):
        if expected is None:
            self.assertIsNone(got)
        elif isinstance(expected, (list, tuple)):
            self.assertEqual(len(got), len(expected))
            for one, other in zip(got, expected):
                self.check(one, other, rtol, atol)
        else:
            if isinstance(expected, onnx.TensorProto):
                expected = onnx.numpy_helper.to_array(expected)
            expected = numpy.asarray(expected)
            self.assertEqual(got.shape, expected.shape)
            if expected.dtype.kind in "OUS":
                self.assertEqual(got.astype(str).tolist(), expected.astype(str).tolist())
                return
            self.assertEqual(got.dtype, expected.dtype)
            if got.dtype.kind in "iub":
                numpy.testing.assert_array_equal(got, expected)
            else:
                numpy.testing.assert_allclose(got.astype("f8"), expected.astype("f8"), rtol=rtol,
                                              atol=atol)

    def run_case(self, case):
        model, sets = case.model, case.data_sets
        if model is None:
            model, sets = stored_case(case.model_dir)
        self.assertTrue(sets, "it has no data")
        prepared = onward.backend.prepare(model, "CPU", threads=1)
        for inputs, expected in sets:
            got = prepared.run(list(inputs))
            self.assertEqual(len(got), len(expected))
            for one, other in zip(got, expected):
                self.check(one, other, case.rtol, case.atol)

    def run_kind(self, kind):
        cases = onnx.backend.test.loader.load_model_tests(kind=kind)
        total, least = COUNTS[kind]
        self.assertEqual(len(cases), total)
        passed = 0
        for case in cases:
            if reason_to_leave_out(case.name) is not None:
                continue
            with self.subTest(case.name):
                self.run_case(case)
                passed += 1
        print("%s: %d of %d passed" % (kind, passed, total))
        self.assertGreaterEqual(passed, least)

    def test_node(self):
        self.run_kind("node")

    def test_simple(self):
        self.run_kind("simple")

    def test_pytorch_converted(self):
        self.run_kind("pytorch-converted")

    def test_pytorch_operator(self):
        self.run_kind("pytorch-operator")

    def test_every_reason_is_of_a_case(self):
        names = [c.name for c in onnx.backend.test.loader.load_model_tests(kind="node")]
        for pattern in LEFT_OUT:
            self.assertTrue(any(reason_to_leave_out(name) == LEFT_OUT[pattern] for name in names),
                            pattern)


class FaceTest(unittest.TestCase):
    """What the suite does not ask of the backend."""

    def test_run_node(self):
        node = onnx.helper.make_node("Add", ["a", "b"], ["c"])
        a = numpy.ones((2, 3), "f4")
        got = onward.backend.run_node(node, [a, a])
        numpy.testing.assert_array_equal(got.c, a + a)

    def test_devices(self):
        self.assertTrue(onward.backend.supports_device("CPU"))
        self.assertFalse(onward.backend.supports_device("CUDA:0"))

    def test_an_error_is_one_line_with_its_code(self):
        node = onnx.helper.make_node("MatMul", ["a", "b"], ["c"])
        graph = onnx.helper.make_graph(
            [node], "wrong", [onnx.helper.make_tensor_value_info("a", 1, [2, 3]),
                              onnx.helper.make_tensor_value_info("b", 1, [4, 5])],
            [onnx.helper.make_tensor_value_info("c", 1, ["m", "n"])])
        model = onnx.helper.make_model(graph)
        with self.assertRaises(onward.OnwardError) as caught:
            onward.backend.run_model(model, [numpy.ones((2, 3), "f4"), numpy.ones((4, 5), "f4")])
        self.assertEqual(caught.exception.code, 3)
        self.assertIn("node 'c' (MatMul", str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))

    def test_inputs_by_name_and_other_shapes(self):
        graph = onnx.helper.make_graph(
            [onnx.helper.make_node("Sub", ["a", "b"], ["c"])], "open",
            [onnx.helper.make_tensor_value_info("a", 1, ["n"]),
             onnx.helper.make_tensor_value_info("b", 1, ["n"])],
            [onnx.helper.make_tensor_value_info("c", 1, ["n"])])
        model = onward.Model(onnx.helper.make_model(graph))
        for n in (1, 3, 0):
            a = numpy.arange(n, dtype="f4")
            (c,) = model.run({"b": a, "a": 2 * a})
            numpy.testing.assert_array_equal(c, a)


if __name__ == "__main__":
    unittest.main()
