#!/usr/bin/env python3
"""Makes training-*.json: what 20 steps of training do to the models of tests/models.

  python3 make_training.py torch     where torch and onnx are installed
  python3 make_training.py keras     where keras, tensorflow and onnx are installed

Each file is for one .onnx of tests/models: from the weights in it, in float64, with dropout off, by
the framework that exported it. Batches come from the formula in batches.py. README.md says what is
in a file.
"""
import argparse
import json
import os
import sys
from typing import Callable, Dict, List, Optional, Sequence

import numpy as np

from batches import batch, rounded, statistics

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = os.path.join(HERE, "..", "models")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
sys.path[:0] = [MODELS, os.path.join(HERE, "..", "..", "tools")]

STEPS, BATCH, DISTINCT = 20, 16, 4
OPTIMIZERS = {"sgd": {"learning_rate": 0.05, "momentum": 0.9},
              "adam": {"learning_rate": 1e-3, "beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-3}}
LEARNING_RATE = {"mlp": {"sgd": 0.005}, "keras_mlp": {"sgd": 0.005}}  # 0.05 learns all by heart.
# A run is chaotic where the framework's own float32 leaves its float64 by more than this (deep nets
# with BatchNorm and few samples do): it is for float64 only, and a run with a rate of GENTLE, which
# float32 can follow, is made beside it.
CHAOTIC = 2.5e-5
GENTLE = {"keras_cnn": {"sgd": 3e-5, "adam": 1e-4}, "resnet18thin": {"sgd": 3e-4, "adam": 1e-4}}


def as_stored(number: float) -> float:
    """A number as an attribute of ONNX holds it (float32), which chaos would tell from 0.001."""
    return float(np.float32(number))


class Run:
    """What one training run gives: losses, final arrays by their name in the file, gradients."""

    def __init__(self):
        self.losses: List[float] = []
        self.parameters: Dict[str, np.ndarray] = {}
        self.running: Dict[str, np.ndarray] = {}  # as the framework keeps them
        self.running_onnx: Dict[str, np.ndarray] = {}  # as ONNX defines them
        self.largest_gradient: Dict[str, float] = {}


Train = Callable[[str, str, dict, str], Run]


def record(file: str, optimizer: str, options: dict, train: Train) -> Dict[str, object]:
    """Trains in float64, and in float32 to see how far rounding alone leads away."""
    run, single = (train(file, optimizer, options, t) for t in ("float64", "float32"))
    top = max(run.largest_gradient.values())
    zero = [n for n, g in run.largest_gradient.items() if g < 1e-9 * top]
    return {"optimizer": optimizer, **options, "losses": [rounded(x) for x in run.losses],
            "float32_loss_difference": rounded(max(
                abs(a / b - 1) for a, b in zip(single.losses, run.losses))),
            "float32_parameter_difference": rounded(max(
                np.abs(single.parameters[n] - a).max() for n, a in run.parameters.items()
                if n not in zero)),
            "zero_gradient": zero,
            "parameters": {n: statistics(a) for n, a in run.parameters.items()},
            "running_statistics": {n: statistics(a) for n, a in run.running_onnx.items()},
            "running_statistics_framework": {n: statistics(a) for n, a in run.running.items()
                                             if a is not run.running_onnx[n]}}


def write(file: str, framework: str, loss: str, inputs, classes: int, train: Train) -> None:
    """Makes all runs of a model and writes training-FILE.json."""
    runs = {}
    for optimizer, options in OPTIMIZERS.items():
        rate = LEARNING_RATE.get(file.split("-")[0], {}).get(optimizer, options["learning_rate"])
        options = dict(options, learning_rate=rate)
        runs[optimizer] = record(file, optimizer, options, train)
        if runs[optimizer]["float32_loss_difference"] > CHAOTIC:
            gentle = dict(options, learning_rate=GENTLE[file.split("-")[0]][optimizer])
            runs[optimizer + "_gentle"] = record(file, optimizer, gentle, train)
    result = {"model": file, "framework": framework, "loss": loss, "classes": classes,
              "batch": BATCH, "distinct_batches": DISTINCT, "steps": STEPS,
              "inputs": [{"name": n, "shape": list(s)} for n, s in inputs], "runs": runs}
    path = os.path.join(HERE, f"training-{os.path.splitext(file)[0]}.json")
    with open(path, "w") as out:
        json.dump(result, out, separators=(",", ":"))
        out.write("\n")
    print(f"{os.path.basename(path)}: {os.path.getsize(path)} bytes")
    for name, run in runs.items():
        print(f"  {name}: loss {run['losses'][0]:.4f} to {run['losses'][-1]:.4f}; float32 leaves "
              f"float64 by {run['float32_loss_difference']:.1e} (loss, relative), "
              f"{run['float32_parameter_difference']:.1e} (parameters, absolute); "
              f"zero gradient: {run['zero_gradient']}", flush=True)


# ---- PyTorch ------------------------------------------------------------------------------------

TORCH_FILES = [f"{model}-torch-{how}.onnx" for model, how in (
    ("mlp", "ts-train"), ("mlp", "ts-eval"), ("mlp", "dynamo-eval"), ("mlp", "dynamo-train-raw"),
    ("cnnd", "ts-train"), ("cnnd", "dynamo-train-raw"), ("cnnd", "ts-eval"),
    ("cnnd", "dynamo-eval"), ("cnnd", "dynamo-train"), ("resnet18thin", "ts-train"),
    ("resnet18thin", "dynamo-train-raw"), ("resnet18thin", "dynamo-eval"), ("gated", "ts-train"),
    ("gated", "dynamo-train-raw"), ("tcn", "dynamo-train-raw"), ("volume", "ts-train"))]
BATCH_NORMS = ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d")


def computing_modules(model, *example) -> List[object]:
    """Convolutions, linear layers and BatchNorms in the order of their computation."""
    import torch
    from torch import nn
    order, hooks = [], []
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear, nn.BatchNorm1d, nn.BatchNorm2d)):
            hooks.append(module.register_forward_hook(lambda m, *_: order.append(m)))
    model.eval()
    with torch.no_grad():
        model(*example)
    for hook in hooks:
        hook.remove()
    return order


def load_by_name(model, arrays):
    """For load_torch, where the file has all of the model's own names."""
    import torch
    names = {p: n for n, p in model.named_parameters()}
    running = {m: [f"{n}.running_mean", f"{n}.running_var"] for n, m in model.named_modules()
               if type(m).__name__ in BATCH_NORMS}
    with torch.no_grad():
        for tensors in (model.named_parameters(), model.named_buffers()):
            for name, tensor in tensors:
                if name in arrays:
                    tensor.copy_(torch.from_numpy(arrays[name].copy()))
    return model, names, running


def load_torch(file: str):
    """The PyTorch model of a file in the file's form (BatchNorms that it lacks are gone).

    Gives (model, parameter -> name in the file, BatchNorm -> names of its running statistics).
    """
    import onnx
    import torch
    from onnx import numpy_helper
    from torch import nn

    import torch_models
    name = file.split("-")[0]
    model = torch_models.make(name)
    graph = onnx.load(os.path.join(MODELS, file)).graph
    arrays = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    for node in graph.node:  # An exporter's Identity stands for a merged initializer.
        if node.op_type == "Identity" and node.input[0] in arrays:
            arrays[node.output[0]] = arrays[node.input[0]]
    if all(n in arrays for n, _ in model.named_parameters()):
        return load_by_name(model, arrays)
    nodes = [n for n in graph.node if n.op_type in ("Conv", "Gemm", "BatchNormalization")]
    modules = computing_modules(model, *(torch.zeros(2, *s) for s in torch_models.MODELS[name][1].values()))
    parents = {c: (p, n) for p in model.modules() for n, c in p.named_children()}
    names, running, at = {}, {}, 0
    for module in modules:
        batch_norm = isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d))
        if batch_norm and (at == len(nodes) or nodes[at].op_type != "BatchNormalization"):
            parent, child = parents[module]
            setattr(parent, child, nn.Identity())  # Folded into the layer before it.
            continue
        inputs = list(nodes[at].input)
        at += 1
        if inputs[2:] and inputs[2] not in arrays:
            del inputs[2:]  # Zeros that the graph computes, no parameter.
        if not batch_norm and inputs[2:] and module.bias is None:
            module.bias = nn.Parameter(torch.zeros(module.weight.shape[0]))
        with torch.no_grad():
            for parameter, key in zip((module.weight, module.bias), inputs[1:3]):
                parameter.copy_(torch.from_numpy(arrays[key].copy()))
                names[parameter] = key
            if batch_norm:
                module.running_mean.copy_(torch.from_numpy(arrays[inputs[3]].copy()))
                module.running_var.copy_(torch.from_numpy(arrays[inputs[4]].copy()))
                running[module] = inputs[3:5]
    assert at == len(nodes) and all(p in names for p in model.parameters())
    return model, names, running


def train_torch(file: str, optimizer: str, options: dict, dtype: str) -> Run:
    import torch
    from torch import nn

    import torch_models
    model, names, running = load_torch(file)
    model.to(getattr(torch, dtype)).train()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        elif isinstance(module, nn.LeakyReLU):
            module.negative_slope = as_stored(module.negative_slope)
        elif type(module).__name__ in BATCH_NORMS:
            module.eps, module.momentum = as_stored(module.eps), 1 - as_stored(1 - module.momentum)
        elif hasattr(module, "eps"):
            module.eps = as_stored(module.eps)
    start = {m: m.running_var.clone().double() for m in running}
    counts = {}
    for m in running:
        m.register_forward_pre_hook(
            lambda m, x: counts.__setitem__(m, x[0].numel() // x[0].shape[1]))
    if optimizer == "sgd":
        stepper = torch.optim.SGD(model.parameters(), lr=options["learning_rate"],
                                  momentum=options["momentum"])
    else:
        stepper = torch.optim.Adam(model.parameters(), lr=options["learning_rate"],
                                   betas=(options["beta_1"], options["beta_2"]),
                                   eps=options["epsilon"])
    kind = file.split("-")[0]
    loss_of = nn.NLLLoss() if kind in torch_models.LOG_PROBABILITIES else nn.CrossEntropyLoss()
    shapes = [(BATCH, *shape) for shape in torch_models.MODELS[kind][1].values()]
    run = Run()
    for step in range(STEPS):
        xs, y = batch(step % DISTINCT, shapes, torch_models.CLASSES.get(kind, 10), BATCH)
        xs = [torch.from_numpy(x).to(getattr(torch, dtype)) for x in xs]
        stepper.zero_grad()
        loss = loss_of(model(*xs), torch.from_numpy(y))
        loss.backward()
        for parameter, name in names.items():
            run.largest_gradient[name] = max(run.largest_gradient.get(name, 0.0),
                                             float(parameter.grad.abs().max()))
        stepper.step()
        run.losses.append(loss.item())
    run.parameters = {n: p.detach().double().numpy() for p, n in names.items()}
    for module, (mean, variance) in running.items():
        run.running[mean] = run.running_onnx[mean] = module.running_mean.double().numpy()
        # PyTorch divides the variance by n - 1, ONNX by n; each step adds its share in proportion.
        n, kept = counts[module], (1 - module.momentum) ** STEPS * start[module]
        run.running[variance] = module.running_var.double().numpy()
        run.running_onnx[variance] = (
            kept + (module.running_var.double() - kept) * (n - 1) / n).numpy()
    return run


def make_torch(wanted) -> None:
    import torch

    import torch_models
    torch.set_num_threads(1)
    for file in TORCH_FILES:
        name = file.split("-")[0]
        if not wanted(name):
            continue
        loss = "nll" if name in torch_models.LOG_PROBABILITIES else "cross_entropy"
        inputs = [(x, (BATCH, *shape)) for x, shape in torch_models.MODELS[name][1].items()]
        write(file, f"PyTorch {torch.__version__.split('+')[0]}", loss, inputs,
              torch_models.CLASSES.get(name, 10), train_torch)


# ---- Keras --------------------------------------------------------------------------------------

def load_keras(file: str):
    """The Keras model with the file's weights, and (name in the file, variable, form) of each."""
    import keras_export
    import keras_models
    model = keras_models.make(file.split("-")[0])
    path = os.path.join(MODELS, file)
    keras_export.load_trained(model, path)
    exporter = keras_export.Exporter(keras_export.DEFAULT_OPSET)
    exporter.model(model)
    return model, list(exporter.variables.values())


def train_keras(file: str, optimizer: str, options: dict, dtype: str) -> Run:
    import keras
    import tensorflow as tf

    import keras_layers
    keras.config.set_floatx(dtype)
    keras.config.set_dtype_policy(dtype)
    model, variables = load_keras(file)
    for layer in model.layers:
        if isinstance(layer, keras.layers.Dropout):
            layer.rate = 0.0
        for attribute in ("epsilon", "momentum", "negative_slope"):
            if hasattr(layer, attribute):
                setattr(layer, attribute, as_stored(getattr(layer, attribute)))
    kind = keras.optimizers.SGD if optimizer == "sgd" else keras.optimizers.Adam
    # As numpy's numbers, for Keras would bring Python's to float32 on their way.
    stepper = kind(**{k: np.float64(v) for k, v in options.items()})
    loss_of = keras.losses.SparseCategoricalCrossentropy()
    trainable = model.trainable_variables
    names = {id(v): n for n, v, _ in variables}
    classes = model.outputs[0].shape[-1]
    run = Run()
    for step in range(STEPS):
        xs, y = batch(step % DISTINCT, keras_shapes(model), classes, BATCH)
        xs = [x.astype(dtype) for x in xs]
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(xs[0] if len(xs) == 1 else xs, training=True))
        gradients = tape.gradient(loss, [v.value for v in trainable])
        for v, g in zip(trainable, gradients):
            name = names[id(v)]
            run.largest_gradient[name] = max(run.largest_gradient.get(name, 0.0),
                                             float(np.abs(g.numpy()).max()))
        stepper.apply(gradients, trainable)
        run.losses.append(float(loss))
    for name, variable, form in variables:
        array = keras_layers.FORMS[form][0](keras_layers.to_numpy(variable)).astype("float64")
        if id(variable) in {id(v) for v in trainable}:
            run.parameters[name] = array
        else:
            run.running[name] = run.running_onnx[name] = array
    return run


def keras_shapes(model) -> List[Sequence[int]]:
    return [(BATCH, *t.shape[1:]) for t in model.inputs]


def make_keras(wanted) -> None:
    import keras
    import tensorflow as tf

    import keras_models
    tf.config.threading.set_intra_op_parallelism_threads(1)
    for name in filter(wanted, keras_models.MODELS):
        model = keras_models.make(name)
        inputs = list(zip([t._keras_history.operation.name for t in model.inputs],
                          keras_shapes(model)))
        file = f"{name}-keras_export-train.onnx"
        write(file, f"Keras {keras.__version__} (TensorFlow {tf.__version__})",
              "sparse_categorical_crossentropy", inputs, model.outputs[0].shape[-1],
              train_keras)


def main(argv: Optional[Sequence[str]] = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("framework", choices=["torch", "keras"])
    parser.add_argument("--only", metavar="MODEL,...", help="these alone, by name")
    args = parser.parse_args(argv)
    only = args.only.split(",") if args.only else None
    make = make_torch if args.framework == "torch" else make_keras
    make(lambda name: only is None or name in only)


if __name__ == "__main__":
    main()
