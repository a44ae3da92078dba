"""Operators of com.microsoft compute here what onnxruntime, whose they are, computes."""

import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.abspath("../onnxruntime"))  # third_party/onnxruntime.BUILD
import numpy
import onnxruntime

from command_run import ONWARD, CommandCase

MAKE_MODEL = os.path.abspath("tests/make_model")
TYPES = {"float32": "float", "int32": "int32", "int64": "int64"}
HEAD = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>\n'


def declaration(name, array):
    extents = "[%s]" % ",".join(map(str, array.shape)) if array.shape else ""
    return "%s%s %s" % (TYPES[str(array.dtype)], extents, name)


class MicrosoftOperatorsTest(CommandCase):
    def setUp(self):
        super().setUp()
        self.random = numpy.random.default_rng(5)

    def floats(self, *shape):
        return self.random.normal(size=shape).astype("f4")

    def ints(self, below, *shape):
        return self.random.integers(0, below, shape).astype("i4")

    def compare(self, nodes, inputs, constants=None, tolerance=2e-5, more=""):
        """Output y of the nodes, for inputs whose first axis is the samples."""
        constants = constants or {}
        rows = len(next(iter(inputs.values())))
        text = HEAD + "g (%s) => (float[a, b, c] y%s) <%s> { %s }" % (
            ", ".join(declaration(n, a) for n, a in inputs.items()), more,
            ", ".join("%s = {%s}" % (declaration(n, a), ", ".join(map(str, a.ravel().tolist())))
                      for n, a in constants.items()), nodes)
        made = subprocess.run([MAKE_MODEL, "m.onnx"], input=text, text=True, timeout=60,
                              capture_output=True, check=False)
        self.assertEqual(made.returncode, 0, made.stderr + text)
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        theirs = onnxruntime.InferenceSession("m.onnx", options).run(None, inputs)[0]
        for name, array in inputs.items():
            numpy.save(name + ".npy", array)
        data = ",".join("%s=%s.npy" % (name, name) for name in inputs)
        self.run_ok(ONWARD, "predict", "m.onnx", "--data", data, "--batch-size", str(rows),
                    "--prediction", "y", "--output", "y.npz" if more else "y.npy")
        ours = numpy.load("y.npz")["y"] if more else numpy.load("y.npy")
        self.assertEqual(ours.shape, theirs.shape, nodes)
        largest = max(1.0, float(numpy.abs(theirs).max()))
        self.assertLess(float(numpy.abs(ours - theirs).max()), tolerance * largest, nodes)
        self.assertGreater(float(numpy.abs(theirs).max()), 1e-3, nodes)

    def test_activations(self):
        x = {"x": 3 * self.floats(2, 3, 4)}
        bias = {"b": self.floats(4)}
        self.compare("y = com.microsoft.Gelu(x)", x)
        self.compare("y = com.microsoft.FastGelu(x)", x, tolerance=5e-4)
        self.compare("y = com.microsoft.FastGelu(x, b)", x, bias, tolerance=5e-4)
        self.compare("y = com.microsoft.BiasGelu(x, b)", x, bias)
        self.compare("y = com.microsoft.QuickGelu(x)", x)
        self.compare("y = com.microsoft.QuickGelu <alpha = 1.25> (x)", x)

    def test_normalisations(self):
        x = {"x": self.floats(2, 3, 4)}
        both = {"x": self.floats(2, 3, 4), "s": self.floats(2, 3, 4)}
        w = {"w": self.floats(4), "b": self.floats(4), "c": self.floats(4)}
        # In ONNX's own domain, as onnxruntime's optimizer writes it, and in its own.
        self.compare("y = SimplifiedLayerNormalization <epsilon = 0.01> (x, w)", x, w)
        self.compare("y, r = SimplifiedLayerNormalization <axis = -1, stash_type = 1> (x, w)", x, w)
        self.compare("y = com.microsoft.SkipLayerNormalization (x, s, w, b, c)", both, w)
        self.compare("y = com.microsoft.SkipLayerNormalization <epsilon = 0.1> (x, s, w)", both, w)
        self.compare("t, , , y = com.microsoft.SkipLayerNormalization (x, s, w, , c)", both, w)
        self.compare("y = com.microsoft.SkipSimplifiedLayerNormalization (x, s, w)", both, w)
        self.compare("t, , , y = com.microsoft.SkipSimplifiedLayerNormalization (x, s, w, c)",
                     both, w)
        self.compare("y = com.microsoft.SkipLayerNormalization (x, s, w, b)", x,
                     {**w, "s": self.floats(3, 4)})

    def test_products(self):
        a = {"a": self.floats(2, 3, 4)}
        op = "y = com.microsoft.FusedMatMul "
        self.compare(op + "<alpha = 0.5> (a, b)", a, {"b": self.floats(4, 5)})
        self.compare(op + "<transA = 1> (a, b)", a, {"b": self.floats(2, 3, 5)})
        self.compare(op + "<transB = 1> (a, b)", a, {"b": self.floats(5, 4)})
        self.compare(op + "<transBatchA = 1> (a, b)", a, {"b": self.floats(3, 4, 5)})
        self.compare(op + "<transBatchB = 1> (a, b)", a, {"b": self.floats(4, 2, 5)})
        self.compare(op + "<transBatchA = 1, transA = 1, transBatchB = 1, transB = 1> (a, b)", a,
                     {"b": self.floats(5, 3, 2)})

    def test_embeddings(self):
        ids = {"i": self.ints(6, 2, 3), "s": self.ints(2, 2, 3), "m": self.ints(2, 2, 3),
               "p": self.ints(5, 2, 3)}
        tables = {"we": self.floats(6, 4), "pe": self.floats(5, 4), "se": self.floats(2, 4),
                  "w": self.floats(4), "b": self.floats(4)}
        op = "com.microsoft.EmbedLayerNormalization "
        self.compare("y, n = " + op + "(i, s, we, pe, se, w, b, m)", ids, tables)
        self.compare("y, n = " + op + "<epsilon = 0.1> (i, s, we, pe, se, w, b, , p)", ids, tables)
        self.compare("y, n = " + op + "(i, , we, pe, , w, b)", ids, tables)
        self.compare("t, n, y = " + op + "(i, s, we, pe, se, w, b)", ids, tables)

    def test_rotation(self):
        x = {"x": self.floats(2, 3, 8), "p": self.ints(6, 2, 3).astype("i8")}
        tables = {"c": self.floats(6, 2), "s": self.floats(6, 2), "o": numpy.array([2], "i8")}
        op = "y = com.microsoft.RotaryEmbedding "
        self.compare(op + "(x, p, c, s)", x, tables)
        self.compare(op + "<interleaved = 1> (x, p, c, s)", x, tables)
        self.compare(op + "(x, o, c, s)", x, tables)
        self.compare(op + "<num_heads = 1, rotary_embedding_dim = 4> (x, p, c, s)", x, tables)

    def test_attention(self):
        x = {"x": self.floats(2, 3, 4)}
        w = {"w": self.floats(4, 12), "b": self.floats(12)}
        op = "y = com.microsoft.Attention "
        self.compare(op + "<num_heads = 2> (x, w, b)", x, w)
        self.compare(op + "<num_heads = 1, unidirectional = 1, scale = 0.3> (x, w, b)", x, w)
        self.compare(op + "<num_heads = 2> (x, w, b, m)", x,
                     {**w, "m": numpy.array([2, 3], "i4")})
        self.compare(op + "<num_heads = 2> (x, w, b, m)", x,
                     {**w, "m": numpy.array([2, 3, 1, 0], "i4")})
        self.compare(op + "<num_heads = 2> (x, w, b, m)", x,
                     {**w, "m": numpy.array([[1, 0, 1], [1, 1, 0]], "i4")})
        self.compare(op + "<num_heads = 2, mask_filter_value = -1.0> (x, w, b, m)", x,
                     {**w, "m": self.ints(2, 2, 3, 3)})
        self.compare(op + "<num_heads = 2> (x, w, b, , , a)", x,
                     {**w, "a": self.floats(2, 2, 3, 3)})
        self.compare(op.replace("y", "y, r", 1) +
                     "<num_heads = 2, unidirectional = 1> (x, w, b, , p)", x, {**w, "p": self.floats(2, 2, 2, 4, 2)},
                     more=", float[2, 2, 2, 7, 2] r")
        self.compare(op + "<num_heads = 2, qkv_hidden_sizes = [4, 4, 6]> (x, w, b)", x,
                     {"w": self.floats(4, 14), "b": self.floats(14)})

    def test_multi_head_attention(self):
        x = {"q": self.floats(2, 3, 4), "k": self.floats(2, 5, 4), "v": self.floats(2, 5, 6)}
        op = "y = com.microsoft.MultiHeadAttention <num_heads = 2%s> "
        self.compare(op % "" + "(q, k, v)", x)
        self.compare(op % ", scale = 0.3" + "(q, k, v, b)", x, {"b": self.floats(14)})
        self.compare(op % "" + "(q, k, v, , m)", x, {"m": numpy.array([2, 4], "i4")})
        self.compare(op % ", mask_filter_value = -1.0" + "(q, k, v, , m)", x,
                     {"m": self.ints(2, 2, 5)})
        self.compare(op % "" + "(q, k, v, , , a)", x, {"a": self.floats(1, 2, 3, 5)})
        self.compare(op % ", unidirectional = 1" + "(q, q, q)", x)
        self.compare(op % "" + "(q, k, v)", {"q": self.floats(2, 3, 4),
                                            "k": self.floats(2, 2, 5, 2),
                                            "v": self.floats(2, 2, 5, 2)})

    def test_group_query_attention(self):
        x = {"q": self.floats(2, 3, 32), "k": self.floats(2, 3, 16), "v": self.floats(2, 3, 16)}
        more = {"n": numpy.array([2, 2], "i4"), "t": numpy.array(3, "i4"), "c": self.floats(8, 8),
                "s": self.floats(8, 8)}
        op = "y, nk, nv = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 1%s> "
        past = {"pk": self.floats(2, 1, 2, 16), "pv": self.floats(2, 1, 2, 16)}
        self.compare(op % "" + "(q, k, v, , , n, t)", x, more)
        self.compare(op % ", scale = 0.4, softcap = 0.7" + "(q, k, v, , , n, t)", x, more)
        self.compare(op % ", local_window_size = 2" + "(q, k, v, , , n, t)", x, more)
        self.compare(op % ", do_rotary = 1" + "(q, k, v, , , n, t, c, s)", x, more)
        self.compare(op % ", do_rotary = 1, rotary_interleaved = 1" + "(q, k, v, , , n, t, c, s)",
                     x, more)
        self.compare(op % "" + "(q, , , , , n, t)", {"q": self.floats(2, 3, 64)}, more)
        one = {"q": self.floats(2, 1, 32), "k": self.floats(2, 1, 16), "v": self.floats(2, 1, 16)}
        self.compare(op % ", do_rotary = 1" + "(q, k, v, pk, pv, n, t, c, s)", {**one, **past},
                     more)


if __name__ == "__main__":
    unittest.main()
