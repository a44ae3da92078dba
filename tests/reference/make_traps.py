#!/usr/bin/env python3
"""Makes traps.json: small models in ways of writing that other trainers fall over, and what PyTorch
makes of each in four steps of SGD, in float64.

  python3 make_traps.py     where torch is installed

A case is the model (ONNX's text form; `{w}` stands for the declaration of an initializer), its
parameters (which must be exactly those that train), and the same model written in PyTorch. All
numbers come from batches.py. The loss is the mean squared error of the first output against labels
of its shape, or the first output itself.
"""
import json
import os

import numpy as np
import torch
import torch.nn.functional as F

from batches import draw, numbers, rounded

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS, STEPS, RATE = 6, 4, 0.1
CASES = []


def case(name, text, initializers, function, opset=21, x=(4,), ids=None, labels=(3,), fixed=(),
         also_train=()):
    """`initializers`: name -> shape or array; `fixed`: those that must not train; `ids`: (shape,
    classes) of an integer input `t`; labels=None: the first output is the loss."""
    CASES.append(locals())


def start(stream, shape):
    """Multiples of 1/64 in [-1, 1): exact in every type but the smallest."""
    return np.floor(numbers(stream, shape) * 32) / 64


def declared(name, array, of="float"):
    dims = f"[{', '.join(map(str, array.shape))}]" if array.shape else ""
    values = ", ".join(repr(float(v)) if of in ("float", "double", "float16") else str(int(v))
                       for v in array.reshape(-1))
    return f"{of}{dims} {name} = {{{values}}}"


def ce(scores, t, **kw):
    return F.cross_entropy(scores, t, **kw)


# ---- Operators that are asked for less, or more, than usual --------------------------------------

case("LayerNormalization with Y alone",
     "(float[N, 4] x) => (float[N, 4] y) <{w}, {s}, {b}> "
     "{{ a = Mul (x, w) y = LayerNormalization <epsilon = 0.25> (a, s, b) }}",
     {"w": (4,), "s": (4,), "b": (4,)},
     lambda p, x: F.layer_norm(x * p["w"], (4,), p["s"], p["b"], 0.25), opset=17, labels=(4,))
case("two losses on one tensor of 3-D scores, one with an ignored label",
     "(float[N, 4] x, int64[N, 2] t) => (float l) <{w}, int64[3] size = {{-1, 3, 2}}> "
     "{{ a = MatMul (x, w) scores = Reshape (a, size) "
     "one = SoftmaxCrossEntropyLoss (scores, t) "
     "two = SoftmaxCrossEntropyLoss <ignore_index = 1> (scores, t) l = Add (one, two) }}",
     {"w": (4, 6)},
     lambda p, x, t: ce((x @ p["w"]).reshape(-1, 3, 2), t)
     + ce((x @ p["w"]).reshape(-1, 3, 2), t, ignore_index=1), ids=((2,), 3), labels=None)
case("class weights and an ignored label in the mean's denominator",
     "(float[N, 4] x, int64[N] t) => (float l) <{w}, float[3] c = {{0.5, 2.0, 3.0}}> "
     "{{ a = MatMul (x, w) l = SoftmaxCrossEntropyLoss <ignore_index = 2> (a, t, c) }}",
     {"w": (4, 3)},
     lambda p, x, t: ce(x @ p["w"], t, weight=torch.tensor([0.5, 2.0, 3.0]).double(),
                        ignore_index=2), ids=((), 3), labels=None)
case("a negative log-likelihood of log_softmax's, summed",
     "(float[N, 4] x, int64[N] t) => (float l) <{w}> {{ a = MatMul (x, w) b = LogSoftmax (a) "
     "l = NegativeLogLikelihoodLoss <reduction = \"sum\", ignore_index = 0> (b, t) }}",
     {"w": (4, 3)}, lambda p, x, t: F.nll_loss(F.log_softmax(x @ p["w"], 1), t, reduction="sum",
                                               ignore_index=0), ids=((), 3), labels=None)
case("a value times itself", "(float[N, 4] x) => (float[N, 3] y) <{w}, {b}> "
     "{{ a = Gemm (x, w, b) y = Mul (a, a) }}", {"w": (4, 3), "b": (3,)},
     lambda p, x: (x @ p["w"] + p["b"]) ** 2)
case("a product with a vector on the right",
     "(float[N, 3, 4] x) => (float[N, 3] y) <{w}, {b}> {{ a = MatMul (x, w) y = Add (a, b) }}",
     {"w": (4,), "b": (3,)}, lambda p, x: x @ p["w"] + p["b"], x=(3, 4))
case("a product with a vector on the left",
     "(float[N, 3, 4] x) => (float[N, 4] y) <{w}> {{ y = MatMul (w, x) }}", {"w": (3,)},
     lambda p, x: p["w"] @ x, x=(3, 4), labels=(4,))
case("batches of matrices against one, and the other way round",
     "(float[N, 3, 4] x) => (float[N, 3, 2] y) <{w}, {v}, {q}> "
     "{{ a = MatMul (x, w) b = MatMul (v, a) c = MatMul (b, q) y = Add (b, c) }}",
     {"w": (4, 2), "v": (3, 3), "q": (1, 2, 2)},
     lambda p, x: (lambda b: b + b @ p["q"])(p["v"] @ (x @ p["w"])), x=(3, 4), labels=(3, 2))
case("a parameter that is broadcast over a symbolic batch, from both sides",
     "(float[N, 3, 4] x) => (float[N, 3, 4] y) <{w}, {s}, {r}> "
     "{{ a = Mul (w, x) b = Sub (s, a) y = Div (b, r) }}",
     {"w": (1, 3, 1), "s": (4,), "r": np.array([[1.5], [-2.0], [0.75]])},
     lambda p, x: (p["s"] - p["w"] * x) / p["r"], x=(3, 4), labels=(3, 4))
case("a parameter that is expanded to the batch",
     "(float[N, 4] x) => (float[N, 5] y) <{c}, {w}, int64[1] four = {{4}}, int64[1] zero = {{0}}, "
     "int64[1] one = {{1}}> {{ s = Shape (x) n = Slice (s, zero, one) size = Concat <axis = 0> "
     "(n, one) e = Expand (c, size) k = Concat <axis = -1> (e, x) y = Mul (k, w) }}",
     {"c": (1, 1), "w": (5,)},
     lambda p, x: torch.cat([p["c"].expand(x.shape[0], 1), x], -1) * p["w"], labels=(5,),
     also_train=("c",))
case("negative and repeated indices",
     "(float[N, 4] x) => (float[N, 3] y) <{w}, int64[3] i = {{-1, 0, -1}}, {e}, "
     "int64[2] j = {{1, -2}}, int64[1] zero = {{0}}> {{ a = MatMul (x, w) "
     "b = Gather <axis = 1> (a, i) r = Gather (e, j) s = ReduceSum <keepdims = 0> (r, zero) "
     "y = Add (b, s) }}",
     {"w": (4, 2), "e": (3, 3)},
     lambda p, x: (x @ p["w"])[:, [1, 0, 1]] + p["e"][[1, 1]].sum(0))
case("an embedding with repeated ids",
     "(float[N, 4] x, int64[N, 3] t) => (float[N, 3] y) <{e}, {w}, int64[1] two = {{2}}> "
     "{{ a = Gather (e, t) b = MatMul (x, w) c = Unsqueeze (b, two) d = MatMul (a, c) "
     "y = Squeeze (d, two) }}",
     {"e": (5, 2), "w": (4, 2)},
     lambda p, x, t: (p["e"][t] @ (x @ p["w"])[:, :, None])[..., 0], ids=((3,), 5))
case("a learnt exponent", "(float[N, 4] x) => (float[N, 4] y) <{k}, {w}, float one = {{1.0}}> "
     "{{ a = Mul (x, w) b = Abs (a) c = Add (b, one) y = Pow (c, k) }}", {"k": (4,), "w": (4,)},
     lambda p, x: ((x * p["w"]).abs() + 1) ** p["k"], labels=(4,))
case("a computed exponent and a base that is broadcast",
     "(float[N, 4] x) => (float[N, 4] y) <{w}, {v}, float two = {{2.0}}> "
     "{{ a = Mul (x, w) e = Tanh (a) b = Exp (v) y = Pow (b, e) }}", {"w": (4,), "v": (1,)},
     lambda p, x: p["v"].exp() ** (x * p["w"]).tanh(), labels=(4,), also_train=("v",))
case("Max of equal values", "(float[N, 4] x) => (float[N, 4] y) <{w}> "
     "{{ a = Mul (x, w) b = Identity (a) y = Max (a, b, a) }}", {"w": (4,)},
     lambda p, x: x * p["w"], labels=(4,))
case("the maximum of equal values, whose gradient sums up",
     "(float[N, 4] x) => (float[N, 1] y) <{w}, {b}, int64[1] axis = {{1}}> "
     "{{ a = MatMul (x, w) c = Concat <axis = 1> (a, a, a) "
     "m = ReduceMax (c, axis) y = Add (m, b) }}", {"w": (4, 1), "b": (1,)},
     lambda p, x: x @ p["w"] + p["b"], labels=(1,), also_train=("b",))
case("GlobalMaxPool of equal values",
     "(float[N, 4] x) => (float[N, 1, 1, 1] y) <{w}, int64[4] size = {{-1, 1, 1, 3}}> "
     "{{ a = MatMul (x, w) c = Concat <axis = 1> (a, a, a) d = Reshape (c, size) "
     "y = GlobalMaxPool (d) }}", {"w": (4, 1)}, lambda p, x: (x @ p["w"])[:, :, None, None],
     labels=(1, 1, 1))
case("a first convolution whose input takes no gradient, without padding",
     "(float[N, 2, 5] x) => (float[N, 3, 2] y) <{w}, {b}> "
     "{{ y = Conv <strides = [2]> (x, w, b) }}", {"w": (3, 2, 3), "b": (3,)},
     lambda p, x: F.conv1d(x, p["w"], p["b"], 2), x=(2, 5), labels=(3, 2))

case("a batch all of whose labels are ignored, beside a loss that counts",
     "(float[N, 4] x, int64[N] t) => (float l) <{w}, {v}, int64 zero = {{0}}> "
     "{{ a = MatMul (x, w) z = Mul (t, zero) b = MatMul (x, v) "
     "one = SoftmaxCrossEntropyLoss (a, t) two = SoftmaxCrossEntropyLoss "
     "<ignore_index = 0, reduction = \"sum\"> (b, z) l = Add (one, two) }}",
     {"w": (4, 3), "v": (4, 3)},
     lambda p, x, t: ce(x @ p["w"], t) + 0 * p["v"].sum(), ids=((), 3), labels=None)
case("Min and ReduceMin of equal values", "(float[N, 4] x) => (float[N, 4] y) <{w}, "
     "int64[1] axis = {{0}}> {{ a = Mul (x, w) b = Min (a, a) c = Unsqueeze (b, axis) "
     "d = Concat <axis = 0> (c, c) y = ReduceMin <keepdims = 0> (d, axis) }}", {"w": (4,)},
     lambda p, x: x * p["w"], labels=(4,))

# ---- Old opsets and other types ---------------------------------------------------------------

case("Gemm with alpha and transposes, of an old opset",
     "(float[N, 4] x) => (float[N, 3] y) <{w}, {b}> "
     "{{ y = Gemm <alpha = 0.5, beta = 2.0, transB = 1> (x, w, b) }}", {"w": (3, 4), "b": (3,)},
     lambda p, x: 0.5 * (x @ p["w"].T) + 2 * p["b"], opset=9)
case("a float64 model with single constants",
     "(double[N, 4] x) => (double[N, 4] y) <{w}, double two = {{2.0}}, double eps = {{0.125}}> "
     "{{ a = Mul (x, w) m = ReduceMean <axes = [-1]> (a) d = Sub (a, m) q = Pow (d, two) "
     "v = ReduceMean <axes = [-1]> (q) e = Add (v, eps) s = Sqrt (e) y = Div (d, s) }}",
     {"w": (4,)}, lambda p, x: F.layer_norm(x * p["w"], (4,), None, None, 0.125), opset=13,
     labels=(4,))
case("an image twice as large, whose scales are always float32",
     "(float[N, 2, 3, 3] x) => (float[N, 2, 6, 6] y) <{w}, float[4] by = {{1.0, 1.0, 2.0, 2.0}}> "
     "{{ a = Mul (x, w) y = Resize <mode = \"linear\"> (a, , by) }}", {"w": (2, 1, 3)},
     lambda p, x: F.interpolate(x * p["w"], scale_factor=2, mode="bilinear", align_corners=False),
     x=(2, 3, 3), labels=(2, 6, 6))
case("an exponent of another type", "(float[N, 4] x) => (float[N, 4] y) <{w}, int64 two = {{2}}> "
     "{{ a = Mul (x, w) y = Pow (a, two) }}", {"w": (4,)}, lambda p, x: (x * p["w"]) ** 2, opset=15,
     labels=(4,))

# ---- Where parameters hide ----------------------------------------------------------------------

case("unused and twice used initializers",
     "(float[N, 4] x) => (float[N, 4] y) <{w}, {unused}, {b}> "
     "{{ a = MatMul (x, w) c = Add (a, b) d = Tanh (c) y = MatMul (d, w) }}",
     {"w": (4, 4), "unused": (3,), "b": (4,)},
     lambda p, x: torch.tanh(x @ p["w"] + p["b"]) @ p["w"], fixed=("unused",), labels=(4,))
case("tied through a transpose",
     "(float[N, 4] x) => (float[N, 4] y) <{w}> "
     "{{ a = MatMul (x, w) d = Tanh (a) t = Transpose <perm = [1, 0]> (w) y = MatMul (d, t) }}",
     {"w": (4, 3)}, lambda p, x: torch.tanh(x @ p["w"]) @ p["w"].T, labels=(4,))
case("an initializer of which only constants come",
     "(float[N, 4] x) => (float[N, 3] y) <{w}, {like}> "
     "{{ s = Shape (like) z = ConstantOfShape <value = float[1] {{0.5}}> (s) a = MatMul (x, w) "
     "y = Add (a, z) }}", {"w": (4, 3), "like": (3,)}, lambda p, x: x @ p["w"] + 0.5,
     fixed=("like",))
case("weights behind Identity, Transpose, Reshape and Cast",
     "(float[N, 4] x) => (float[N, 3] y) <{w}, {b}, int64[1] size = {{3}}> "
     "{{ i = Identity (w) t = Transpose <perm = [1, 0]> (i) c = Cast <to = 1> (t) "
     "a = MatMul (x, c) s = Reshape (b, size) y = Add (a, s) }}", {"w": (3, 4), "b": (1, 3)},
     lambda p, x: x @ p["w"].T + p["b"])
case("weights that are summed and scaled before use",
     "(float[N, 4] x) => (float[N, 3] y) <{w}, {v}, {g}, int64[1] axis = {{1}}> "
     "{{ n = ReduceL2 <keepdims = 1> (v, axis) d = Div (v, n) m = Mul (g, d) k = Add (w, m) "
     "y = Gemm <transB = 1> (x, k) }}",
     {"w": (3, 4), "v": (3, 4), "g": (3, 1)},
     lambda p, x: x @ (p["w"] + p["g"] * p["v"] / p["v"].norm(dim=1, keepdim=True)).T, opset=18)
case("weights in Constant nodes",
     "(float[N, 4] x) => (float[N, 3] y) {{ w = Constant <value = {w}> () a = MatMul (x, w) "
     "b = Constant <value_floats = [0.5, -0.25, 0.125]> () y = Add (a, b) }}", {"w": (4, 3)},
     lambda p, x: x @ p["w"] + torch.tensor([0.5, -0.25, 0.125]).double())
case("names that share their ends",
     "(float[N, 4] x) => (float[N, 3] y) <{w}, {w_1}, {grad_w}, {w_grad}> "
     "{{ w_2 = MatMul (x, w) w_3 = Tanh (w_2) w_4 = MatMul (w_3, w_1) w_5 = Add (w_4, grad_w) "
     "y = Mul (w_5, w_grad) }}", {"w": (4, 3), "w_1": (3, 3), "grad_w": (3,), "w_grad": (3,)},
     lambda p, x: (torch.tanh(x @ p["w"]) @ p["w_1"] + p["grad_w"]) * p["w_grad"])


def run(index, c):
    arrays = {n: start(1000 + 16 * index + k, s) if isinstance(s, tuple) else s
              for k, (n, s) in enumerate(c["initializers"].items())}
    of = "double" if "double[" in c["text"] else "float"
    text = c["text"].format(**{n: declared(n, a, of) for n, a in arrays.items()})
    p = {n: torch.tensor(a, dtype=torch.float64, requires_grad=n not in c["fixed"])
         for n, a in arrays.items()}
    losses = []
    for step in range(STEPS):
        given = [torch.from_numpy(numbers(8 * step, (ROWS, *c["x"])))]
        if c["ids"]:
            shape, classes = c["ids"]
            t = draw(8 * step + 1, ROWS * int(np.prod(shape, dtype=int))) % np.uint64(classes)
            given.append(torch.from_numpy(t.astype(np.int64).reshape(ROWS, *shape)))
        y = c["function"](p, *given)
        if c["labels"] is None:
            loss = y
        else:
            loss = ((y - torch.from_numpy(numbers(8 * step + 7, (ROWS, *c["labels"])))) ** 2).mean()
        trained = {n: v for n, v in p.items() if v.requires_grad}
        gradients = torch.autograd.grad(loss, list(trained.values()))
        with torch.no_grad():
            for v, g in zip(trained.values(), gradients):
                v -= RATE * g
        losses.append(rounded(loss.item()))
    inputs = [{"name": "x", "shape": list(c["x"])}]
    if c["ids"]:
        inputs.append({"name": "t", "shape": list(c["ids"][0]), "classes": c["ids"][1]})
    return {"name": c["name"], "opset": c["opset"], "text": "g " + text, "inputs": inputs,
            "labels": None if c["labels"] is None else list(c["labels"]), "losses": losses,
            "also_train": list(c["also_train"]),
            "parameters": {n: [rounded(e) for e in p[n].detach().reshape(-1).tolist()]
                           for n in trained}}


if __name__ == "__main__":
    result = {"rows": ROWS, "rate": RATE, "cases": [run(i, c) for i, c in enumerate(CASES)]}
    with open(os.path.join(HERE, "traps.json"), "w") as out:
        out.write("{\"rows\": %d, \"rate\": %g, \"cases\": [\n" % (ROWS, RATE))
        out.write(",\n".join(json.dumps(c) for c in result["cases"]))
        out.write("\n]}\n")
    print(len(CASES), "cases")
