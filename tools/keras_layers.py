"""How each Keras layer is written in ONNX: one function a layer, for keras_export.py.

A writer takes (exporter, layer, value or list of values, Keras' output tensor) and gives the Value
that the layer makes. LAYERS lists them by the layer's class. To add a layer, write one function and
one line there, and a case in tests/keras_export_test.py.
"""
import math
from typing import Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np
from onnx import TensorProto, helper, numpy_helper


class Value:
    """A value of the ONNX graph that stands for a Keras tensor.

    `shape` has Keras' order of axes (None: unknown). Where `first` holds, the ONNX value has the
    last axis of Keras moved to place 1 (channels first).
    """

    def __init__(self, name: str, shape: Sequence[Optional[int]], dtype: str, first: bool = False):
        self.name = name
        self.shape = tuple(shape)
        self.dtype = dtype
        self.first = first and len(self.shape) > 2
        self.twin: Optional["Value"] = None  # The same tensor in the other order, once written.

    @property
    def rank(self) -> int:
        return len(self.shape)

    def axis(self, axis: int) -> int:
        """Where Keras' `axis` lies in the ONNX value."""
        axis %= self.rank
        if not self.first or axis == 0:
            return axis
        return 1 if axis == self.rank - 1 else axis + 1


def to_numpy(variable) -> np.ndarray:
    import keras
    return np.array(keras.ops.convert_to_numpy(variable))


def elem_type(dtype: str) -> int:
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


# ---- How variables are stored: (to the file, back) ----------------------------------------------

def _depthwise(a):
    a = np.moveaxis(a, (-2, -1), (0, 1))
    return a.reshape((a.shape[0] * a.shape[1], 1) + a.shape[2:])


def _depthwise_back(a, shape):
    a = a.reshape(tuple(shape[-2:]) + tuple(shape[:-2]))
    return np.moveaxis(a, (0, 1), (-2, -1))


FORMS: Dict[str, Tuple[Callable, Callable]] = {
    "as is": (lambda a: a, lambda a, shape: a),
    "output channel first": (lambda a: np.moveaxis(a, (-1, -2), (0, 1)),
                             lambda a, shape: np.moveaxis(a, (0, 1), (-1, -2))),
    "input channel first": (lambda a: np.moveaxis(a, (-1, -2), (0, 1)),
                            lambda a, shape: np.moveaxis(a, (0, 1), (-1, -2))),
    "depthwise, channel first": (_depthwise, _depthwise_back),
    "channel first": (lambda a: np.moveaxis(a, -1, 0), lambda a, shape: np.moveaxis(a, 0, -1)),
}


# ---- Activations --------------------------------------------------------------------------------

def _relu(e, x, slope=0.0, maximum=None, threshold=0.0):
    if threshold:
        e.fail("a ReLU with a threshold cannot be written")
    if slope and maximum is not None:
        e.fail("a ReLU with both a slope and a maximum cannot be written")
    if slope:
        return e.one("LeakyRelu", [x.name], alpha=float(slope))
    if maximum is not None:
        return e.one("Clip", [x.name, e.scalar(0, x), e.scalar(maximum, x)])
    return e.one("Relu", [x.name])


def _gelu(e, x):
    if e.opset < 20:
        e.fail("Gelu needs opset 20", "use --opset 20 or later")
    return e.one("Gelu", [x.name], approximate="none")


ACTIVATIONS: Dict[str, Callable] = {
    "linear": lambda e, x: x.name,
    "relu": _relu,
    "relu6": lambda e, x: _relu(e, x, maximum=6.0),
    "leaky_relu": lambda e, x: _relu(e, x, slope=0.2),
    "elu": lambda e, x: e.one("Elu", [x.name], alpha=1.0),
    "celu": lambda e, x: e.one("Celu", [x.name], alpha=1.0),
    "selu": lambda e, x: e.one("Selu", [x.name]),
    "gelu": _gelu,
    "sigmoid": lambda e, x: e.one("Sigmoid", [x.name]),
    "tanh": lambda e, x: e.one("Tanh", [x.name]),
    "softplus": lambda e, x: e.one("Softplus", [x.name]),
    "softsign": lambda e, x: e.one("Softsign", [x.name]),
    "exponential": lambda e, x: e.one("Exp", [x.name]),
    "hard_sigmoid": lambda e, x: e.one("HardSigmoid", [x.name], alpha=1 / 6, beta=0.5),
    "hard_silu": lambda e, x: e.one("HardSwish", [x.name]),
    "hard_tanh": lambda e, x: e.one("Clip", [x.name, e.scalar(-1, x), e.scalar(1, x)]),
    "mish": lambda e, x: e.one("Mish", [x.name]),
    "silu": lambda e, x: e.one("Mul", [x.name, e.one("Sigmoid", [x.name])]),
    "log_sigmoid": lambda e, x: e.one("Neg", [e.one("Softplus", [e.one("Neg", [x.name])])]),
    "tanh_shrink": lambda e, x: e.one("Sub", [x.name, e.one("Tanh", [x.name])]),
    "softmax": lambda e, x: e.one("Softmax", [x.name], axis=x.axis(-1)),
    "log_softmax": lambda e, x: e.one("LogSoftmax", [x.name], axis=x.axis(-1)),
}


# ---- Layers -------------------------------------------------------------------------------------

def same(x: Value, name: str) -> Value:
    """A value of the same shape and order as `x` (and `x` itself where the name is its own)."""
    return x if name == x.name else Value(name, x.shape, x.dtype, x.first)


def nothing(e, layer, x, out):
    return x


def dense(e, layer, x, out):
    x = e.keras_order(x)
    if getattr(layer, "quantization_mode", None) or getattr(layer, "lora_enabled", False):
        e.fail("quantized and LoRA layers cannot be written")
    kernel = e.variable(layer.kernel)
    if x.rank == 2:
        bias = [e.variable(layer.bias)] if layer.use_bias else []
        name = e.one("Gemm", [x.name, kernel] + bias)
    else:
        name = e.one("MatMul", [x.name, kernel])
        if layer.use_bias:
            name = e.one("Add", [name, e.variable(layer.bias)])
    return e.activation(layer.activation, Value(name, out.shape, x.dtype))


def spatial(x: Value, data_format: str) -> Tuple[Optional[int], ...]:
    return x.shape[2:] if data_format == "channels_first" else x.shape[1:-1]


def channels(x: Value, data_format: str) -> int:
    return x.shape[1] if data_format == "channels_first" else x.shape[-1]


def window(e, x, layer, kernel, dilations=None) -> dict:
    """The attributes of a sliding window, with Keras' padding as ONNX says it."""
    kernel, strides = list(kernel), list(layer.strides)
    dilations = list(dilations or [1] * len(kernel))
    attributes = {"kernel_shape": kernel, "strides": strides}
    if any(d != 1 for d in dilations):
        attributes["dilations"] = dilations
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    if layer.padding == "valid":
        attributes["pads"] = [0] * (2 * len(kernel))
    elif layer.padding == "causal":
        attributes["pads"] = [r - 1 for r in reach] + [0] * len(kernel)
    else:  # "same": what is odd goes to the end, and with a stride it depends on the size.
        sizes = spatial(x, layer.data_format)
        if any(n is None and s > 1 for n, s in zip(sizes, strides)):
            attributes["auto_pad"] = "SAME_UPPER"
            return attributes
        total = [max((math.ceil(n / s) - 1) * s + r - n, 0) if s > 1 else r - 1
                 for n, s, r in zip(sizes, strides, reach)]
        attributes["pads"] = [t // 2 for t in total] + [t - t // 2 for t in total]
    return attributes


def conv(e, layer, x, out):
    x = e.for_channels(x, layer.data_format)
    names = [x.name, e.variable(layer.kernel, "output channel first")]
    if layer.use_bias:
        names.append(e.variable(layer.bias))
    name = e.one("Conv", names, group=layer.groups,
                 **window(e, x, layer, layer.kernel_size, layer.dilation_rate))
    return e.activation(layer.activation, Value(name, out.shape, x.dtype, x.first))


def conv_transpose(e, layer, x, out):
    x = e.for_channels(x, layer.data_format)
    if getattr(layer, "output_padding", None) is not None:
        e.fail("output_padding cannot be written", "leave it to the layer")
    # "same" gives n * stride, "valid" what the windows cover, but no less than n * stride.
    reach = [(k - 1) * d + 1 for k, d in zip(layer.kernel_size, layer.dilation_rate)]
    cut = [max(r - s, 0) if layer.padding == "same" else 0 for r, s in zip(reach, layer.strides)]
    attributes = {"kernel_shape": list(layer.kernel_size), "strides": list(layer.strides),
                  "dilations": list(layer.dilation_rate),
                  "pads": [c // 2 for c in cut] + [c - c // 2 for c in cut],
                  "output_padding": [max(s - r, 0) for r, s in zip(reach, layer.strides)]}
    names = [x.name, e.variable(layer.kernel, "input channel first")]
    if layer.use_bias:
        names.append(e.variable(layer.bias))
    name = e.one("ConvTranspose", names, **attributes)
    return e.activation(layer.activation, Value(name, out.shape, x.dtype, x.first))


def depthwise_conv(e, layer, x, out):
    x = e.for_channels(x, layer.data_format)
    names = [x.name, e.variable(layer.kernel, "depthwise, channel first")]
    if layer.use_bias:
        names.append(e.variable(layer.bias))
    name = e.one("Conv", names, group=channels(x, layer.data_format),
                 **window(e, x, layer, layer.kernel_size, layer.dilation_rate))
    return e.activation(layer.activation, Value(name, out.shape, x.dtype, x.first))


def separable_conv(e, layer, x, out):
    x = e.for_channels(x, layer.data_format)
    depthwise = e.variable(layer.depthwise_kernel, "depthwise, channel first")
    name = e.one("Conv", [x.name, depthwise], group=channels(x, layer.data_format),
                 **window(e, x, layer, layer.kernel_size, layer.dilation_rate))
    names = [name, e.variable(layer.pointwise_kernel, "output channel first")]
    if layer.use_bias:
        names.append(e.variable(layer.bias))
    name = e.one("Conv", names, kernel_shape=[1] * len(layer.kernel_size))
    return e.activation(layer.activation, Value(name, out.shape, x.dtype, x.first))


def pooling(op_type: str):
    """Averages leave padding out, as on TensorFlow and JAX (2-D and 3-D on PyTorch do not)."""
    def write(e, layer, x, out):
        x = e.for_channels(x, layer.data_format)
        name = e.one(op_type, [x.name], **window(e, x, layer, layer.pool_size))
        return Value(name, out.shape, x.dtype, x.first)
    return write


def global_pooling(op_type: str):
    def write(e, layer, x, out):
        x = e.for_channels(x, layer.data_format)
        name = e.one(op_type, [x.name])
        if layer.keepdims:
            return Value(name, out.shape, x.dtype, x.first)
        return Value(e.one("Flatten", [name], axis=1), out.shape, x.dtype)
    return write


def batch_normalization(e, layer, x, out):
    axis = layer.axis % x.rank
    if x.rank == 2 or axis == x.rank - 1:
        x = e.channels_first(x)
    elif axis == 1:
        x = e.keras_order(x)
    else:
        e.fail(f"axis {layer.axis} is neither the last axis nor axis 1")
    size = x.shape[axis]
    scale = e.variable(layer.gamma) if layer.scale else e.constant(np.ones(size, x.dtype))
    shift = e.variable(layer.beta) if layer.center else e.constant(np.zeros(size, x.dtype))
    mean, variance = e.variable(layer.moving_mean), e.variable(layer.moving_variance)
    training = e.training and layer.trainable  # A frozen one keeps its statistics, as in Keras.
    outs = e.op("BatchNormalization", [x.name, scale, shift, mean, variance],
                epsilon=float(layer.epsilon), momentum=float(layer.momentum),
                training_mode=int(training), outputs=3 if training else 1)
    if training:
        e.running.update({mean: outs[1], variance: outs[2]})
    return same(x, outs[0])


def layer_normalization(e, layer, x, out):
    x = e.keras_order(x)
    axes = sorted(a % x.rank for a in np.atleast_1d(layer.axis).tolist())
    if axes != list(range(axes[0], x.rank)):
        e.fail(f"axes {layer.axis} are not the last axes")
    if getattr(layer, "rms_scaling", False):
        e.fail("rms_scaling=True cannot be written")
    size = [x.shape[a] for a in axes]
    scale = e.variable(layer.gamma) if layer.scale else e.constant(np.ones(size, x.dtype))
    names = [x.name, scale] + ([e.variable(layer.beta)] if layer.center else [])
    return same(x, e.one("LayerNormalization", names, axis=axes[0], epsilon=float(layer.epsilon)))


def drop(e, name: str, rate: float, like: Value) -> str:
    training = np.asarray(e.training and e.dropout)
    return e.one("Dropout", [name, e.scalar(rate, like), e.constant(training)])


def dropout(e, layer, x, out):
    if getattr(layer, "noise_shape", None) is not None:
        e.fail("noise_shape cannot be written", "use SpatialDropout for whole channels")
    return same(x, drop(e, x.name, layer.rate, x))


def spatial_dropout(e, layer, x, out):
    """One draw per sample and channel: ones of that shape are dropped, and scale the input."""
    x = e.for_channels(x, getattr(layer, "data_format", None) or "channels_last")
    head = e.one("Shape", [x.name], start=0, end=2)
    shape = e.one("Concat", [head, e.ints([1] * (x.rank - 2))], axis=0)
    ones = e.one("ConstantOfShape", [shape], value=numpy_helper.from_array(np.ones(1, x.dtype)))
    return same(x, e.one("Mul", [x.name, drop(e, ones, layer.rate, x)]))


def flatten(e, layer, x, out):
    if x.rank == 2:
        return x
    if layer.data_format == "channels_first":  # Keras flattens in channels-last order all the same.
        x = e.keras_order(x)
        name = e.one("Transpose", [x.name], perm=[0, *range(2, x.rank), 1])
    elif x.first and all(n == 1 for n in x.shape[1:-1]):
        name = x.name
    else:
        name = e.keras_order(x).name
    return Value(e.one("Flatten", [name], axis=1), out.shape, x.dtype)


def reshape(e, layer, x, out):
    x = e.keras_order(x)
    target = [0] + [-1 if n is None else n for n in out.shape[1:]]
    if target.count(-1) > 1:
        target = [0, *layer.target_shape]
    return Value(e.one("Reshape", [x.name, e.ints(target)]), out.shape, x.dtype)


def permute(e, layer, x, out):
    x = e.keras_order(x)
    return Value(e.one("Transpose", [x.name], perm=[0, *layer.dims]), out.shape, x.dtype)


def repeat_vector(e, layer, x, out):
    name = e.one("Unsqueeze", [x.name, e.ints([1])])
    return Value(e.one("Expand", [name, e.ints([1, layer.n, 1])]), out.shape, x.dtype)


def activation(e, layer, x, out):
    return e.activation(layer.activation, x)


def relu(e, layer, x, out):
    return same(x, _relu(e, x, float(layer.negative_slope or 0), layer.max_value,
                         float(layer.threshold or 0)))


def leaky_relu(e, layer, x, out):
    return same(x, e.one("LeakyRelu", [x.name], alpha=float(layer.negative_slope)))


def elu(e, layer, x, out):
    return same(x, e.one("Elu", [x.name], alpha=float(layer.alpha)))


def softmax(e, layer, x, out):
    if not isinstance(layer.axis, int):
        e.fail("a Softmax over several axes cannot be written")
    return same(x, e.one("Softmax", [x.name], axis=x.axis(layer.axis)))


def prelu(e, layer, x, out):
    known = e.variables.get(id(layer.alpha))
    if known is not None:  # A shared layer keeps the order of its first use.
        x = e.channels_first(x) if known[2] == "channel first" else e.keras_order(x)
    alpha = e.variable(layer.alpha, "channel first" if x.first else "as is")
    return same(x, e.one("PRelu", [x.name, alpha]))


def align(e, xs: Sequence[Value]) -> List[Value]:
    """Inputs of one operator in one order of axes, ranks filled with ones as Keras does."""
    rank = max(x.rank for x in xs)
    if any(x.rank != rank for x in xs):
        filled = []
        for x in (e.keras_order(x) for x in xs):
            missing = rank - x.rank
            if missing:
                name = e.one("Unsqueeze", [x.name, e.ints(list(range(1, 1 + missing)))])
                x = Value(name, (x.shape[0],) + (1,) * missing + x.shape[1:], x.dtype)
            filled.append(x)
        return filled
    return [e.channels_first(x) for x in xs] if any(x.first for x in xs) else list(xs)


def merge(op_type: str, variadic: Optional[str] = None):
    """A layer over several inputs: `variadic` for more than two, else a chain of `op_type`."""
    def write(e, layer, xs, out):
        xs = align(e, xs if isinstance(xs, list) else [xs])
        names = [x.name for x in xs]
        if variadic and (len(names) > 2 or variadic == op_type):
            name = e.one(variadic, names)
        else:
            name = names[0]
            for other in names[1:]:
                name = e.one(op_type, [name, other])
        return Value(name, out.shape, xs[0].dtype, xs[0].first)
    return write


def concatenate(e, layer, xs, out):
    xs = align(e, xs if isinstance(xs, list) else [xs])
    name = e.one("Concat", [x.name for x in xs], axis=xs[0].axis(layer.axis))
    return Value(name, out.shape, xs[0].dtype, xs[0].first)


def spatial_axes(x: Value, layer) -> List[int]:
    first = 2 if getattr(layer, "data_format", None) == "channels_first" else 1
    return [x.axis(first + i) for i in range(x.rank - 2)]


def pairs(amounts, rank: int) -> List[Tuple[int, int]]:
    """Keras' padding or cropping as (before, after) per spatial axis."""
    return [tuple(amounts)] if rank == 1 else [tuple(p) for p in amounts]


def zero_padding(e, layer, x, out):
    begin, end = [0] * x.rank, [0] * x.rank
    for axis, (a, b) in zip(spatial_axes(x, layer), pairs(layer.padding, x.rank - 2)):
        begin[axis], end[axis] = a, b
    name = e.one("Pad", [x.name, e.ints(begin + end), e.scalar(0, x)], mode="constant")
    return Value(name, out.shape, x.dtype, x.first)


def cropping(e, layer, x, out):
    cuts = pairs(layer.cropping, x.rank - 2)
    ends = [-b if b else np.iinfo(np.int64).max for _, b in cuts]
    name = e.one("Slice", [x.name, e.ints([a for a, _ in cuts]), e.ints(ends),
                           e.ints(spatial_axes(x, layer))])
    return Value(name, out.shape, x.dtype, x.first)


def up_sampling(e, layer, x, out):
    data_format = getattr(layer, "data_format", None) or "channels_last"
    interpolation = getattr(layer, "interpolation", "nearest")
    x = e.for_channels(x, data_format)
    size = [int(s) for s in np.atleast_1d(layer.size)]
    sizes = spatial(x, data_format)
    if interpolation == "nearest" and None not in sizes:  # Plain operators have plain gradients.
        split, spread, joined = [0, 0], [1, 1], [0, 0]
        for n, s in zip(sizes, size):
            split, spread, joined = split + [n, 1], spread + [1, s], joined + [n * s]
        name = e.one("Reshape", [x.name, e.ints(split)])
        name = e.one("Expand", [name, e.ints(spread)])
        name = e.one("Reshape", [name, e.ints(joined)])
    elif interpolation in ("nearest", "bilinear"):
        nearest = interpolation == "nearest"
        scales = e.constant(np.asarray([1, 1] + size, np.float32))
        name = e.one("Resize", [x.name, "", scales], mode="nearest" if nearest else "linear",
                     coordinate_transformation_mode="asymmetric" if nearest else "half_pixel",
                     **({"nearest_mode": "floor"} if nearest else {}))
    else:
        e.fail(f"interpolation '{interpolation}' cannot be written")
    return Value(name, out.shape, x.dtype, x.first)


def embedding(e, layer, x, out):
    if layer.mask_zero:
        e.fail("mask_zero=True cannot be written", "mask in the loss instead (ignore_index)")
    x = e.keras_order(x)
    name = x.name
    if x.dtype not in ("int32", "int64"):
        name = e.one("Cast", [name], to=TensorProto.INT64)
    name = e.one("Gather", [e.variable(layer.embeddings), name], axis=0)
    return Value(name, out.shape, layer.embeddings.dtype)


def to_float(e, x: Value, dtype: str) -> Value:
    if x.dtype == dtype:
        return x
    return Value(e.one("Cast", [x.name], to=elem_type(dtype)), x.shape, dtype, x.first)


def rescaling(e, layer, x, out):
    x = to_float(e, x, layer.compute_dtype)
    scale, offset = np.asarray(layer.scale, x.dtype), np.asarray(layer.offset, x.dtype)
    if scale.ndim or offset.ndim:
        x = e.keras_order(x)
    name = e.one("Mul", [x.name, e.constant(scale)])
    if np.any(offset):
        name = e.one("Add", [name, e.constant(offset)])
    return same(x, name)


def normalization(e, layer, x, out):
    if layer.invert:
        e.fail("invert=True cannot be written")
    x = e.keras_order(to_float(e, x, layer.compute_dtype))
    mean, variance = to_numpy(layer.mean).astype(x.dtype), to_numpy(layer.variance).astype(x.dtype)
    deviation = np.maximum(np.sqrt(variance), 1e-7)
    name = e.one("Sub", [x.name, e.constant(mean)])
    return same(x, e.one("Div", [name, e.constant(deviation)]))


def arithmetic(op_type: str):
    """`a + b` and its like between Keras tensors, or a tensor and a number."""
    def write(e, node, inputs, out):
        values = align(e, inputs)
        rest = iter(values)
        names = []
        for a in node.arguments.args:
            if hasattr(a, "_keras_history"):
                names.append(next(rest).name)
            elif np.ndim(a) == 0:
                names.append(e.scalar(a, values[0]))
            else:
                e.fail("arithmetic with an array cannot be written", "use a layer with a weight")
        return Value(e.one(op_type, names), out.shape, values[0].dtype, values[0].first)
    return write


def _by_rank(prefix: str, write, ranks=(1, 2, 3)) -> Dict[str, Callable]:
    return {f"{prefix}{r}D": write for r in ranks}


LAYERS: Dict[str, Callable] = {
    "Dense": dense,
    **_by_rank("Conv", conv),
    **{f"Conv{rank}DTranspose": conv_transpose for rank in (1, 2, 3)},
    **_by_rank("DepthwiseConv", depthwise_conv, (1, 2)),
    **_by_rank("SeparableConv", separable_conv, (1, 2)),
    **_by_rank("MaxPooling", pooling("MaxPool")),
    **_by_rank("AveragePooling", pooling("AveragePool")),
    **_by_rank("GlobalMaxPooling", global_pooling("GlobalMaxPool")),
    **_by_rank("GlobalAveragePooling", global_pooling("GlobalAveragePool")),
    **_by_rank("ZeroPadding", zero_padding),
    **_by_rank("Cropping", cropping),
    **_by_rank("UpSampling", up_sampling),
    **_by_rank("SpatialDropout", spatial_dropout),
    "BatchNormalization": batch_normalization,
    "LayerNormalization": layer_normalization,
    "Dropout": dropout,
    "Flatten": flatten,
    "Reshape": reshape,
    "Permute": permute,
    "RepeatVector": repeat_vector,
    "Activation": activation,
    "ReLU": relu,
    "LeakyReLU": leaky_relu,
    "ELU": elu,
    "PReLU": prelu,
    "Softmax": softmax,
    "Add": merge("Add", "Sum"),
    "Subtract": merge("Sub"),
    "Multiply": merge("Mul"),
    "Average": merge("Mean", "Mean"),
    "Maximum": merge("Max", "Max"),
    "Minimum": merge("Min", "Min"),
    "Concatenate": concatenate,
    "Embedding": embedding,
    "Rescaling": rescaling,
    "Normalization": normalization,
    "Identity": nothing,
    "ActivityRegularization": nothing,
}

OPERATIONS: Dict[str, Callable] = {
    "Add": arithmetic("Add"),
    "Subtract": arithmetic("Sub"),
    "Multiply": arithmetic("Mul"),
    "Divide": arithmetic("Div"),
    "TrueDivide": arithmetic("Div"),
    "Maximum": arithmetic("Max"),
    "Minimum": arithmetic("Min"),
}


def find_writer(layer) -> Optional[Callable]:
    """The writer of Keras' own layers and operations; a user's subclass has none."""
    module, name = type(layer).__module__, type(layer).__name__
    if module.startswith("keras.src.layers"):
        return LAYERS.get(name)
    if module.startswith("keras.src.ops"):
        return OPERATIONS.get(name)
    return None
