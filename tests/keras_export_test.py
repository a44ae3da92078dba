#!/usr/bin/env python3
"""Tests of tools/keras_export.py against Keras itself: every layer that the tool knows is
written and compared with Keras' outputs in both modes.

Bazel runs them with Keras on JAX; where keras and onnx are installed, with any backend:

  KERAS_BACKEND=tensorflow python3 tests/keras_export_test.py
"""
import json
import os
import sys
import tempfile
import unittest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
if os.path.isdir("../keras"):  # Bazel's: third_party/keras.BUILD, third_party/onnxruntime.BUILD
    sys.path[:0] = [os.path.abspath("../keras"), os.path.abspath("../onnxruntime")]
    os.environ.update(KERAS_BACKEND="jax", JAX_ENABLE_X64="1", JAX_PLATFORMS="cpu",
                      KERAS_HOME=os.environ.get("TEST_TMPDIR", "."))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))

import keras
import numpy as np
import onnx
from keras import layers as L

import keras_export
import keras_layers
import make_tutorial_model


def scramble(model, seed=1):
    """Gives every variable distinct values, so that no mistake hides behind zeros and ones."""
    random = np.random.default_rng(seed)
    for v in model.weights:
        if "int" in v.dtype:
            continue
        values = random.standard_normal(v.shape) * 0.3
        v.assign(np.abs(values) + 0.5 if v.path.endswith("variance") else values)
    return model


def sequential(shape, *layers, dtype=None):
    return scramble(keras.Sequential([keras.Input(shape, dtype=dtype), *layers]))


def count(proto, op_type):
    return sum(n.op_type == op_type for n in proto.graph.node)


def tutorial_cnn(width=8):
    layers = []
    for channels in (width, 2 * width):
        layers += [L.Conv2D(channels, 3, padding="same", activation="relu"), L.BatchNormalization(),
                   L.Conv2D(channels, 3, activation="relu"), L.BatchNormalization(),
                   L.MaxPooling2D(2), L.Dropout(0.25)]
    return sequential((32, 32, 3), *layers, L.Flatten(), L.Dense(32, activation="relu"),
                      L.BatchNormalization(), L.Dropout(0.5), L.Dense(10, activation="softmax"))


def one_layer_cases():
    """(case, input shape, layers): together every layer that reads one input."""
    image, line, cube, row = (9, 10, 4), (11, 4), (6, 7, 8, 2), (12,)
    cases = [("Dense", row, [L.Dense(5)]),
             ("Dense no bias", row, [L.Dense(5, use_bias=False, activation="tanh")]),
             ("Dense rank 4", image, [L.Dense(5, activation="relu")]),
             ("Conv1D causal", line, [L.Conv1D(3, 3, padding="causal", dilation_rate=2)]),
             ("Conv1D same", line, [L.Conv1D(3, 4, padding="same", strides=2)]),
             ("Conv2D groups", image, [L.Conv2D(6, 3, groups=2, use_bias=False)]),
             ("Conv2D dilated", image, [L.Conv2D(6, (3, 2), dilation_rate=2, padding="same")]),
             ("Conv3D", cube, [L.Conv3D(3, (2, 3, 3), strides=(1, 2, 2), padding="same")]),
             ("Conv1DTranspose", line, [L.Conv1DTranspose(3, 4, strides=2, padding="same")]),
             ("Conv2DTranspose", image, [L.Conv2DTranspose(5, 3, strides=2, padding="same",
                                                           activation="relu")]),
             ("Conv2DTranspose valid", image, [L.Conv2DTranspose(5, (2, 4), strides=3,
                                                                 use_bias=False)]),
             ("Conv2DTranspose dilated", image, [L.Conv2DTranspose(3, 3, dilation_rate=2)]),
             ("Conv3DTranspose", cube, [L.Conv3DTranspose(3, 3, strides=(1, 2, 2))]),
             ("DepthwiseConv1D", line, [L.DepthwiseConv1D(3, depth_multiplier=2)]),
             ("DepthwiseConv2D", image, [L.DepthwiseConv2D(3, depth_multiplier=3, padding="same")]),
             ("SeparableConv1D", line, [L.SeparableConv1D(5, 3, depth_multiplier=2)]),
             ("SeparableConv2D", image, [L.SeparableConv2D(5, 3, padding="same", strides=2,
                                                           activation="relu")]),
             ("LayerNormalization", image, [L.LayerNormalization()]),
             ("LayerNormalization axes", image, [L.LayerNormalization(axis=[1, 2, 3])]),
             ("LayerNormalization bare", row, [L.LayerNormalization(center=False, scale=False)]),
             ("BatchNormalization", image, [L.BatchNormalization(momentum=0.8, epsilon=1e-2)]),
             ("BatchNormalization axis 1", image, [L.BatchNormalization(axis=1)]),
             ("BatchNormalization flat", row, [L.BatchNormalization()]),
             ("BatchNormalization bare", image, [L.BatchNormalization(scale=False, center=False)]),
             ("Dropout", row, [L.Dropout(0.3)]),
             ("SpatialDropout1D", line, [L.SpatialDropout1D(0.3)]),
             ("SpatialDropout2D", image, [L.Conv2D(3, 2), L.SpatialDropout2D(0.3)]),
             ("SpatialDropout3D", cube, [L.SpatialDropout3D(0.3)]),
             ("Flatten", image, [L.Conv2D(3, 2), L.Flatten(), L.Dense(4)]),
             ("Flatten 1x1", (2, 2, 3), [L.Conv2D(5, 2), L.Flatten(), L.Dense(4)]),
             ("Reshape", image, [L.Conv2D(4, 2), L.Reshape((-1, 6)), L.Dense(3)]),
             ("Permute", image, [L.Conv2D(4, 2), L.Permute((3, 1, 2)), L.Dense(3)]),
             ("RepeatVector", row, [L.RepeatVector(3), L.Dense(2)]),
             ("ReLU", image, [L.ReLU()]),
             ("ReLU slope", image, [L.ReLU(negative_slope=0.2)]),
             ("ReLU max", image, [L.ReLU(max_value=0.7)]),
             ("LeakyReLU", image, [L.LeakyReLU(0.2)]),
             ("ELU", image, [L.ELU(0.7)]),
             ("PReLU", image, [L.PReLU()]),
             ("PReLU first", image, [L.Conv2D(3, 2), L.PReLU(shared_axes=[1, 2])]),
             ("Softmax", image, [L.Conv2D(3, 2), L.Softmax()]),
             ("Softmax axis", image, [L.Conv2D(3, 2), L.Softmax(axis=1)]),
             ("Activation layer", row, [L.Dense(4, activation=L.LeakyReLU(0.1))]),
             ("Rescaling", image, [L.Rescaling(1 / 255, offset=-0.5)]),
             ("Rescaling per channel", image, [L.Rescaling([1.0, 2.0, 3.0, 4.0], [0.0, 0, 0, 1])]),
             ("Identity", row, [L.Identity()]),
             ("ActivityRegularization", row, [L.ActivityRegularization(l2=0.1), L.Dense(2)]),
             ("ZeroPadding1D", line, [L.ZeroPadding1D((1, 2))]),
             ("ZeroPadding2D", image, [L.Conv2D(3, 2), L.ZeroPadding2D(((1, 2), (0, 3)))]),
             ("ZeroPadding3D", cube, [L.ZeroPadding3D((1, 2, 0))]),
             ("Cropping1D", line, [L.Cropping1D((1, 2))]),
             ("Cropping2D", image, [L.Conv2D(3, 2), L.Cropping2D(((1, 2), (0, 3)))]),
             ("Cropping3D", cube, [L.Cropping3D((1, 2, 0))]),
             ("UpSampling1D", line, [L.UpSampling1D(3)]),
             ("UpSampling2D", image, [L.Conv2D(3, 2), L.UpSampling2D((2, 3))]),
             ("UpSampling2D bilinear", image, [L.UpSampling2D(2, interpolation="bilinear")]),
             ("UpSampling3D", cube, [L.UpSampling3D((1, 2, 3))])]
    for rank, shape in ((1, line), (2, image), (3, cube)):
        for kind in ("Max", "Average"):
            pooling = getattr(L, f"{kind}Pooling{rank}D")
            whole = getattr(L, f"Global{kind}Pooling{rank}D")
            cases += [(f"{kind}Pooling{rank}D", shape, [pooling(2)]),
                      (f"{kind}Pooling{rank}D same", shape,
                       [pooling(3, strides=2, padding="same")]),
                      (f"Global{kind}Pooling{rank}D", shape, [whole()]),
                      (f"Global{kind}Pooling{rank}D kept", shape, [whole(keepdims=True)])]
    return cases


class KerasExportTest(unittest.TestCase):

    def setUp(self):
        keras.utils.clear_session()
        keras.utils.set_random_seed(0)

    def same(self, model, **kwargs):
        self.assertLess(keras_export.check(model, **kwargs), 1e-4)
        return keras_export.training_model(model)[0]

    def test_layers_of_one_input(self):
        tried = set()
        for case, shape, layers in one_layer_cases():
            with self.subTest(case):
                if keras.backend.backend() == "torch" and case in (
                        "AveragePooling2D same", "AveragePooling3D same"):
                    self.skipTest("Keras on PyTorch averages padding too, on others it does not")
                self.same(sequential(shape, *layers))
            tried |= {type(layer).__name__ for layer in layers}
        merging = {"Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate"}
        elsewhere = {"Embedding", "Normalization", "Activation", "Conv2D"}
        self.assertEqual(set(keras_layers.LAYERS) - tried - merging - elsewhere, set())

    def test_activations(self):
        for name in keras_layers.ACTIVATIONS:
            with self.subTest(name):
                self.same(sequential((6, 7, 3), L.Conv2D(4, 3, activation=name)))
                self.same(sequential((6,), L.Activation(name)))

    def test_merging_layers(self):
        for layer in (L.Add, L.Subtract, L.Multiply, L.Average, L.Maximum, L.Minimum,
                      L.Concatenate):
            for n in (2,) if layer is L.Subtract else (2, 3):
                with self.subTest(f"{layer.__name__} of {n}"):
                    x = keras.Input((6, 7, 3))
                    branches = [L.Conv2D(3, 3, padding="same")(x) for _ in range(n - 1)]
                    self.same(scramble(keras.Model(x, layer()([*branches, x]))))
        a, b = keras.Input((4, 3)), keras.Input((3,))
        self.same(scramble(keras.Model([a, b], L.Add()([a, b]))))

    def test_arithmetic_between_tensors(self):
        a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
        self.same(keras.Model({"a": a, "b": b}, (a + b) * 2.0 - a / 3.0))
        self.same(keras.Model(a, 1.0 - a))

    def test_same_padding_with_strides_and_unknown_size(self):
        for size in (7, 8):
            for kernel in (2, 3, 5):
                for stride in (2, 3):
                    self.same(sequential((size, size, 2), L.Conv2D(3, kernel, strides=stride,
                                                                   padding="same")))
        proto = self.same(sequential((None, None, 2), L.Conv2D(3, 3, strides=2, padding="same"),
                                     L.GlobalAveragePooling2D()))
        self.assertEqual(count(proto, "Conv"), 1)

    def test_tutorial_cnn_is_in_training_form(self):
        proto = self.same(tutorial_cnn())
        self.assertEqual(count(proto, "Transpose"), 2)
        self.assertEqual(count(proto, "Dropout"), 3)
        for node in proto.graph.node:
            if node.op_type == "BatchNormalization":
                attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
                self.assertEqual(attributes["training_mode"], 1)
                self.assertAlmostEqual(attributes["momentum"], 0.99, places=6)
                self.assertEqual(len([o for o in node.output if o]), 3)
        self.assertEqual(proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param, "batch")

    def test_tutorial_models_without_keras_are_the_same(self):
        conv = {"activation": "relu", "kernel_size": 3}
        block = [[L.Conv2D(c, padding="same", **conv), L.BatchNormalization(),
                  L.Conv2D(c, **conv), L.BatchNormalization(), L.MaxPooling2D(2),
                  L.Dropout(0.25)] for c in (32, 64)]
        cnn = keras.Sequential([
            keras.Input((32, 32, 3)), *block[0], *block[1], L.Flatten(),
            L.Dense(512, activation="relu"), L.BatchNormalization(), L.Dropout(0.5),
            L.Dense(10, activation="softmax")], name="cnn")
        expected = {"cnn": keras_export.training_model(cnn)[0]}
        keras.utils.clear_session()
        mlp = keras.Sequential([keras.Input((784,)), L.Dense(512, activation="relu"),
                                L.Dropout(0.2), L.Dense(10, activation="softmax")], name="mlp")
        expected["mlp"] = keras_export.training_model(mlp)[0]
        for name, proto in expected.items():
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "m.onnx")
                self.assertEqual(make_tutorial_model.main([name, "-o", path, "--seed", "5"]), 0)
                ours = onnx.load(path)
            onnx.checker.check_model(ours, full_check=True)
            self.assertEqual(list(ours.graph.node), list(proto.graph.node))
            self.assertEqual(list(ours.graph.input), list(proto.graph.input))
            self.assertEqual(list(ours.graph.output), list(proto.graph.output))
            self.assertEqual(list(ours.opset_import), list(proto.opset_import))
            for a, b in zip(ours.graph.initializer, proto.graph.initializer):
                self.assertEqual((a.name, a.dims), (b.name, b.dims))
                a, b = onnx.numpy_helper.to_array(a), onnx.numpy_helper.to_array(b)
                self.assertAlmostEqual(float(a.std()), float(b.std()), delta=0.1 * b.std())

    def test_zero_biases_and_names_are_kept(self):
        model = keras.Sequential([keras.Input((6,)), L.Dense(4, name="first"), L.Dense(3)])
        proto, _ = keras_export.training_model(model)
        names = {i.name for i in proto.graph.initializer}
        self.assertEqual(names, {v.path for v in model.variables})

    def test_residual_block_has_two_transposes(self):
        x = keras.Input((8, 8, 4))
        y = L.BatchNormalization()(L.Conv2D(4, 3, padding="same")(x))
        y = L.Activation("relu")(L.Add()([y, x]))
        y = L.Add()([L.Conv2D(4, 3, padding="same")(y), y])
        proto = self.same(scramble(keras.Model(x, y)))
        self.assertEqual(count(proto, "Transpose"), 2)

    def test_embedding_nested_and_shared(self):
        ids, x = keras.Input((5,), dtype="int32"), keras.Input((8,))
        table = L.Embedding(20, 8)
        inner = keras.Sequential([keras.Input((8,)), L.Dense(8, activation="relu"),
                                  L.BatchNormalization()])
        pooled = L.GlobalAveragePooling1D()(table(ids))
        y = L.Concatenate()([inner(pooled), inner(x)])
        model = scramble(keras.Model([ids, x], [L.Dense(3)(y), y]))
        names = [i.name for i in keras_export.training_model(model)[0].graph.initializer]
        self.assertEqual(len(names), len(set(names)))
        exporter = keras_export.Exporter(21, training=False)
        proto = exporter.model(model)
        inputs = keras_export.random_inputs(model, 4)
        ours = keras_export.evaluate(proto, dict(zip([i.name for i in proto.graph.input], inputs)),
                                     False)
        for a, b in zip(ours, model(inputs)):
            np.testing.assert_allclose(a, keras_layers.to_numpy(b), rtol=1e-4, atol=1e-5)

    def test_normalization_and_integer_input(self):
        layer = L.Normalization()
        layer.adapt(np.random.default_rng(0).standard_normal((50, 6, 3)) * 3 + 2)
        self.same(keras.Sequential([keras.Input((6, 3)), layer]))
        self.same(sequential((6,), L.Rescaling(1 / 255), L.Dense(3), dtype="uint8"))
        self.same(sequential((6,), L.Dense(3), dtype="int32"))

    def test_float64_and_shared_prelu(self):
        keras.config.set_floatx("float64")
        try:
            proto = self.same(tutorial_cnn(2), tolerance=1e-5)
            self.assertTrue(all(i.data_type == onnx.TensorProto.DOUBLE
                                for i in proto.graph.initializer))
            mixed = sequential((6,), L.Dense(3), dtype="float32")
            self.assertEqual(count(self.same(mixed), "Cast"), 1)
        finally:
            keras.config.set_floatx("float32")
            keras.config.set_dtype_policy("float32")
        x, layer = keras.Input((5, 5, 3)), L.PReLU()
        y = L.Add()([layer(x), layer(L.Conv2D(3, 3, padding="same")(x))])
        self.same(scramble(keras.Model(x, y)))

    def test_what_cannot_be_written_names_the_layer(self):
        class Mine(L.Dense):
            pass

        for layer, words in ((L.GaussianNoise(0.1, name="noisy"), "noisy"),
                             (L.LSTM(3, name="memory"), "memory"),
                             (Mine(3, name="own"), "own"),
                             (L.Dense(3, activation=lambda x: x * 2, name="odd"), "odd")):
            shape = (4, 3) if words == "memory" else (3,)
            with self.assertRaisesRegex(keras_export.ExportError, words):
                keras_export.training_model(sequential(shape, layer))
        with self.assertRaisesRegex(keras_export.ExportError, "not built"):
            keras_export.training_model(keras.Sequential([L.Dense(3)]))

        class Sub(keras.Model):
            def call(self, x):
                return x

        with self.assertRaisesRegex(keras_export.ExportError, "subclassed"):
            keras_export.training_model(Sub())

    def test_frozen_layers_and_regularizers_are_reported(self):
        frozen = L.BatchNormalization(name="still")
        model = sequential((6,), L.Dense(4, kernel_regularizer="l2", name="decayed"), frozen)
        frozen.trainable = False
        proto, notes = keras_export.training_model(model)
        self.assertTrue(any("decayed" in n for n in notes))
        self.assertTrue(any("--freeze" in n and "still" in n for n in notes))
        meta = {p.key: p.value for p in proto.metadata_props}
        self.assertEqual(len(json.loads(meta["keras.non_trainable"])), 4)
        self.same(model)

    def test_trained_weights_go_back(self):
        x = keras.Input((8, 8, 3))
        y = L.PReLU()(L.DepthwiseConv2D(3, depth_multiplier=2)(L.Conv2D(4, 3)(x)))
        y = L.Dense(3)(L.Flatten()(L.SeparableConv2D(5, 2)(y)))
        model = scramble(keras.Model(x, y))
        with tempfile.TemporaryDirectory() as folder:
            path, saved = os.path.join(folder, "m.onnx"), os.path.join(folder, "m.keras")
            model.save(saved)
            self.assertEqual(keras_export.main([saved, "-o", path, "--check"]), 0)
            expected = model.get_weights()
            scramble(model, seed=2)
            self.assertEqual(keras_export.load_trained(model, path), len(expected))
            for a, b in zip(model.get_weights(), expected):
                np.testing.assert_array_equal(a, b)
            self.assertEqual(keras_export.main([saved, "--load", path, "-o", saved]), 0)
            self.assertEqual(keras_export.main(["absent.keras", "-o", path]), 2)

    def test_the_check_sees_a_wrong_momentum_and_padding(self):
        right = keras_layers.LAYERS["BatchNormalization"]

        def wrong(e, layer, x, out):
            y = right(e, layer, x, out)
            for a in e.nodes[-1].attribute:
                if a.name == "momentum":
                    a.f = 1 - a.f
            return y

        keras_layers.LAYERS["BatchNormalization"] = wrong
        try:
            with self.assertRaisesRegex(keras_export.ExportError, "moving_mean.*after a step"):
                keras_export.check(sequential((6,), L.BatchNormalization()))
        finally:
            keras_layers.LAYERS["BatchNormalization"] = right


if __name__ == "__main__":
    unittest.main()
