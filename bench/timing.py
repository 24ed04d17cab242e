"""Timing by rounds: every case is calibrated, then all are measured in turn, several times.

A machine that slows down half-way (heat, a neighbour) then slows every case alike, and the
spread over the rounds shows it.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

Clock = Callable[[], float]  # seconds, monotonic


@dataclass(frozen=True)
class Case:
    """Something to time. `run(n)` does n iterations, each worth `work` units (steps, calls)."""

    name: str
    run: Callable[[int], object]
    work: float = 1.0
    rest: float = 0.0  # seconds that it still keeps cores busy when it is done: others wait for it


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

    def over(self, other: Spread) -> Spread:
        """How many times the other: repeat by repeat where both have as many, since those of one
        round share its minute of the machine; else each with each."""
        if self.repeats == other.repeats:
            pairs = [*zip(self.samples, other.samples, strict=True)]
        else:
            pairs = [(mine, theirs) for mine in self.samples for theirs in other.samples]
        return Spread.of([mine / theirs for mine, theirs in pairs])

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
            time.sleep(case.rest)
            return max(1, round(count * seconds / elapsed))
        count *= 2 if elapsed > seconds / 64 else 8


Group = Callable[[], AbstractContextManager[Sequence[Case]]]  # makes cases, and ends them


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
    with _no_collecting():
        for number in range(rounds):
            for index, case in enumerate(cases):
                rates[case.name].append(_rate(case, counts[case.name], clock))
                announce(number * len(cases) + index + 1)
    return {name: Spread.of(values) for name, values in rates.items()}


def measure_anew(
    groups: Sequence[Group],
    *,
    rounds: int,
    seconds: float,
    clock: Clock = time.perf_counter,
    announce: Callable[[int, int], object] = lambda *_: None,
) -> list[dict[str, Spread]]:
    """The same for groups of cases that are made anew for every repeat, one group at a time.

    So the repeats of a case lie as far apart as the whole run allows and each has memory of its
    own: their spread tells what another minute and another place in memory do to it, as the next
    run will. Every case runs once before it is timed.
    """
    counts: list[dict[str, int]] = [{} for _ in groups]
    rates: list[dict[str, list[float]]] = [{} for _ in groups]
    for number in range(rounds):
        for at, group in enumerate(groups):
            with group() as cases, _no_collecting():
                for case in cases:
                    if number == 0:
                        counts[at][case.name] = iterations_for(case, seconds, clock)
                        rates[at][case.name] = []
                    case.run(1)
                for case in cases:
                    rates[at][case.name].append(_rate(case, counts[at][case.name], clock))
            announce(number * len(groups) + at + 1, rounds * len(groups))
    return [{name: Spread.of(values) for name, values in found.items()} for found in rates]


def _rate(case: Case, count: int, clock: Clock) -> float:
    started = clock()
    case.run(count)
    rate = count * case.work / (clock() - started)
    time.sleep(case.rest)
    return rate


@contextmanager
def _no_collecting() -> Iterator[None]:
    """Without Python's garbage collector, which has run just before."""
    gc.collect()
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
