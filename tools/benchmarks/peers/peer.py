"""What the scripts of the peers share: arguments, data, weights, the loop, and what they print.

A script prints one JSON object per line, as `onward train --json` does:
  {"event": "first_step", "loss": L}                    when its first step is done
  {"event": "epoch", "samples": N, "metrics": {...}}    after every pass over the data
and goes on until it is ended, or for --epochs. Whoever started it takes the times.
"""
import argparse
import json
import os
import sys
from typing import Any, Callable, Dict, Tuple

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(FOLDER, ".."), os.path.join(FOLDER, "..", "..", "..", "tests", "models")]


def arguments(doc: str, switches: Tuple[str, ...] = ()) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--work", required=True, choices=["mlp", "cnn", "resnet-thin", "resnet"])
    parser.add_argument("--model", required=True, help="ONNX file that the weights are taken from")
    for name in ("data", "labels"):
        parser.add_argument(f"--{name}", required=True, help="IDX file")
        parser.add_argument(f"--validation-{name}", help="IDX file")
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--epochs", type=int, default=10**9)
    parser.add_argument("--shuffle", action="store_true")
    for switch in switches:
        parser.add_argument(f"--{switch}", action="store_true")
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # The same work on the same processor.
    return args


def say(event: str, **values: Any) -> None:
    print(json.dumps({"event": event, **values}), flush=True)


def read_idx(path: str):
    import numpy as np
    with open(path, "rb") as file:
        raw = file.read()
    rank = raw[3]
    dims = np.frombuffer(raw, ">u4", rank, 4).astype(int)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * rank).reshape(dims)


def read_data(work: str, images: str, labels: str, channels: str):
    """(float32 in [0, 1], int64). `channels`: "first" or "last", where images are to have them."""
    import numpy as np
    x = read_idx(images)
    if work == "mlp":
        x = x.reshape(len(x), -1)
    elif work == "cnn" and channels == "first":
        x = x.transpose(0, 3, 1, 2)
    elif work != "cnn" and channels == "last":
        x = x.transpose(0, 2, 3, 1)
    return (np.ascontiguousarray(x).astype(np.float32) * np.float32(1 / 255),
            read_idx(labels).astype(np.int64))


def read_weights(path: str) -> Dict[str, Any]:
    """The initializers of an ONNX file, by name without the model's ("dense/kernel", "fc.bias")."""
    import numpy as np
    import works
    with open(path, "rb") as file:
        (graph,) = [v for field, v in works.fields(file.read()) if field == 7]
    out = {}
    for field, value in works.fields(graph):
        if field != 5:
            continue
        tensor = list(works.fields(value))
        (name,) = [v.decode() for f, v in tensor if f == 8]
        (raw,) = [v for f, v in tensor if f == 9]
        for model in ("mlp/", "cnn/"):
            name = name[len(model):] if name.startswith(model) else name
        out[name] = np.frombuffer(raw, "<f4").reshape([v for f, v in tensor if f == 1])
    return out


def loop(args: argparse.Namespace, channels: str, to_device: Callable, step: Callable,
         accuracy: Callable = None) -> None:
    """Trains until ended. to_device(images, labels) makes a batch of two arrays, step(batch) trains
    on it and gives the loss, float() of which waits for it; accuracy(images) gives predicted
    classes of the validation data."""
    import numpy as np
    x, y = read_data(args.work, args.data, args.labels, channels)
    starts = range(0, len(x), args.batch_size)
    fixed = None
    if args.shuffle:
        draw = np.random.default_rng(0)
    else:
        fixed = [to_device(x[i:i + args.batch_size], y[i:i + args.batch_size]) for i in starts]
    validation = None
    if args.validation_data:
        validation = read_data(args.work, args.validation_data, args.validation_labels, channels)
    first = True
    for _ in range(args.epochs):
        order = draw.permutation(len(x)) if fixed is None else None
        for k, i in enumerate(starts):
            if fixed is None:
                rows = order[i:i + args.batch_size]
                loss = step(to_device(x[rows], y[rows]))
            else:
                loss = step(fixed[k])
            if first:
                say("first_step", loss=float(loss))
                first = False
        metrics = {"loss": float(loss)}
        if validation is not None:
            metrics["val_accuracy"] = float((accuracy(validation[0]) == validation[1]).mean())
        say("epoch", samples=len(x), metrics=metrics)
