"""Prints the rate of a large float32 matrix product by PyTorch, or else NumPy, as one JSON line."""
import json
import os
import sys
import time

threads = int(sys.argv[1])
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = str(threads)
try:
    import torch
    torch.set_num_threads(threads)
    by = f"PyTorch {torch.__version__}"

    def matrix():
        return torch.rand(SIZE, SIZE)
except ImportError:
    import numpy
    by = f"NumPy {numpy.__version__}"

    def matrix():
        return numpy.random.default_rng(0).random((SIZE, SIZE), dtype=numpy.float32)

SIZE = 1536
a, b = matrix(), matrix()
best, begin = 0.0, time.perf_counter()
while time.perf_counter() - begin < 0.6:
    start = time.perf_counter()
    a @ b
    best = max(best, 2e-9 * SIZE**3 / (time.perf_counter() - start))
print(json.dumps({"event": "gemm", "gflops": best, "by": by}), flush=True)
