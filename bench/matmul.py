"""The machine's matrix-product peak, by NumPy's BLAS: `python -m headrace.bench.matmul THREADS`.

It runs in a process of its own, since BLAS reads its settings when it is loaded.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

from .results import Result
from .spread import Spread

SIZE = 1024  # of the square float32 matrices
FLOPS = 2 * SIZE**3  # of one product
BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
# Overrides that make OpenBLAS mistake the processor; without them it is at its best.
BLAS_OVERRIDES = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


def sgemm_peak(threads: int, seconds: float = 0.5) -> float:
    """FLOP/s of float32 matrix products on `threads` threads, the best of about `seconds`."""
    environment = {key: value for key, value in os.environ.items() if key not in BLAS_OVERRIDES}
    environment |= dict.fromkeys(BLAS_THREADS, str(threads))
    command = [sys.executable, "-m", "headrace.bench.matmul", str(seconds)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


def peak(rates: Spread) -> Result:
    """What `sgemm_peak` found for one core, repeat by repeat, as a result in GFLOP/s."""
    found = rates.map(lambda rate: rate / 1e9)
    note = f"float32 product of {SIZE}×{SIZE} matrices by NumPy's BLAS, the best of half a second"
    return Result.measured("sgemm-peak", "NumPy", "", 1, found, "GFLOP/s", note)


def main() -> None:
    """Prints FLOP/s of the fastest product within the time given."""
    import numpy as np

    a, b = (np.random.default_rng(i).random((SIZE, SIZE), np.float32) for i in range(2))
    out = np.empty_like(a)
    best, started = float("inf"), time.perf_counter()
    while time.perf_counter() - started < float(sys.argv[1]):
        before = time.perf_counter()
        np.matmul(a, b, out=out)
        best = min(best, time.perf_counter() - before)
    print(FLOPS / best)


if __name__ == "__main__":
    main()
