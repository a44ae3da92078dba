"""Synthetic batches that any language can repeat exactly, and statistics of arrays.

The formula (all in unsigned 64-bit integers, which wrap):

  mix(z):  z += 0x9E3779B97F4A7C15
           z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
           z = (z ^ (z >> 27)) * 0x94D049BB133111EB
           return z ^ (z >> 31)                                      (SplitMix64)

  draw(stream, i) = mix(stream * 2^32 + i) >> 40                     (24 bits)
  number          = draw / 2^22 - 2                                  (in [-2,2), exact in float32)
  label           = draw mod classes

Step t = 0, 1, ... trains on batch b = t mod `distinct_batches`. Element i (row-major, the batch
axis first) of the file's input number k is number(8 * b + k, i); the label of sample i is
label(8 * b + 7, i).
"""
from typing import List, Sequence, Tuple

import numpy as np

LABEL_SLOT = 7


def draw(stream: int, count: int) -> np.ndarray:
    """`count` whole numbers below 2^24."""
    with np.errstate(over="ignore"):
        z = np.uint64(stream << 32) + np.arange(count, dtype=np.uint64)
        z = z + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return (z ^ (z >> np.uint64(31))) >> np.uint64(40)


def numbers(stream: int, shape: Sequence[int]) -> np.ndarray:
    """Numbers in [-2, 2), in float64."""
    return draw(stream, int(np.prod(shape))).reshape(shape) / 2.0**22 - 2.0


def batch(number: int, shapes: Sequence[Sequence[int]], classes: int,
          size: int) -> Tuple[List[np.ndarray], np.ndarray]:
    """The inputs (shapes with the batch axis) and integer labels of batch `number`."""
    inputs = [numbers(8 * number + k, shape) for k, shape in enumerate(shapes)]
    labels = draw(8 * number + LABEL_SLOT, size) % np.uint64(classes)
    return inputs, labels.astype(np.int64)


def rounded(x: float) -> float:
    """12 digits: more than any comparison needs, and half as long as 17."""
    return float(f"{float(x):.12g}")


def statistics(array: np.ndarray, samples: int = 8) -> List[float]:
    """What is kept of an array: [sum, sum of squares, elements...].

    The elements are those at floor(k * size / samples) of the flat array for k = 0, 1, ...; all of
    them where there are no more than `samples`.
    """
    flat = np.asarray(array, np.float64).reshape(-1)
    count = min(samples, flat.size)
    return [rounded(x) for x in (flat.sum(), (flat**2).sum(),
                                 *(flat[k * flat.size // count] for k in range(count)))]
