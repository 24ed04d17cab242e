"""How fast the machine copies memory: `python -m headrace.bench.bandwidth`, one for each core.

It is the limit of stepping that does nothing but move bytes. Each thread of what it is compared
with is a process here, which copies a part of its own: threads of Python would wait for each
other between copies.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Sequence

import numpy as np

from .timing import Spread

SIZES = tuple(1 << shift for shift in range(16, 31, 2))  # bytes read and written: 64 KiB to 1 GiB
START = 1.0  # seconds that the processes have to start
MAKE = 0.3  # seconds that they have to make their arrays: 1 GiB takes about 0.2


def copy_bandwidth(
    sizes: Sequence[int], threads: int, *, rounds: int, seconds: float
) -> dict[int, Spread]:
    """Bytes a second, those read and those written counted, by footprint in bytes."""
    begin = time.time() + START
    told = json.dumps([list(sizes), threads, rounds, seconds, begin])
    command = [sys.executable, "-m", "headrace.bench.bandwidth", told]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(threads)]
    parts = [json.loads(process.communicate()[0]) for process in running]
    return {
        size: Spread.of([sum(rates) for rates in zip(*(part[k] for part in parts), strict=True)])
        for k, size in enumerate(sizes)
    }


def nearest(size: float, sizes: Sequence[int] = SIZES) -> int:
    """The footprint that was measured and is closest to `size`, by their ratio."""
    return min(sizes, key=lambda each: abs(math.log(each / max(1.0, size))))


def copied(size: int, seconds: float) -> float:
    """Bytes a second of copying `size / 2` bytes back and forth for so long."""
    source = np.ones(max(1, size // 16))  # of 8 bytes
    target = np.zeros_like(source)
    count, started = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - started) < seconds:
        for _ in range(max(1, (1 << 18) // size)):
            np.copyto(target, source)
            count += 1
    return count * 2 * source.nbytes / elapsed


def main() -> None:
    """Prints the rates of one process, by size and round."""
    sizes, threads, rounds, seconds, begin = json.loads(sys.argv[1])
    found = []
    for size in sizes:
        rates = []
        for _ in range(rounds):
            time.sleep(max(0.0, begin - time.time()))  # all processes at the same time
            rates.append(copied(size // threads, seconds))
            begin += seconds + MAKE * size / SIZES[-1] + 0.01
        found.append(rates)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
