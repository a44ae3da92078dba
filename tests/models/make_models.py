#!/usr/bin/env python3
"""Makes the .onnx files of this folder, as PyTorch's and Keras' exporters write them.

  python3 make_models.py torch      where torch, onnx and onnxscript are installed
  python3 make_models.py keras      where keras, tensorflow, tf2onnx and onnx are installed

Files are named MODEL-EXPORTER-MODE.onnx (see README.md). Weights come from seed 0. From what the
exporters wrote, only stack traces are removed, for they name folders of the machine.
"""
import argparse
import os
import sys
import warnings
from typing import Dict, List, Optional, Sequence

HERE = os.path.dirname(os.path.abspath(__file__))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
sys.path.insert(0, os.path.join(HERE, "..", "..", "tools"))

TORCH_FILES: Dict[str, List[str]] = {
    "mlp": ["torch-ts-eval", "torch-ts-train", "torch-dynamo-eval", "torch-dynamo-train-raw",
            "torch-dynamo-default"],
    "cnnd": ["torch-ts-eval", "torch-ts-train", "torch-dynamo-eval", "torch-dynamo-train",
             "torch-dynamo-train-raw"],
    "resnet18thin": ["torch-ts-train", "torch-dynamo-eval", "torch-dynamo-train-raw"],
    "gated": ["torch-ts-train", "torch-dynamo-train-raw"],
    "tcn": ["torch-dynamo-train-raw"],
    "volume": ["torch-ts-train"],
}


def strip_traces(path: str) -> None:
    """Removes stack traces from metadata and doc strings; leaves external data alone."""
    import onnx
    model = onnx.load(path, load_external_data=False)

    def clean(entries):
        kept = [p for p in entries if "stack_trace" not in p.key]
        del entries[:]
        entries.extend(kept)

    graphs = [model.graph] + list(model.functions)
    for graph in graphs:
        for node in graph.node:
            clean(node.metadata_props)
            node.doc_string = ""
    for value in list(model.graph.input) + list(model.graph.output) + list(model.graph.value_info):
        clean(value.metadata_props)
    clean(model.graph.metadata_props)
    clean(model.metadata_props)
    with open(path, "wb") as file:
        file.write(model.SerializeToString(deterministic=True))


def make_torch(folder: str, wanted) -> None:
    import torch

    import torch_models
    for name, hows in TORCH_FILES.items():
        for how in hows if wanted(name) else []:
            _, exporter, mode, *raw = how.split("-")
            model = torch_models.make(name).train(mode == "train")
            shapes = torch_models.MODELS[name][1]
            example = tuple(torch.randn(2, *shape) for shape in shapes.values())
            path = os.path.join(folder, f"{name}-{how}.onnx")
            options = {"input_names": list(shapes), "dynamo": exporter == "dynamo"}
            if exporter == "ts":
                options["dynamic_axes"] = {x: {0: "batch"} for x in shapes}
                if mode == "train":
                    options.update(training=torch.onnx.TrainingMode.TRAINING,
                                   do_constant_folding=False)
            elif mode == "default":
                options = {}
            else:
                options["dynamic_shapes"] = tuple({0: torch.export.Dim("batch")} for _ in shapes)
                if raw:
                    options["optimize"] = False
            torch.onnx.export(model, example, path, **options)
            strip_traces(path)
            report(path)


def make_keras(folder: str, wanted) -> None:
    import numpy as np
    import tensorflow as tf
    import tf2onnx

    import keras_export
    import keras_models

    def at(name):
        return os.path.join(folder, name + ".onnx")

    def by_tf2onnx(model, path, training):
        spec = [tf.TensorSpec((None,) + tuple(t.shape[1:]), tf.float32, name="x")
                for t in model.inputs]
        function = tf.function(lambda x: model(x, training=training), input_signature=spec)
        tf2onnx.convert.from_function(function, spec, opset=18, output_path=path)
        report(path)

    def by_keras(model, path):
        model(np.zeros((2, *model.inputs[0].shape[1:]), "float32"))
        model.export(path, format="onnx", verbose=False)
        report(path)

    for name in filter(wanted, keras_models.MODELS):
        model = keras_models.make(name)
        path = at(f"{name}-keras_export-train")
        keras_export.export_training(model, path)
        report(path)
    if wanted("keras_mlp"):
        model = keras_models.make("keras_mlp")
        by_keras(model, at("keras_mlp-kerasexport_tensorflow-eval"))
        by_tf2onnx(model, at("keras_mlp-tf2onnx_function-eval"), False)
    if wanted("keras_cnn"):
        by_keras(keras_models.make("keras_cnn", width=4, hidden=16),
                 at("keras_cnn-kerasexport_tensorflow-eval"))
        by_tf2onnx(keras_models.make("keras_cnn", width=2, hidden=4),
                   at("keras_cnn-tf2onnx_function-train"), True)
    for name, size in (("keras_mlp", {"hidden": 16}), ("keras_cnn", {"width": 4, "hidden": 16})):
        if not wanted(name):
            continue
        model = as_if_trained(keras_models.make(name, **size))
        by_keras(model, at(f"{name}_trained-kerasexport_tensorflow-eval"))


def as_if_trained(model):
    """Moves every variable a little, so that none equals another and no bias is zero."""
    import numpy as np
    random = np.random.default_rng(0)
    for v in model.weights:
        v.assign_add(random.random(v.shape) * 0.02 + 0.001)
    return model


def report(path: str) -> None:
    data = path + ".data"
    extra = f" + {os.path.getsize(data)} bytes of external data" if os.path.exists(data) else ""
    print(f"{os.path.basename(path)}: {os.path.getsize(path)} bytes{extra}", flush=True)


def main(argv: Optional[Sequence[str]] = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("framework", choices=["torch", "keras"])
    parser.add_argument("--only", metavar="MODEL,...", help="these alone, by name")
    parser.add_argument("-o", "--output", default=HERE, help="folder (default: this one)")
    args = parser.parse_args(argv)
    warnings.filterwarnings("ignore")
    only = args.only.split(",") if args.only else None
    make = make_torch if args.framework == "torch" else make_keras
    make(args.output, lambda name: only is None or name in only)


if __name__ == "__main__":
    main()
