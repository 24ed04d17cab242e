"""Where a run stands, for whoever shows it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

OBSERVER_SECONDS = 0.1  # between two calls of an observer


@dataclasses.dataclass(frozen=True)
class Progress:
    """Where a run stands."""

    steps: int
    total_steps: int
    seconds: float  # of training so far
    sps: float  # steps per second lately
    return_mean: float | None
    return_target: float | None


Observer = Callable[[Progress], None]


class Pace:
    """When an observer is called next, and how fast the run went since the last time."""

    def __init__(self, seconds: float, steps: int) -> None:
        self._seconds, self._steps = seconds, steps

    def due(self, seconds: float) -> bool:
        """Whether `OBSERVER_SECONDS` have passed since the last call."""
        return seconds - self._seconds >= OBSERVER_SECONDS

    def update(self, seconds: float, steps: int) -> float:
        """Steps per second since the last call; starts to count anew."""
        passed = seconds - self._seconds
        speed = (steps - self._steps) / passed if passed > 0 else 0.0
        self._seconds, self._steps = seconds, steps
        return speed
