"""Onward as a backend of ONNX (onnx.backend.base)."""

import onnx
from onnx.backend.base import Backend, BackendRep, Device, DeviceType, namedtupledict

from onward.model import Model, OnwardError


class OnwardRep(BackendRep):
    """A model that is ready to run."""

    def __init__(self, model):
        self._model = model
        self._outputs = namedtupledict("Outputs", model.output_names)

    def run(self, inputs, **kwargs):
        """The outputs, by their place and their names. One array may stand for a list of one."""
        if not isinstance(inputs, (list, tuple, dict)):
            inputs = [inputs]
        return self._outputs(*self._model.run(inputs))


class OnwardBackend(Backend):
    @classmethod
    def is_compatible(cls, model, device="CPU", **kwargs):
        try:
            cls.prepare(model, device, **kwargs)
        except OnwardError:
            return False
        return True

    @classmethod
    def prepare(cls, model, device="CPU", threads=None, **kwargs):
        super().prepare(model, device, **kwargs)
        if not cls.supports_device(device):
            raise ValueError("device %s: this build of Onward has CPU" % device)
        return OnwardRep(Model(model, model.graph.name or "model", threads))

    @classmethod
    def run_model(cls, model, inputs, device="CPU", **kwargs):
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(cls, node, inputs, device="CPU", outputs_info=None, **kwargs):
        """`outputs_info`: not needed. The opset of the node may be given as opset_version."""
        opset = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        if isinstance(inputs, dict):
            inputs = [inputs[name] for name in node.input]
        given = [(name, x) for name, x in zip(node.input, inputs) if name]
        graph = onnx.helper.make_graph(
            [node], node.op_type, [_value_info(name, x) for name, x in given],
            [onnx.ValueInfoProto(name=name) for name in node.output if name])
        # The types of the outputs are inferred when the model is read.
        imports = [onnx.helper.make_opsetid(node.domain, opset)]
        model = onnx.helper.make_model(graph, opset_imports=imports)
        model = onnx.shape_inference.infer_shapes(model)
        return cls.run_model(model, [x for _, x in given], device, **kwargs)

    @classmethod
    def supports_device(cls, device):
        return Device(device).type == DeviceType.CPU


def _value_info(name, x):
    import numpy

    if isinstance(x, list):
        element = numpy.asarray(x[0]) if x else numpy.zeros((), "f4")
        return onnx.helper.make_tensor_sequence_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(element.dtype), None)
    x = numpy.asarray(x)
    dtype = onnx.TensorProto.STRING if x.dtype.kind in "OUST" else (
        onnx.helper.np_dtype_to_tensor_dtype(x.dtype))
    return onnx.helper.make_tensor_value_info(name, dtype, x.shape)


prepare = OnwardBackend.prepare
run_model = OnwardBackend.run_model
run_node = OnwardBackend.run_node
supports_device = OnwardBackend.supports_device
is_compatible = OnwardBackend.is_compatible
