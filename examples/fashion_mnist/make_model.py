#!/usr/bin/env python3
"""Writes mlp.onnx, the tutorial's network with fresh weights, by tools/keras_export.py.

It needs keras (any backend) and onnx; mlp.onnx is kept in the repository so that
training it needs neither.
"""
import os
import sys

import keras

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tools"))
from keras_export import export_training  # noqa: E402

keras.utils.set_random_seed(1)
model = keras.Sequential(
    [
        keras.Input((784,), name="image"),
        keras.layers.Dense(512, activation="relu"),
        keras.layers.Dropout(0.2),
        keras.layers.Dense(10, activation="softmax"),
    ],
    name="mlp",
)
for note in export_training(model, os.path.join(HERE, "mlp.onnx")):
    print(note)
