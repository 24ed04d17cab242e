"""Timing by rounds: every case is calibrated, then all are measured in turn, several times.

A machine that slows down half-way (heat, a neighbour) then slows every case alike, and the
spread over the rounds shows it.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from operator import itemgetter

from .rounds import repeated
from .spread import Spread

Clock = Callable[[], float]  # seconds, monotonic


@dataclass(frozen=True)
class Case:
    """Something to time. `run(n)` does n iterations, each worth `work` units (steps, calls)."""

    name: str
    run: Callable[[int], object]
    work: float = 1.0
    rest: float = 0.0  # seconds that it still keeps cores busy when it is done: others wait for it


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
    off meanwhile. `announce` is told how many repeats stand.
    """
    counts = {case.name: iterations_for(case, seconds, clock) for case in cases}
    jobs = [partial(_job, case, counts[case.name], clock) for case in cases]
    with no_collecting():
        found = repeated(jobs, rounds, announce)
    return {case.name: each.spread() for case, each in zip(cases, found, strict=True)}


def _job(case: Case, count: int, clock: Clock, _: int) -> float:
    return rate(case, count, clock)


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
    jobs = [partial(_repeat, group, {}, seconds, clock) for group in groups]
    total = rounds * len(groups)
    found = repeated(jobs, rounds, lambda done: announce(done, total))
    return [
        {name: each.spread(itemgetter(name)) for name in each.values[0]} if rounds else {}
        for each in found
    ]


def _repeat(
    group: Group, counts: dict[str, int], seconds: float, clock: Clock, _: int
) -> dict[str, float]:
    """The rates of the group's cases; counts: iterations of each, found at the first repeat."""
    with group() as cases, no_collecting():
        for case in cases:
            if case.name not in counts:
                counts[case.name] = iterations_for(case, seconds, clock)
            case.run(1)
        return {case.name: rate(case, counts[case.name], clock) for case in cases}


def rate(case: Case, count: int, clock: Clock = time.perf_counter) -> float:
    """Units of work per second, once."""
    started = clock()
    case.run(count)
    found = count * case.work / (clock() - started)
    time.sleep(case.rest)
    return found


@contextmanager
def no_collecting() -> Iterator[None]:
    """Without Python's garbage collector, which has run just before."""
    gc.collect()
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
