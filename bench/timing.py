"""Timing by rounds: every case is calibrated, then all are measured in turn, several times.

A machine that slows down half-way (heat, a neighbour) then slows every case alike, and the
spread over the rounds shows it.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Clock = Callable[[], float]  # seconds, monotonic


@dataclass(frozen=True)
class Case:
    """Something to time. `run(n)` does n iterations, each worth `work` units (steps, calls)."""

    name: str
    run: Callable[[int], object]
    work: float = 1.0


@dataclass(frozen=True)
class Spread:
    """Repeated measurements, in the order in which they were taken."""

    samples: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """ValueError when there are none."""
        if not values:
            raise ValueError("a spread needs at least one value")
        return cls(tuple(float(value) for value in values))

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def min(self) -> float:
        return min(self.samples)

    @property
    def max(self) -> float:
        return max(self.samples)

    @property
    def repeats(self) -> int:
        return len(self.samples)

    def map(self, convert: Callable[[float], float]) -> Spread:
        """The spread in another unit."""
        return Spread(tuple(convert(value) for value in self.samples))


def iterations_for(case: Case, seconds: float, clock: Clock = time.perf_counter) -> int:
    """Warms the case up and returns how many iterations take about `seconds`; at least 1."""
    case.run(1)
    count = 1
    while True:
        started = clock()
        case.run(count)
        elapsed = clock() - started
        if elapsed >= seconds / 4:
            return max(1, round(count * seconds / elapsed))
        count *= 2 if elapsed > seconds / 64 else 8


def measure(
    cases: Sequence[Case],
    *,
    rounds: int,
    seconds: float,
    clock: Clock = time.perf_counter,
    announce: Callable[[int], object] = bool,  # any function of one number: nothing to tell
) -> dict[str, Spread]:
    """Units of work per second of each case, by name.

    Each of `rounds` rounds runs every case once, for about `seconds`; the garbage collector is
    off meanwhile. `announce` is told how many runs are done.
    """
    counts = {case.name: iterations_for(case, seconds, clock) for case in cases}
    rates: dict[str, list[float]] = {case.name: [] for case in cases}
    gc.collect()
    collecting = gc.isenabled()
    gc.disable()
    try:
        for number in range(rounds):
            for index, case in enumerate(cases):
                count = counts[case.name]
                started = clock()
                case.run(count)
                rates[case.name].append(count * case.work / (clock() - started))
                announce(number * len(cases) + index + 1)
    finally:
        if collecting:
            gc.enable()
    return {name: Spread.of(values) for name, values in rates.items()}
