#!/usr/bin/env python3
"""Makes fashion_mnist_keras.json: what Keras reaches with the tutorial's MLP on Fashion-MNIST.

  python3 make_fashion_mnist.py [--seeds 5] [--data /usr/share/datasets/fashion-mnist]

784-512-relu-Dropout 0.2-10-softmax, Adam 1e-3, batch 128, 5 epochs, shuffled, pixels / 255, sparse
categorical cross-entropy; accuracy on the test set after each epoch, for each seed.
"""
import argparse
import gzip
import json
import os
from typing import Optional, Sequence

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fashion_mnist_keras.json")


def read_idx(path: str) -> np.ndarray:
    """An IDX file of bytes, gzipped."""
    with gzip.open(path) as file:
        data = file.read()
    rank = data[3]
    shape = np.frombuffer(data, ">i4", rank, 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * rank).reshape(shape)


def main(argv: Optional[Sequence[str]] = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    args = parser.parse_args(argv)
    import keras
    from keras import layers as L
    x, y, xt, yt = (read_idx(os.path.join(args.data, f"{name}-ubyte.gz")) for name in (
        "train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"))
    x, xt = (a.reshape(len(a), 784).astype("float32") / 255 for a in (x, xt))
    runs = []
    for seed in range(1, args.seeds + 1):
        keras.utils.set_random_seed(seed)
        model = keras.Sequential([keras.Input((784,)), L.Dense(512, activation="relu"),
                                  L.Dropout(0.2), L.Dense(10, activation="softmax")])
        model.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy",
                      metrics=["accuracy"])
        history = model.fit(x, y, batch_size=128, epochs=5, validation_data=(xt, yt),
                            verbose=0).history
        runs.append({"seed": seed, **{key: [round(v, 5) for v in history[key]] for key in (
            "loss", "accuracy", "val_loss", "val_accuracy")}})
        print(runs[-1], flush=True)
    final = [run["val_accuracy"][-1] for run in runs]
    result = {"framework": f"Keras {keras.__version__}",
              "test_accuracy_mean": round(float(np.mean(final)), 5),
              "test_accuracy_min": min(final), "test_accuracy_max": max(final), "runs": runs}
    with open(PATH, "w") as file:
        json.dump(result, file, indent=1)
        file.write("\n")
    print(f"{PATH}: mean test accuracy {np.mean(final):.4f} ({min(final)} to {max(final)})")


if __name__ == "__main__":
    main()
