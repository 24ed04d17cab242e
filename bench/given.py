"""What the CPUs really give: how many cores' work gets done when all usable ones work at once, and
how far they lie from each other meanwhile (distance.py).

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
from dataclasses import dataclass
from threading import Barrier, BrokenBarrierError, Thread
from typing import Any

import numpy as np

from ..engine.cpus import available_cpus
from .distance import Distance

ENOUGH = 0.9  # share of the cores below which they give less
SECONDS = 0.002  # of the chain alone; twice that on all cores
EVERY = 1.0  # seconds from one look to the next: looking takes a hundredth of the time at most
GLANCE = 0.1  # seconds between measurements of the distance alone, a pair less than a millisecond
START_SECONDS = 1.0  # that threads have to start together
LOOKS = 3  # that must find less, one after the other: a daemon's moment is no phase
PATIENCE = 60.0  # seconds in all that are waited for a phase to end
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


@dataclass(frozen=True)
class Look:
    """What was found once."""

    cores: float  # that were given
    trip: float | None  # ns from one to another and back; None: not known


class Given:
    """What was given while a benchmark ran, and what that did to its repeats.

    Attributes:
        distance: of the cores; several benchmarks may share what it was at best.
        readings: of each look.
        stood: the longest round trip around each repeat that stands, ns.
        retaken: repeats that were thrown away, since the cores gave less or lay apart around them,
            and taken again.
        short: repeats that stand although they did.
    """

    def __init__(
        self,
        *,
        again: bool = True,  # whether repeats may be taken again
        cores: int | None = None,
        probe: Callable[[], float] | None = None,
        distance: Distance | None = None,
        clock: Clock = time.perf_counter,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.cores = cores or available_cpus()
        self.again = again
        self.distance = distance or Distance()
        self.readings: list[Look] = []
        self.stood: list[float] = []
        self.retaken = self.short = 0
        self._probe = probe or self.probed_by()
        self._clock, self._sleep = clock, sleep
        self._looked = self._glanced = clock()
        self._patience = PATIENCE

    def probed_by(self) -> Callable[[], float]:
        """What tells the cores given."""
        return Probe(self.cores)

    def look(self) -> Look:
        """The best of what is found in a moment; noted."""
        found = Look(0.0, None)
        for _ in range(LOOKS):
            trips = filter(None, (found.trip, self.distance()))
            found = Look(max(found.cores, self._probe()), min(trips, default=None))
            if self.fine(found):
                break
        self.readings.append(found)
        self._looked = self._glanced = self._clock()
        return found

    def fine(self, look: Look) -> bool:
        """Whether all cores gave what they have, and lay no further apart than they need, as far
        as is known by now."""
        return not (self._gave_less(look) or self.distance.apart(look.trip))

    def _gave_less(self, look: Look) -> bool:
        return look.cores < ENOUGH * self.cores

    def due(self) -> bool:
        """Whether the last look is long enough ago for another one to cost little, or the cores
        seem to have moved since."""
        return self._clock() - self._looked >= EVERY or self._moved()

    def _moved(self) -> bool:
        now = self._clock()
        if now - self._glanced < GLANCE:
            return False
        self._glanced = now
        trip = self.distance()
        return self.distance.apart(trip) != self.distance.apart(self.readings[-1].trip)

    def wait(self) -> Look:
        """Waits for a phase to end while there is patience; the last look."""
        while self._patience > 0 and not self.fine(self.readings[-1]):
            self._sleep(EVERY)
            self._patience -= EVERY
            self.look()
        return self.readings[-1]

    def complaint(self, look: Look) -> str | None:
        """What a look found that makes figures rough."""
        if self._gave_less(look):
            return f"the CPUs give {look.cores:.2g} of {self.cores} cores now"
        if look.trip is not None and self.distance.apart(look.trip):
            times = look.trip / self.distance.least
            return f"the cores lie {times:.1f} times as far apart as at best now"
        return None

    def told(self) -> dict[str, Any]:
        """For a document's machine."""
        cores = [look.cores for look in self.readings]
        trips = [look.trip for look in self.readings if look.trip is not None]
        return {
            "cores_given": {
                "least": round(min(cores), 2),
                "median": round(statistics.median(cores), 2),
            }
            if cores
            else None,
            "round_trip_ns": {
                "least": round(self.distance.least, 1),
                "median": round(statistics.median(self.stood or trips), 1),
                "most": round(max(trips), 1),
            }
            if trips
            else None,
            "retaken": self.retaken,
            "short": self.short,
        }


_NOW: ContextVar[Given | None] = ContextVar("given", default=None)


@contextmanager
def watching(given: Given) -> Iterator[Given]:
    """Has `repeated` (rounds.py) look at what is given; says on stderr if it is too little now."""
    complaint = given.complaint(given.look())
    if complaint is not None:
        print(f"headrace: {complaint}; figures will be rough", file=sys.stderr)
    token = _NOW.set(given)
    try:
        yield given
    finally:
        _NOW.reset(token)


def watched() -> Given | None:
    """What watches now; None: nothing does."""
    return _NOW.get()
