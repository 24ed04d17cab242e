"""Where a run stands, for whoever shows it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from .metrics import Averages

OBSERVER_SECONDS = 0.1  # between two calls of an observer


@dataclasses.dataclass(frozen=True)
class Progress:
    """Where a run stands."""

    env: str  # as it was named
    steps: int
    total_steps: int
    seconds: float  # of training so far
    sps: float  # steps per second lately
    return_mean: float | None
    return_target: float | None
    metrics: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # lately, by name


def seconds_left(progress: Progress) -> float:
    """Seconds until the step budget is used up, at the present speed."""
    left = max(0, progress.total_steps - progress.steps)
    return left / progress.sps if progress.sps > 0 else 0.0


Observer = Callable[[Progress], None]


class Shown(Averages):
    """What an observer is shown, and when it is called next."""

    def due(self, seconds: float) -> bool:
        """Whether `OBSERVER_SECONDS` have passed since the last line."""
        return seconds - self.seconds >= OBSERVER_SECONDS
