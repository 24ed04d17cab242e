"""Times to a target over seeds, of which some may have missed it: one rule for all benchmarks.

A seed that missed the target took longer than every one that reached it. So the median counts it
as infinitely long, and is itself unknown where that is what it comes to.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from statistics import median

from .results import Result
from .rounds import Repeats

NEVER = float("inf")
Time = float | None  # until the target; None: it was missed


def never(time: Time) -> float:
    """The time, infinite where the target was missed."""
    return NEVER if time is None else time


def middle(times: Sequence[Time]) -> Time:
    """The median; None where it is not known, since too many missed the target."""
    found = median([never(time) for time in times])
    return None if found == NEVER else found


def solution(
    name: str, impl: str, env: str, threads: int, times: Repeats[Time], unit: str, note: str
) -> Result:
    """The time to the target over seeds; its extremes and samples are of those that reached it.

    note: what is told of it, with {solved} where "3 of 4 seeds solved" belongs.
    """
    reached = [time for time in times.values if time is not None]
    missed = len(times.values) - len(reached)
    told = f"{len(reached)} of {len(times.values)} seeds solved"
    if missed:
        told += f" ({'the other counts' if missed == 1 else 'the others count'} as longer)"
    note, at_median = note.replace("{solved}", told), middle(times.values)
    if at_median is None:
        missing = Result.missing(name, impl, env, unit, note)
        return dataclasses.replace(missing, threads=threads, missed=missed)
    spread = Repeats(reached, times.retaken, times.short).spread()
    found = Result.measured(name, impl, env, threads, spread, unit, note)
    return dataclasses.replace(found, value=at_median, median=at_median, missed=missed)
