"""What the CPUs really give: how many cores' work gets done when all usable ones work at once.

The CPUs of a virtual machine have phases of seconds to minutes in which the hypervisor gives them
to other guests, and /proc/stat need not tell. A chain of multiplications, each of which waits for
the one before, does: it runs alone, then on every core at once. It touches no memory and leaves a
core's units mostly idle, so that two threads of one core do not hold each other up: it gets slower
only where time itself is taken.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from threading import Barrier, BrokenBarrierError, Thread
from typing import Any

import numpy as np

from ..engine.cpus import available_cpus

ENOUGH = 0.9  # share of the cores below which they give less
SECONDS = 0.002  # of the chain alone; twice that on all cores
EVERY = 1.0  # seconds from one look to the next: looking takes a hundredth of the time at most
START_SECONDS = 1.0  # that threads have to start together
LOOKS = 3  # that must find less, one after the other: a daemon's moment is no phase
PATIENCE = 20.0  # seconds in all that are waited for a phase to end
Clock = Callable[[], float]  # seconds, monotonic


class Probe:
    """The chain, as long as takes SECONDS alone."""

    def __init__(self, cores: int) -> None:
        self.cores = cores
        length = 1 << 20
        self._ones = np.broadcast_to(np.float64(1.0), (length,))
        alone = min(self._alone() for _ in range(3))
        self._ones = np.broadcast_to(np.float64(1.0), (max(1, int(length * SECONDS / alone)),))

    def __call__(self) -> float:
        """Cores that were given: never more than there are."""
        first, together, last = self._alone(), self._together(), self._alone()
        return float(min(self.cores, self.cores * 2 * min(first, last) / together))

    def _work(self, times: int) -> None:
        for _ in range(times):
            np.multiply.reduce(self._ones)  # not vectorised; without the GIL

    def _alone(self) -> float:
        started = time.perf_counter()
        self._work(1)
        return time.perf_counter() - started

    def _together(self) -> float:
        """Seconds from the first start to the last end of twice the work on every core."""
        barrier, spans = Barrier(self.cores), [(0.0, 0.0)] * self.cores

        cpus = _cpus(self.cores)

        def work(at: int) -> None:
            if cpus:
                with suppress(OSError):  # the CPU may have gone
                    os.sched_setaffinity(0, {cpus[at]})  # of this thread
            with suppress(BrokenBarrierError):  # where another could not start
                barrier.wait(START_SECONDS)
            started = time.perf_counter()
            self._work(2)
            spans[at] = started, time.perf_counter()

        threads = [Thread(target=work, args=(at,), daemon=True) for at in range(self.cores)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return max(end for _, end in spans) - min(start for start, _ in spans)


def _cpus(cores: int) -> list[int]:
    """The CPUs, one for each thread of the probe: the system may place two new threads on one for
    some milliseconds. None where they are more than may be used at once (a quota), or unknown."""
    try:
        found = sorted(os.sched_getaffinity(0))
    except AttributeError:
        return []
    return found if len(found) == cores else []


class Given:
    """What was given while a benchmark ran, and what that did to its repeats.

    Attributes:
        readings: cores, one for each look.
        retaken: repeats that were thrown away, since the cores gave less around them, and taken
            again.
        short: repeats that stand although they did.
    """

    def __init__(
        self,
        *,
        again: bool = True,  # whether repeats may be taken again
        cores: int | None = None,
        probe: Callable[[], float] | None = None,
        clock: Clock = time.perf_counter,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.cores = cores or available_cpus()
        self.again = again
        self.readings: list[float] = []
        self.retaken = self.short = 0
        self._probe = probe or self.probed_by()
        self._clock, self._sleep = clock, sleep
        self._looked, self._patience = clock(), PATIENCE

    def probed_by(self) -> Callable[[], float]:
        """What tells the cores given."""
        return Probe(self.cores)

    def look(self) -> bool:
        """Whether all cores give what they have; noted."""
        found = 0.0
        for _ in range(LOOKS):
            found = max(found, self._probe())
            if self._enough(found):
                break
        self.readings.append(found)
        self._looked = self._clock()
        return self._enough(found)

    def _enough(self, cores: float) -> bool:
        return cores >= ENOUGH * self.cores

    def due(self) -> bool:
        """Whether the last look is long enough ago for another one to cost little."""
        return self._clock() - self._looked >= EVERY

    def wait(self) -> bool:
        """Waits for a phase to end while there is patience; whether it did."""
        while self._patience > 0:
            self._sleep(EVERY)
            self._patience -= EVERY
            if self.look():
                return True
        return False

    def told(self) -> dict[str, Any]:
        """For a document's machine."""
        return {
            "cores_given": {
                "least": round(min(self.readings), 2),
                "median": round(statistics.median(self.readings), 2),
            }
            if self.readings
            else None,
            "retaken": self.retaken,
            "short": self.short,
        }


_NOW: ContextVar[Given | None] = ContextVar("given", default=None)


@contextmanager
def watching(given: Given) -> Iterator[Given]:
    """Has `repeated` (rounds.py) look at what is given; says on stderr if it is too little now."""
    if not given.look():
        text = f"the CPUs give {given.readings[-1]:.2g} of {given.cores} cores now"
        print(f"headrace: {text}; figures will be rough", file=sys.stderr)
    token = _NOW.set(given)
    try:
        yield given
    finally:
        _NOW.reset(token)


def watched() -> Given | None:
    """What watches now; None: nothing does."""
    return _NOW.get()
