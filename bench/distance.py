"""How far the cores lie from each other: what a cache line takes from one to another and back.

A hypervisor may move the CPUs of a virtual machine, for seconds to minutes, to cores that share no
cache. Each of them computes as before, but what threads hand to each other takes some times as
long. A core by itself shows nothing of it, two that answer each other do.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from ..engine._core import round_trip_ns

APART = 2.5  # times the least round trip, beyond which cores lie apart; near ones vary by 2.2
PAIRS = 8  # of cores that are measured at most


def neighbours(cpus: Sequence[int]) -> list[tuple[int, int]]:
    """Pairs of CPUs that follow each other, PAIRS at most, spread over all of them."""
    pairs = [*pairwise(cpus)]
    return pairs[:: math.ceil(len(pairs) / PAIRS)] if pairs else []


def round_trip() -> float | None:
    """Nanoseconds between the usable CPUs that lie furthest from their neighbours; None: there is
    one alone, the system does not tell, or some were too busy to answer."""
    try:
        cpus = sorted(os.sched_getaffinity(0))
    except AttributeError:
        return None
    furthest = None
    for first, second in neighbours(cpus):
        found = round_trip_ns(first, second)
        if found is None:
            return None  # it may be the furthest
        furthest = max(furthest or 0.0, found)
    return furthest


class Distance:
    """Measures it, and keeps what it was at best.

    Attributes:
        least: ns, of all measurements; infinite before the first.
    """

    def __init__(self, measure: Callable[[], float | None] | None = None) -> None:
        self.least = math.inf
        self._measure = measure or round_trip

    def __call__(self) -> float | None:
        """Nanoseconds; None where nobody knows."""
        found = self._measure()
        if found is not None:
            self.least = min(self.least, found)
        return found

    def apart(self, ns: float | None) -> bool:
        """Whether that is further than the cores need lie, as far as is known by now."""
        return ns is not None and ns > APART * self.least


def were_apart(told: Mapping[str, Any] | None) -> bool:
    """Whether cores lay apart at times; told: `round_trip_ns` of a document's machine."""
    return told is not None and told["most"] > APART * told["least"]
