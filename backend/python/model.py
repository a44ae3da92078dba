"""Models that are run as they stand."""

import os

import numpy
import onnx

STRING = onnx.TensorProto.STRING
_WHOLE_BYTES = {
    onnx.TensorProto.INT4: numpy.int8,
    onnx.TensorProto.UINT4: numpy.uint8,
    onnx.TensorProto.INT2: numpy.int8,
    onnx.TensorProto.UINT2: numpy.uint8,
}


class OnwardError(RuntimeError):
    """What went wrong, in one line; `code` is the exit code of the command for such an error."""

    def __init__(self, message, code):
        super().__init__(message)
        self.code = code


def load(path, threads=None):
    """The model in a file, whose external data may lie beside it."""
    return Model(onnx.load(path), os.fspath(path), threads)


class Model:
    """A model of ONNX. Not for several threads at once.

    model: an onnx.ModelProto; it may be forgotten afterwards. threads: default: all cores.
    Raises OnwardError.
    """

    def __init__(self, model, name="model", threads=None):
        from onward import _onward  # which imports this package's error

        threads = threads or len(os.sched_getaffinity(0))
        self._model = _onward.Model(model.SerializeToString(), name, threads)

    @property
    def input_names(self):
        return self._model.input_names

    @property
    def output_names(self):
        return self._model.output_names

    def run(self, inputs):
        """The outputs, in the model's order. `inputs`: one of each of input_names, in order, or
        a dict by name: arrays (numpy's types or ml_dtypes'), lists for sequences, None for an
        optional without a value."""
        if isinstance(inputs, dict):
            inputs = [inputs[name] for name in self.input_names]
        return [_from_value(value) for value in self._model.run([_to_value(x) for x in inputs])]


def _to_value(x):
    if x is None:
        return None
    if isinstance(x, (list, tuple)):
        return [_to_value(element) for element in x]
    if isinstance(x, onnx.TensorProto):
        x = onnx.numpy_helper.to_array(x)
    x = numpy.asarray(x)
    if x.dtype.kind in "OUST":
        return STRING, x.shape, [_to_bytes(s) for s in x.reshape(-1)]
    dtype = onnx.helper.np_dtype_to_tensor_dtype(x.dtype)
    # Inside, an integer of less than a byte is one of a whole byte, sign and all.
    return dtype, x.shape, x.astype(_WHOLE_BYTES.get(dtype, x.dtype)).tobytes()


def _to_bytes(string):
    return string if isinstance(string, bytes) else str(string).encode()


def _from_value(value):
    if value is None:
        return None
    if isinstance(value, list):
        return [_from_value(element) for element in value]
    dtype, shape, data = value
    if dtype == STRING:
        array = numpy.empty(len(data), object)
        array[:] = [string.decode() for string in data]
        return array.reshape(shape)
    target = onnx.helper.tensor_dtype_to_np_dtype(dtype)
    return numpy.frombuffer(data, _WHOLE_BYTES.get(dtype, target)).astype(target).reshape(shape)
