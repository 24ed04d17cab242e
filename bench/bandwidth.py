"""How fast the machine copies memory: `python -m headrace.bench.bandwidth`, one for each core.

It is the limit of stepping that does nothing but move bytes. Each thread of what it is compared
with is a process here, which copies a part of its own: threads of Python would wait for each
other between copies. Every repeat has new processes: where their memory lies makes more of a
difference than one process sees.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from operator import itemgetter
from subprocess import PIPE, Popen
from typing import IO, cast

import numpy as np

from .rounds import repeated
from .spread import Spread

SIZES = tuple(1 << shift for shift in range(16, 31, 2))  # bytes read and written: 64 KiB to 1 GiB
LEAD = 0.02  # seconds from when all processes are ready until they begin
MAKE = 0.3  # seconds that they have to make their arrays: 1 GiB takes about 0.2


def copy_bandwidth(
    sizes: Sequence[int], threads: int, *, rounds: int, seconds: float
) -> dict[int, Spread]:
    """Bytes a second, those read and those written counted, by footprint in bytes."""
    (found,) = repeated([lambda _: _once(sizes, threads, seconds)], rounds)
    return {size: found.spread(itemgetter(k)) for k, size in enumerate(sizes)}


def _once(sizes: Sequence[int], threads: int, seconds: float) -> list[float]:
    """One repeat of each size, all processes at the same time."""
    command = [sys.executable, "-m", "headrace.bench.bandwidth"]
    command.append(json.dumps([list(sizes), threads, seconds]))
    with ExitStack() as stack:
        running = [
            stack.enter_context(Popen(command, stdin=PIPE, stdout=PIPE, text=True))
            for _ in range(threads)
        ]
        pipes = [(cast(IO[str], each.stdin), cast(IO[str], each.stdout)) for each in running]
        for _, said in pipes:
            said.readline()  # it is ready
        begin = time.time() + LEAD
        for told, _ in pipes:
            print(begin, file=told, flush=True)
        parts = [json.loads(said.readline()) for _, said in pipes]
    return [sum(rates) for rates in zip(*parts, strict=True)]


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
    """Prints the rates of one process, by size."""
    sizes, threads, seconds = json.loads(sys.argv[1])
    print("ready", flush=True)
    begin = float(sys.stdin.readline())
    rates = []
    for size in sizes:
        time.sleep(max(0.0, begin - time.time()))  # all processes at the same time
        rates.append(copied(size // threads, seconds))
        begin += seconds + MAKE * size / SIZES[-1] + 0.01
    print(json.dumps(rates), flush=True)


if __name__ == "__main__":
    main()
