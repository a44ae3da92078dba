#!/usr/bin/env python3
"""Makes losses.json: values and gradients of every loss on fixed inputs, in float64.

  python3 make_losses.py torch     and again where keras is installed:
  python3 make_losses.py keras

`data` holds the inputs that the cases name. Each case has the framework's name for the loss, its
options, the names of its prediction and target, the value, and the gradient with respect to the
prediction. The other framework's cases in the file are kept.
"""
import argparse
import json
import os
from typing import Dict, List, Optional, Sequence, Tuple

import numpy as np

from batches import draw, numbers

HERE = os.path.dirname(os.path.abspath(__file__))
PATH = os.path.join(HERE, "losses.json")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

BATCH, CLASSES = 5, 4
CLASS_WEIGHTS = [0.5, 1.0, 2.0, 0.25]
SAMPLE_WEIGHTS = [1.0, 0.0, 0.5, 2.0, 1.5]


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def make_data() -> Dict[str, np.ndarray]:
    logits = numbers(200, (BATCH, CLASSES))
    labels = (draw(201, BATCH) % np.uint64(CLASSES)).astype(np.int64)
    ignoring = labels.copy()
    ignoring[[1, 3]] = -100
    images = numbers(202, (2, CLASSES, 3))  # classes on axis 1, as PyTorch has them
    image_labels = (draw(203, 6) % np.uint64(CLASSES)).astype(np.int64).reshape(2, 3)
    image_ignoring = image_labels.copy()
    image_ignoring[0, 1] = 2
    soft = softmax(numbers(204, (BATCH, CLASSES)))
    binary = (draw(205, BATCH * 3) % np.uint64(2)).astype(np.float64).reshape(BATCH, 3)
    binary_logits = numbers(206, (BATCH, 3))
    return {
        "logits": logits, "labels": labels, "labels_ignoring": ignoring,
        "one_hot": np.eye(CLASSES)[labels], "soft_labels": soft,
        "probabilities": softmax(logits), "log_probabilities": np.log(softmax(logits)),
        "image_logits": images, "image_labels": image_labels,
        "image_labels_with_2": image_ignoring,
        "all_ignored": np.full(BATCH, -100, np.int64),
        "binary_logits": binary_logits, "binary_labels": binary,
        "binary_probabilities": 1 / (1 + np.exp(-binary_logits)),
        "predictions": numbers(207, (BATCH, 3)), "targets": numbers(208, (BATCH, 3)),
        "class_weights": np.array(CLASS_WEIGHTS), "sample_weights": np.array(SAMPLE_WEIGHTS),
        "binary_weights": np.array([0.5, 2.0, 1.0])}


Case = Tuple[str, Dict[str, object], str, str]

TORCH: List[Case] = [
    ("CrossEntropyLoss", {}, "logits", "labels"),
    ("CrossEntropyLoss", {"reduction": "sum"}, "logits", "labels"),
    ("CrossEntropyLoss", {"weight": "class_weights"}, "logits", "labels"),
    ("CrossEntropyLoss", {"label_smoothing": 0.1}, "logits", "labels"),
    ("CrossEntropyLoss", {"label_smoothing": 0.1, "weight": "class_weights"}, "logits", "labels"),
    ("CrossEntropyLoss", {}, "logits", "labels_ignoring"),
    ("CrossEntropyLoss", {"label_smoothing": 0.1, "weight": "class_weights"}, "logits",
     "labels_ignoring"),
    ("CrossEntropyLoss", {"reduction": "sum"}, "logits", "all_ignored"),
    ("CrossEntropyLoss", {}, "logits", "soft_labels"),
    ("CrossEntropyLoss", {"label_smoothing": 0.1}, "logits", "soft_labels"),
    ("CrossEntropyLoss", {"weight": "class_weights"}, "logits", "soft_labels"),
    ("CrossEntropyLoss", {"ignore_index": 2}, "image_logits", "image_labels_with_2"),
    ("CrossEntropyLoss", {"weight": "class_weights"}, "image_logits", "image_labels"),
    ("NLLLoss", {}, "log_probabilities", "labels"),
    ("NLLLoss", {"weight": "class_weights"}, "log_probabilities", "labels_ignoring"),
    ("BCEWithLogitsLoss", {}, "binary_logits", "binary_labels"),
    ("BCEWithLogitsLoss", {"pos_weight": "binary_weights"}, "binary_logits", "binary_labels"),
    ("BCELoss", {}, "binary_probabilities", "binary_labels"),
    ("MSELoss", {}, "predictions", "targets"),
    ("MSELoss", {"reduction": "sum"}, "predictions", "targets"),
    ("L1Loss", {}, "predictions", "targets"),
    ("HuberLoss", {}, "predictions", "targets"),
    ("HuberLoss", {"delta": 0.5}, "predictions", "targets"),
    ("SmoothL1Loss", {"beta": 0.5}, "predictions", "targets"),
]

# `sample_weight` (here by the name of an array) is an argument of Keras' call, not of the class.
KERAS: List[Case] = [
    ("SparseCategoricalCrossentropy", {}, "probabilities", "labels"),
    ("SparseCategoricalCrossentropy", {"from_logits": True}, "logits", "labels"),
    ("SparseCategoricalCrossentropy", {"from_logits": True, "reduction": "sum"}, "logits",
     "labels"),
    ("SparseCategoricalCrossentropy", {"from_logits": True, "ignore_class": 2}, "logits",
     "labels"),
    ("SparseCategoricalCrossentropy", {"from_logits": True, "sample_weight": "sample_weights"},
     "logits", "labels"),
    ("CategoricalCrossentropy", {}, "probabilities", "one_hot"),
    ("CategoricalCrossentropy", {"from_logits": True}, "logits", "one_hot"),
    ("CategoricalCrossentropy", {"from_logits": True, "label_smoothing": 0.1}, "logits",
     "one_hot"),
    ("CategoricalCrossentropy", {"label_smoothing": 0.1}, "probabilities", "one_hot"),
    ("CategoricalCrossentropy", {"from_logits": True}, "logits", "soft_labels"),
    ("BinaryCrossentropy", {}, "binary_probabilities", "binary_labels"),
    ("BinaryCrossentropy", {"from_logits": True}, "binary_logits", "binary_labels"),
    ("BinaryCrossentropy", {"from_logits": True, "label_smoothing": 0.1}, "binary_logits",
     "binary_labels"),
    ("MeanSquaredError", {}, "predictions", "targets"),
    ("MeanSquaredError", {"sample_weight": "sample_weights"}, "predictions", "targets"),
    ("MeanAbsoluteError", {}, "predictions", "targets"),
    ("Huber", {}, "predictions", "targets"),
    ("Huber", {"delta": 0.5}, "predictions", "targets"),
]


def by_torch(data: Dict[str, np.ndarray], case: Case) -> Tuple[float, np.ndarray]:
    import torch
    name, options, prediction, target = case
    options = {k: torch.tensor(data[v]) if v in data else v for k, v in options.items()}
    x = torch.tensor(data[prediction], requires_grad=True)
    loss = getattr(torch.nn, name)(**options)(x, torch.tensor(data[target]))
    loss.backward()
    return loss.item(), x.grad.numpy()


def by_keras(data: Dict[str, np.ndarray], case: Case) -> Tuple[float, np.ndarray]:
    import keras
    import tensorflow as tf
    keras.config.set_floatx("float64")
    name, options, prediction, target = case
    # As numpy's numbers, for Keras would bring Python's to float32 on their way.
    options = {k: np.float64(v) if isinstance(v, float) else v for k, v in options.items()}
    weights = data.get(options.pop("sample_weight", ""))
    x = tf.constant(data[prediction])
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = getattr(keras.losses, name)(**options)(data[target], x, sample_weight=weights)
    return float(loss), tape.gradient(loss, x).numpy()


def main(argv: Optional[Sequence[str]] = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("framework", choices=["torch", "keras"])
    framework = parser.parse_args(argv).framework
    result = {}
    if os.path.exists(PATH):
        with open(PATH) as file:
            result = json.load(file)
    data = make_data()
    cases, run = (TORCH, by_torch) if framework == "torch" else (KERAS, by_keras)
    result["data"] = {k: {"shape": list(a.shape), "values": a.reshape(-1).tolist()}
                      for k, a in data.items()}
    result[framework] = []
    for case in cases:
        name, options, prediction, target = case
        value, gradient = run(data, case)
        result[framework].append({"loss": name, "options": options, "prediction": prediction,
                                  "target": target, "value": value,
                                  "gradient": gradient.reshape(-1).tolist()})
    result = {k: result[k] for k in ("data", "torch", "keras") if k in result}
    with open(PATH, "w") as file:
        json.dump(result, file, separators=(",", ":"))
        file.write("\n")
    print(f"{PATH}: {len(cases)} cases of {framework}, {os.path.getsize(PATH)} bytes")


if __name__ == "__main__":
    main()
