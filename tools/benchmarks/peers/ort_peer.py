"""ONNX Runtime Training's on-device API, on the same ONNX file; its gradient graph is built once
before, with --prepare, and not counted. Its SGD has no momentum."""
import importlib.machinery
import os
import sys
import types

import peer


def without_torch():
    """onnxruntime.training imports torch for parts that on-device training never calls."""

    class Empty(types.ModuleType):
        __path__ = []

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            setattr(self, name, type(name, (), {}))
            return getattr(self, name)

    for name in ("torch", "torch.cuda", "torch.nn", "torch.nn.functional", "torch.optim",
                 "torch.optim.optimizer", "torch.utils", "torch.utils.data", "torch.utils.dlpack",
                 "torch.distributed", "torch.onnx", "torch._C", "torch.autograd", "torch.jit"):
        sys.modules[name] = module = Empty(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)
        above, _, last = name.rpartition(".")
        if above:
            setattr(sys.modules[above], last, module)

    def seed():
        raise ImportError("there is no torch")  # which onnxruntime.training takes for an answer

    sys.modules["torch"].__version__ = "2.4.0"
    sys.modules["torch"].initial_seed = seed


args = peer.arguments(__doc__, ("prepare",))
folder = args.model + ".ort"
try:
    import torch  # noqa: F401
except ImportError:
    without_torch()


def prepare():
    import onnx
    from onnxruntime.training import artifacts
    model = onnx.load(args.model)
    graph = model.graph
    last = graph.node[-1]
    if last.op_type == "Softmax":  # the loss takes logits
        graph.node.remove(last)
        last = graph.node[-1]
    last.output[0] = graph.output[0].name = "logits"
    for node in graph.node:  # its gradient wants the mask
        if node.op_type == "Dropout" and len(node.output) == 1:
            node.output.append(node.output[0] + "/mask")
    names = [i.name for i in graph.initializer]
    fixed = [n for n in names if "moving_" in n or "running_" in n]
    os.makedirs(folder, exist_ok=True)
    artifacts.generate_artifacts(
        model, requires_grad=[n for n in names if n not in fixed], frozen_params=fixed,
        loss=artifacts.LossType.CrossEntropyLoss,
        optimizer=(artifacts.OptimType.SGD if args.work.startswith("resnet")
                   else artifacts.OptimType.AdamW),
        artifact_directory=folder)


def train():
    import onnxruntime
    import onnxruntime.training.api as api
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = args.threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    state = api.CheckpointState.load_checkpoint(os.path.join(folder, "checkpoint"))
    # The evaluation model of a net with BatchNormalization cannot be loaded.
    evaluation = os.path.join(folder, "eval_model.onnx") if args.validation_data else None
    module = api.Module(os.path.join(folder, "training_model.onnx"), state, evaluation,
                        session_options=options)
    optimizer = api.Optimizer(os.path.join(folder, "optimizer_model.onnx"), module)
    module.train()

    def step(batch):
        loss = module(*batch)
        optimizer.step()
        module.lazy_reset_grad()
        return loss

    def classes(x):
        path = os.path.join(folder, "inference.onnx")
        module.eval()
        module.export_model_for_inferencing(path, ["logits"])
        module.train()
        session = onnxruntime.InferenceSession(path, options)
        return session.run(["logits"], {session.get_inputs()[0].name: x})[0].argmax(1)

    peer.loop(args, "last" if args.work == "cnn" else "first", lambda x, y: (x, y), step, classes)


if args.prepare:
    prepare()
else:
    train()
