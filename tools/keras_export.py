#!/usr/bin/env python3
"""Writes a Keras 3 model as ONNX in training form, ready for `onward train`.

Keras' own exporters write a model for inference: Dropout is gone, BatchNormalization has become a
multiplication and an addition, and biases that are still zero are dropped. This tool writes

  * BatchNormalization nodes with training_mode=1 and their running statistics wired,
  * Dropout nodes with their ratio and training_mode=true,
  * every variable as an initializer named by its Keras path ("conv2d/kernel"), zero biases too,
  * a symbolic batch axis named "batch".

Convolutional parts run channels-first, as ONNX has them: a chain of convolutions is entered and
left through one Transpose each, and convolution kernels are stored output-channel first.

Examples:
  python3 tools/keras_export.py model.keras -o model.onnx --check
  python3 tools/keras_export.py model.keras --load trained.onnx -o trained.keras

As a module:
  from keras_export import export_training, load_trained
  export_training(model, "model.onnx")       # a built Sequential or functional model
  load_trained(model, "trained.onnx")        # puts trained weights back into the Keras model

It needs keras (any backend) and onnx; --check also uses onnxruntime where it is installed.
"""
import argparse
import json
import os
import sys
from typing import Dict, List, Optional, Sequence, Tuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # keras_layers is beside this file.
from keras_layers import (ACTIVATIONS, FORMS, LAYERS, Value, elem_type, find_writer, same,
                          to_float, to_numpy)

DEFAULT_OPSET = 21
_EXTERNAL_DATA_BYTES = 1 << 30  # A protobuf message ends at 2 GB.


class ExportError(Exception):
    """What cannot be written, with the layer's name and what to do."""


class Exporter:
    """Writes one model. `training=False` gives the same graph in inference form (for checks)."""

    def __init__(self, opset: int, training: bool = True, dropout: bool = True):
        self.opset = opset
        self.training = training
        self.dropout = dropout
        self.nodes: List[onnx.NodeProto] = []
        self.initializers: Dict[str, np.ndarray] = {}
        self.variables: Dict[int, Tuple[str, object, str]] = {}  # id -> (name, variable, form)
        self.running: Dict[str, str] = {}  # running statistic -> the value that replaces it
        self.forms: Dict[str, str] = {}
        self.frozen: List[str] = []
        self.notes: List[str] = []
        self.names: set = set()
        self.reported: set = set()
        self.layer = None

    # ---- Building blocks -----------------------------------------------------------------------

    def fail(self, what: str, advice: str = ""):
        layer = self.layer
        where = f"layer '{layer.name}' ({type(layer).__name__}): " if layer is not None else ""
        raise ExportError(where + what + (f"; {advice}" if advice else ""))

    def unique(self, name: str) -> str:
        candidate, n = name, 1
        while candidate in self.names:
            candidate, n = f"{name}_{n}", n + 1
        self.names.add(candidate)
        return candidate

    def op(self, op_type: str, inputs: Sequence[str], outputs: int = 1, **attributes) -> List[str]:
        """Adds a node named after the current layer; gives the names of its outputs."""
        name = self.unique(f"{self.layer.name}/{op_type}" if self.layer is not None else op_type)
        outs = [name if i == 0 else self.unique(f"{name}:{i}") for i in range(outputs)]
        self.nodes.append(helper.make_node(op_type, list(inputs), outs, name=name, **attributes))
        return outs

    def one(self, op_type: str, inputs: Sequence[str], **attributes) -> str:
        return self.op(op_type, inputs, **attributes)[0]

    def constant(self, array) -> str:
        """A Constant node: what is no variable of the model must not look like a parameter."""
        return self.one("Constant", [], value=numpy_helper.from_array(np.asarray(array)))

    def ints(self, numbers: Sequence[int]) -> str:
        return self.constant(np.asarray(numbers, np.int64))

    def scalar(self, number: float, like: Value) -> str:
        return self.constant(np.asarray(number, like.dtype))

    def variable(self, variable, form: str = "as is") -> str:
        """The initializer of a Keras variable. `form` names how it is stored (see FORMS)."""
        known = self.variables.get(id(variable))
        if known is not None:
            if known[2] != form:
                self.fail(f"variable '{variable.path}' is used in two layouts")
            return known[0]
        name = self.unique(variable.path)
        array = FORMS[form][0](to_numpy(variable))
        self.initializers[name] = np.ascontiguousarray(array)
        self.variables[id(variable)] = (name, variable, form)
        if form != "as is":
            self.forms[name] = form
        return name

    def channels_first(self, x: Value) -> Value:
        return x if x.first or x.rank <= 2 else self._other(x)

    def keras_order(self, x: Value) -> Value:
        return self._other(x) if x.first else x

    def _other(self, x: Value) -> Value:
        if x.twin is None:
            r = x.rank
            perm = [0, *range(2, r), 1] if x.first else [0, r - 1, *range(1, r - 1)]
            name = self.one("Transpose", [x.name], perm=perm)
            x.twin = Value(name, x.shape, x.dtype, not x.first)
            x.twin.twin = x
        return x.twin

    def for_channels(self, x: Value, data_format: str) -> Value:
        """`x` with its channels at ONNX's place 1, for a layer of that data format."""
        return self.keras_order(x) if data_format == "channels_first" else self.channels_first(x)

    # ---- The model -----------------------------------------------------------------------------

    def model(self, model) -> onnx.ModelProto:
        import keras
        function = as_function(model)
        floating = {v.dtype for v in model.variables if "float" in v.dtype}
        if floating - {"float32", "float64"}:
            raise ExportError(f"variables of type {sorted(floating)}: only float32 and float64 are "
                              "written; build the model with the dtype policy 'float32'")
        inputs, infos = [], []
        for tensor in function.inputs:
            name = self.unique(operation_of(tensor).name)
            infos.append(value_info(name, tensor.dtype, tensor.shape))
            inputs.append(Value(name, tensor.shape, tensor.dtype))
        outputs = [self.keras_order(v) for v in self.function(function, inputs)]
        out_infos = self._name_outputs(function, inputs, outputs)
        initializers = [numpy_helper.from_array(a, n) for n, a in self.initializers.items()]
        graph = helper.make_graph(self.nodes, model.name, infos, out_infos, initializers)
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)],
                                  producer_name="onward keras_export")
        proto.ir_version = min(proto.ir_version, 10)
        properties = {"keras.version": keras.__version__,
                      "keras.kernel_forms": json.dumps(self.forms)}
        if self.frozen:
            properties["keras.non_trainable"] = json.dumps(self.frozen)
        helper.set_model_props(proto, properties)
        return proto

    def _name_outputs(self, function, inputs, outputs) -> List[onnx.ValueInfoProto]:
        """Names each graph output by its layer; an input handed through gets an Identity."""
        self.layer = None
        infos, taken = [], {v.name for v in inputs}
        for tensor, value in zip(function.outputs, outputs):
            name = self.unique(operation_of(tensor).name)
            old = value.name
            if old in taken:
                self.nodes.append(helper.make_node("Identity", [old], [name], name=name))
            else:
                for node in self.nodes:
                    for names in (node.input, node.output):
                        for i in range(len(names)):
                            if names[i] == old:
                                names[i] = name
                value.name = name
            taken.add(name)
            infos.append(value_info(name, value.dtype, value.shape))
        return infos

    def function(self, function, inputs: Sequence[Value]) -> List[Value]:
        """Writes a Keras graph of operations (also one nested in another)."""
        values = {id(t): v for t, v in zip(function.inputs, inputs)}
        for depth in sorted(function._nodes_by_depth, reverse=True):
            for node in function._nodes_by_depth[depth]:
                if node.is_input or not node.operation:
                    continue
                if any(id(t) not in values for t in node.input_tensors):
                    continue
                results = self.operation(node, [values[id(t)] for t in node.input_tensors])
                for tensor, value in zip(node.outputs, results):
                    values[id(tensor)] = value
        return [values[id(t)] for t in function.outputs]

    def operation(self, node, inputs: List[Value]) -> List[Value]:
        import keras
        layer = node.operation
        if isinstance(layer, keras.Model):
            return self.function(as_function(layer), inputs)
        self.layer = layer
        write = find_writer(layer)
        if write is None:
            self.fail("this tool cannot write such a layer in training form",
                      "replace it by layers that --layers lists")
        if len(node.outputs) != 1:
            self.fail("a layer with several outputs cannot be written")
        self._report(layer)
        out = node.outputs[0]
        if type(layer).__module__.startswith("keras.src.ops"):
            value = write(self, node, inputs, out)
        else:
            inputs = [to_float(self, x, layer.compute_dtype) if casts(layer, x) else x
                      for x in inputs]
            value = write(self, layer, inputs if len(inputs) != 1 else inputs[0], out)
        self.layer = None
        return [value]

    def _report(self, layer):
        """Says what a layer has that an ONNX file cannot hold."""
        if layer.name in self.reported:
            return
        self.reported.add(layer.name)
        for name in ("kernel", "bias", "depthwise", "pointwise", "activity", "embeddings", "gamma",
                     "beta", "alpha"):
            if getattr(layer, f"{name}_regularizer", None) is not None:
                self.notes.append(f"layer '{layer.name}': its {name}_regularizer is not part of an "
                                  "ONNX model; give the weight decay to the trainer")
            if getattr(layer, f"{name}_constraint", None) is not None:
                self.notes.append(f"layer '{layer.name}': its {name}_constraint is not part of an "
                                  "ONNX model and will not be kept in training")
        if getattr(layer, "weights", None) and not layer.trainable:
            paths = [v.path for v in layer.weights]
            self.frozen += paths
            self.notes.append(f"layer '{layer.name}' is frozen (trainable=False); train with "
                              f"--freeze '{os.path.commonprefix(paths).rpartition('/')[0]}/*'")

    def activation(self, function, x: Value) -> Value:
        """Applies a Keras activation function (None and linear: nothing)."""
        import keras
        if function is None:
            return x
        if isinstance(function, keras.layers.Layer):
            write = find_writer(function)
            if write is None:
                self.fail(f"activation layer {type(function).__name__} cannot be written")
            return write(self, function, x, None)
        name = getattr(function, "__name__", str(function))
        if name not in ACTIVATIONS or getattr(keras.activations, name, None) is not function:
            self.fail(f"activation '{name}' cannot be written",
                      "known ones: " + ", ".join(sorted(ACTIVATIONS)))
        return same(x, ACTIVATIONS[name](self, x))


# ---- Small things -------------------------------------------------------------------------------

def value_info(name: str, dtype: str, shape) -> onnx.ValueInfoProto:
    dims = ["batch"] + [f"{name}_{i}" if d is None else d for i, d in enumerate(shape) if i > 0]
    return helper.make_tensor_value_info(name, elem_type(dtype), dims)


def casts(layer, x: Value) -> bool:
    """Whether Keras brings this input to the layer's own type: floats always, ids never."""
    return "float" in x.dtype or (bool(layer.weights) and type(layer).__name__ != "Embedding")


def operation_of(tensor):
    return tensor._keras_history.operation


def as_function(model):
    """The graph of operations of a Sequential or functional model."""
    import keras
    if isinstance(model, keras.Sequential):
        if not model.built or model._functional is None:
            raise ExportError(f"model '{model.name}' is not built: begin it with "
                              "keras.Input(shape), or call it once on data")
        return model._functional
    if hasattr(model, "_nodes_by_depth"):
        return model
    raise ExportError(f"model '{model.name}' ({type(model).__name__}) is subclassed: only "
                      "Sequential and functional models can be written; build it from "
                      "keras.Input and layers")


# ---- The module's face --------------------------------------------------------------------------

def training_model(model, opset: int = DEFAULT_OPSET) -> Tuple[onnx.ModelProto, List[str]]:
    """The model in training form, and what it could not carry over (one line each)."""
    if opset < 18:
        raise ExportError(f"opset {opset}: 18 is the oldest that this tool writes")
    exporter = Exporter(opset)
    proto = exporter.model(model)
    if proto.ByteSize() < _EXTERNAL_DATA_BYTES:
        onnx.checker.check_model(proto, full_check=True)
    return proto, exporter.notes


def export_training(model, path: str, opset: int = DEFAULT_OPSET) -> List[str]:
    """Writes `model` to `path`; gives the notes. Raises ExportError for what cannot be written."""
    proto, notes = training_model(model, opset)
    external = proto.ByteSize() >= _EXTERNAL_DATA_BYTES
    onnx.save_model(proto, path, save_as_external_data=external,
                    location=os.path.basename(path) + ".data" if external else None)
    return notes


def load_trained(model, path: str) -> int:
    """Puts the initializers of `path` back into `model`'s variables; gives their number."""
    exporter = Exporter(DEFAULT_OPSET)
    exporter.model(model)
    stored = {i.name: i for i in onnx.load(path).graph.initializer}
    missing = [n for n, _, _ in exporter.variables.values() if n not in stored]
    if missing:
        raise ExportError(f"{path}: has no initializer '{missing[0]}' ({len(missing)} missing): "
                          "was it exported from this model by this tool?")
    arrays = []
    for name, variable, form in exporter.variables.values():
        array, expected = numpy_helper.to_array(stored[name]), exporter.initializers[name].shape
        if array.shape != expected:
            raise ExportError(f"{path}: '{name}' is {array.shape}, expected {expected}")
        arrays.append((variable, FORMS[form][1](array, tuple(variable.shape))))
    for variable, array in arrays:
        variable.assign(np.ascontiguousarray(array))
    return len(arrays)


# ---- The check against Keras --------------------------------------------------------------------

def evaluate(proto: onnx.ModelProto, feeds: Dict[str, np.ndarray], training: bool):
    """Runs a model by onnxruntime where it is installed and can, else by ONNX's evaluator."""
    double = any(i.data_type == onnx.TensorProto.DOUBLE for i in proto.graph.initializer)
    batch_norm = any(n.op_type == "BatchNormalization" for n in proto.graph.node)
    if not double and not (training and batch_norm):  # onnxruntime has no kernels for these.
        try:
            import onnxruntime
            session = onnxruntime.InferenceSession(proto.SerializeToString(),
                                                   providers=["CPUExecutionProvider"])
            return session.run(None, feeds)
        except ImportError:
            pass
    from onnx.reference import ReferenceEvaluator
    return ReferenceEvaluator(proto).run(None, feeds)


def random_inputs(model, batch: int, seed: int = 0) -> List[np.ndarray]:
    """Inputs that the model accepts: ids below the smallest embedding, numbers about zero."""
    import keras
    random = np.random.default_rng(seed)
    limit = min([l.input_dim for l in model._flatten_layers()
                 if isinstance(l, keras.layers.Embedding)], default=100)
    arrays = []
    for tensor in as_function(model).inputs:
        shape = (batch,) + tuple(16 if d is None else d for d in tensor.shape[1:])
        ids = "int" in tensor.dtype
        arrays.append((random.integers(0, limit, shape) if ids
                       else random.standard_normal(shape)).astype(tensor.dtype))
    return arrays


def keras_run(model, inputs: Sequence[np.ndarray], training: bool, variables):
    """Keras' outputs with dropout off, and the variables after; leaves the model as it was."""
    import keras
    weights, rates = model.get_weights(), {}
    for layer in model._flatten_layers():
        if "Dropout" in type(layer).__name__:
            rates[layer] = layer.rate
            layer.rate = 0.0
    try:
        function = as_function(model)
        struct = keras.tree.pack_sequence_as(function._inputs_struct, list(inputs))
        outputs = [to_numpy(t) for t in keras.tree.flatten(model(struct, training=training))]
        return outputs, {name: to_numpy(v) for name, v, _ in variables}
    finally:
        for layer, rate in rates.items():
            layer.rate = rate
        model.set_weights(weights)


def difference(what: str, ours, theirs) -> float:
    """The largest difference, relative to the largest element."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    if ours.shape != theirs.shape:
        raise ExportError(f"{what}: shape {ours.shape}, Keras has {theirs.shape}")
    scale = max(float(np.abs(theirs).max(initial=0)), 1e-6)
    return float(np.abs(ours - theirs).max(initial=0)) / scale


def check(model, opset: int = DEFAULT_OPSET, batch: int = 5, tolerance: float = 1e-4) -> float:
    """Compares both modes with Keras' own outputs; gives the largest relative difference.

    Training mode is compared with dropout off: batch statistics, and the running statistics that
    one step leaves. Raises ExportError where they differ by more than `tolerance`.
    """
    inputs = random_inputs(model, batch)
    worst = 0.0
    for training in (False, True):
        exporter = Exporter(opset, training, dropout=False)
        proto = exporter.model(model)
        feeds = {i.name: a for i, a in zip(proto.graph.input, inputs)}
        compared = [f"output '{o.name}'" for o in proto.graph.output]
        types = {i.name: i.data_type for i in proto.graph.initializer}
        for statistic, value in exporter.running.items():
            proto.graph.output.append(helper.make_tensor_value_info(value, types[statistic], None))
            compared.append(f"'{statistic}' after a step")
        ours = evaluate(proto, feeds, training)
        theirs, after = keras_run(model, inputs, training, exporter.variables.values())
        theirs = theirs + [after[s] for s in exporter.running]
        for what, a, b in zip(compared, ours, theirs):
            what += " in training mode" if training else " in inference mode"
            d = difference(what, a, b)
            worst = max(worst, d)
            if not d <= tolerance:
                raise ExportError(f"{what}: differs from Keras by {d:.3g} (relative)")
    return worst


def main(argv: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", help="a .keras (or .h5) file")
    parser.add_argument("-o", "--output", help="the .onnx file to write (with --load: .keras)")
    parser.add_argument("--opset", type=int, default=DEFAULT_OPSET)
    parser.add_argument("--check", action="store_true",
                        help="compare both modes with Keras' own outputs")
    parser.add_argument("--load", metavar="TRAINED.onnx",
                        help="put the weights of a trained file back into the Keras model")
    parser.add_argument("--layers", action="store_true", help="list the layers that can be written")
    args = parser.parse_args(argv)
    if args.layers:
        print("\n".join(sorted(LAYERS)))
        return 0
    if not args.model or not args.output:
        parser.error("a model and -o FILE are needed")
    try:
        import keras
        model = keras.models.load_model(args.model, compile=False)
        if args.load:
            count = load_trained(model, args.load)
            model.save(args.output)
            print(f"{args.output}: {count} variables from {args.load}")
            return 0
        if args.check:
            print(f"check: equal to Keras in both modes within {check(model, args.opset):.2g}")
        for note in export_training(model, args.output, args.opset):
            print("note: " + note, file=sys.stderr)
        print(f"{args.output}: {len(model.variables)} variables, opset {args.opset}")
        return 0
    except (ExportError, ValueError, OSError) as error:
        print(f"keras_export: {args.model}: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
