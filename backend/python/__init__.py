"""Onward in Python: runs ONNX models, and is an ONNX backend (onward.backend).

    model = onward.load("model.onnx")
    outputs = model.run([images])
"""

from onward.model import Model, OnwardError, load

__all__ = ["Model", "OnwardError", "load"]
