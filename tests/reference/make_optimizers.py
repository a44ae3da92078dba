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
from typing import Dict, List, Optional, Sequence

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

TORCH: List[Dict[str, object]] = [
    {"optimizer": "SGD", "lr": 0.1},
    {"optimizer": "SGD", "lr": 0.1, "momentum": 0.9},
    {"optimizer": "SGD", "lr": 0.1, "momentum": 0.9, "dampening": 0.3},
    {"optimizer": "SGD", "lr": 0.1, "momentum": 0.9, "nesterov": True},
    {"optimizer": "SGD", "lr": 0.1, "momentum": 0.9, "weight_decay": 0.01},
    {"optimizer": "SGD", "lr": 0.1, "weight_decay": 0.01},
    {"optimizer": "SGD", "lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    {"optimizer": "Adam", "lr": 0.01},
    {"optimizer": "Adam", "lr": 0.01, "betas": [0.8, 0.95], "eps": 1e-3},
    {"optimizer": "Adam", "lr": 0.01, "weight_decay": 0.01},
    {"optimizer": "Adam", "lr": 0.01, "amsgrad": True},
    {"optimizer": "AdamW", "lr": 0.01},
    {"optimizer": "AdamW", "lr": 0.01, "weight_decay": 0.1, "eps": 1e-3},
    {"optimizer": "RMSprop", "lr": 0.01},
    {"optimizer": "RMSprop", "lr": 0.01, "alpha": 0.9, "eps": 1e-3},
    {"optimizer": "RMSprop", "lr": 0.01, "momentum": 0.9},
    {"optimizer": "RMSprop", "lr": 0.01, "centered": True},
    {"optimizer": "RMSprop", "lr": 0.01, "centered": True, "momentum": 0.9, "weight_decay": 0.01},
    {"optimizer": "Adagrad", "lr": 0.1},
    {"optimizer": "Adagrad", "lr": 0.1, "lr_decay": 0.1, "eps": 1e-3,
     "initial_accumulator_value": 0.1, "weight_decay": 0.01},
]

KERAS: List[Dict[str, object]] = [
    {"optimizer": "SGD", "learning_rate": 0.1},
    {"optimizer": "SGD", "learning_rate": 0.1, "momentum": 0.9},
    {"optimizer": "SGD", "learning_rate": 0.1, "momentum": 0.9, "nesterov": True},
    {"optimizer": "SGD", "learning_rate": 0.1, "momentum": 0.9, "weight_decay": 0.01},
    {"optimizer": "Adam", "learning_rate": 0.01},
    {"optimizer": "Adam", "learning_rate": 0.01, "beta_1": 0.8, "beta_2": 0.95, "epsilon": 1e-3},
    {"optimizer": "Adam", "learning_rate": 0.01, "weight_decay": 0.01},
    {"optimizer": "Adam", "learning_rate": 0.01, "amsgrad": True},
    {"optimizer": "AdamW", "learning_rate": 0.01},
    {"optimizer": "AdamW", "learning_rate": 0.01, "weight_decay": 0.1, "epsilon": 1e-3},
    {"optimizer": "RMSprop", "learning_rate": 0.01},
    {"optimizer": "RMSprop", "learning_rate": 0.01, "rho": 0.99, "epsilon": 1e-3},
    {"optimizer": "RMSprop", "learning_rate": 0.01, "momentum": 0.9},
    {"optimizer": "RMSprop", "learning_rate": 0.01, "centered": True},
    {"optimizer": "RMSprop", "learning_rate": 0.01, "centered": True, "momentum": 0.9,
     "weight_decay": 0.01},
    {"optimizer": "Adagrad", "learning_rate": 0.1},
    {"optimizer": "Adagrad", "learning_rate": 0.1, "initial_accumulator_value": 0.5,
     "epsilon": 1e-3},
    {"optimizer": "SGD", "learning_rate": 0.1, "clipnorm": 1.0},
    {"optimizer": "SGD", "learning_rate": 0.1, "clipvalue": 0.5},
]


def by_torch(case: Dict[str, object]) -> List[List[float]]:
    import torch
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in case.items()
               if k != "optimizer"}
    p = torch.tensor(START.copy(), dtype=torch.float64, requires_grad=True)
    stepper = getattr(torch.optim, case["optimizer"])([p], **options)
    after = []
    for g in GRADIENTS:
        p.grad = torch.tensor(g)
        stepper.step()
        after.append(p.detach().numpy().tolist())
    return after


def by_keras(case: Dict[str, object]) -> List[List[float]]:
    import keras
    keras.config.set_floatx("float64")
    options = {k: v for k, v in case.items() if k != "optimizer"}
    p = keras.Variable(START.copy(), dtype="float64")
    stepper = getattr(keras.optimizers, case["optimizer"])(**options)
    after = []
    for g in GRADIENTS:
        stepper.apply([keras.ops.convert_to_tensor(g, dtype="float64")], [p])
        after.append(np.array(keras.ops.convert_to_numpy(p)).tolist())
    return after


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
    result[framework] = [{**case, "parameters": run(case)} for case in cases]
    result = {k: result[k] for k in ("start", "gradients", "torch", "keras") if k in result}
    with open(PATH, "w") as file:
        json.dump(result, file, separators=(",", ":"))
        file.write("\n")
    print(f"{PATH}: {len(cases)} cases of {framework}, {os.path.getsize(PATH)} bytes")


if __name__ == "__main__":
    main()
