#!/usr/bin/env python3
"""Makes optimizers.json: 10 steps of every optimizer on fixed gradients, in float64.

  python3 make_optimizers.py torch     and again where keras is installed:
  python3 make_optimizers.py keras

One parameter of six elements gets the same ten gradients from every optimizer. Each case has the
framework's name for the optimizer, its options by the framework's names, and the parameter after
each step. The other framework's cases in the file are kept.
"""
import argparse
import json
import os
from typing import Dict, List, Optional, Sequence, Tuple

import numpy as np

from batches import numbers

HERE = os.path.dirname(os.path.abspath(__file__))
PATH = os.path.join(HERE, "optimizers.json")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

SIZE, STEPS = 6, 10
START = numbers(100, (SIZE,))
GRADIENTS = numbers(101, (STEPS, SIZE))
GRADIENTS[:, 2] = 0.0  # A gradient that is always zero.
GRADIENTS[:, 3] *= 1e-3  # A small one, to which epsilon matters.
GRADIENTS[5, :] = 0.0  # One step without any.

TORCH: List[Tuple[str, Dict[str, object]]] = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    ("Adam", {"lr": 0.01}),
    ("Adam", {"lr": 0.01, "betas": [0.8, 0.95], "eps": 1e-3}),
    ("Adam", {"lr": 0.01, "weight_decay": 0.01}),
    ("Adam", {"lr": 0.01, "amsgrad": True}),
    ("AdamW", {"lr": 0.01}),
    ("AdamW", {"lr": 0.01, "weight_decay": 0.1, "eps": 1e-3}),
    ("RMSprop", {"lr": 0.01}),
    ("RMSprop", {"lr": 0.01, "alpha": 0.9, "eps": 1e-3}),
    ("RMSprop", {"lr": 0.01, "momentum": 0.9}),
    ("RMSprop", {"lr": 0.01, "centered": True}),
    ("RMSprop", {"lr": 0.01, "centered": True, "momentum": 0.9, "weight_decay": 0.01}),
    ("Adagrad", {"lr": 0.1}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "eps": 1e-3,
                 "initial_accumulator_value": 0.1, "weight_decay": 0.01}),
]

KERAS: List[Tuple[str, Dict[str, object]]] = [
    ("SGD", {"learning_rate": 0.1}),
    ("SGD", {"learning_rate": 0.1, "momentum": 0.9}),
    ("SGD", {"learning_rate": 0.1, "momentum": 0.9, "nesterov": True}),
    ("SGD", {"learning_rate": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    ("Adam", {"learning_rate": 0.01}),
    ("Adam", {"learning_rate": 0.01, "beta_1": 0.8, "beta_2": 0.95, "epsilon": 1e-3}),
    ("Adam", {"learning_rate": 0.01, "weight_decay": 0.01}),
    ("Adam", {"learning_rate": 0.01, "amsgrad": True}),
    ("AdamW", {"learning_rate": 0.01}),
    ("AdamW", {"learning_rate": 0.01, "weight_decay": 0.1, "epsilon": 1e-3}),
    ("RMSprop", {"learning_rate": 0.01}),
    ("RMSprop", {"learning_rate": 0.01, "rho": 0.99, "epsilon": 1e-3}),
    ("RMSprop", {"learning_rate": 0.01, "momentum": 0.9}),
    ("RMSprop", {"learning_rate": 0.01, "centered": True}),
    ("RMSprop", {"learning_rate": 0.01, "centered": True, "momentum": 0.9,
                 "weight_decay": 0.01}),
    ("Adagrad", {"learning_rate": 0.1}),
    ("Adagrad", {"learning_rate": 0.1, "initial_accumulator_value": 0.5,
                 "epsilon": 1e-3}),
    ("SGD", {"learning_rate": 0.1, "clipnorm": 1.0}),
    ("SGD", {"learning_rate": 0.1, "clipvalue": 0.5}),
]


# What each case records, defaults too.
TORCH_OPTIONS = ("lr", "momentum", "dampening", "nesterov", "weight_decay", "betas", "eps",
                 "amsgrad", "alpha", "centered", "lr_decay", "initial_accumulator_value")
KERAS_OPTIONS = ("learning_rate", "momentum", "nesterov", "weight_decay", "beta_1", "beta_2",
                 "epsilon", "amsgrad", "rho", "centered", "initial_accumulator_value", "clipnorm",
                 "clipvalue")


def by_torch(name: str, options: Dict[str, object]) -> Dict[str, object]:
    import torch
    p = torch.tensor(START.copy(), dtype=torch.float64, requires_grad=True)
    stepper = getattr(torch.optim, name)([p], **options)
    after = []
    for g in GRADIENTS:
        p.grad = torch.tensor(g)
        stepper.step()
        after.append(p.detach().numpy().tolist())
    used = {k: v for k, v in stepper.defaults.items() if k in TORCH_OPTIONS}
    return {"optimizer": name, **used, "parameters": after}


def by_keras(name: str, options: Dict[str, object]) -> Dict[str, object]:
    import keras
    keras.config.set_floatx("float64")
    kind = getattr(keras.optimizers, name)
    used = {k: v for k, v in kind(**options).get_config().items()
            if k in KERAS_OPTIONS and v is not None}
    p = keras.Variable(START.copy(), dtype="float64")
    # As numpy's numbers, for Keras would bring Python's to float32 on their way.
    stepper = kind(**{k: np.float64(v) if isinstance(v, float) else v for k, v in used.items()})
    after = []
    for g in GRADIENTS:
        stepper.apply([keras.ops.convert_to_tensor(g, dtype="float64")], [p])
        after.append(np.array(keras.ops.convert_to_numpy(p)).tolist())
    return {"optimizer": name, **used, "parameters": after}


def main(argv: Optional[Sequence[str]] = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("framework", choices=["torch", "keras"])
    framework = parser.parse_args(argv).framework
    result = {}
    if os.path.exists(PATH):
        with open(PATH) as file:
            result = json.load(file)
    cases, run = (TORCH, by_torch) if framework == "torch" else (KERAS, by_keras)
    result["start"], result["gradients"] = START.tolist(), GRADIENTS.tolist()
    result[framework] = [run(name, options) for name, options in cases]
    result = {k: result[k] for k in ("start", "gradients", "torch", "keras") if k in result}
    with open(PATH, "w") as file:
        json.dump(result, file, separators=(",", ":"))
        file.write("\n")
    print(f"{PATH}: {len(cases)} cases of {framework}, {os.path.getsize(PATH)} bytes")


if __name__ == "__main__":
    main()
