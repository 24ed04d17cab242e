"""Repeated measurements: what came out, and how far apart."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Spread:
    """Repeated measurements, in the order in which they were taken."""

    samples: tuple[float, ...]
    retaken: int = 0  # others that were taken again, since the CPUs gave less or lay apart
    short: int = 0  # of these, taken although they did

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
        ratios = tuple(mine / theirs for mine, theirs in pairs)
        return Spread(ratios, max(self.retaken, other.retaken), max(self.short, other.short))

    def longer(self, more: Spread) -> Spread:
        """With later repeats after its own."""
        return Spread(
            self.samples + more.samples, self.retaken + more.retaken, self.short + more.short
        )

    def map(self, convert: Callable[[float], float]) -> Spread:
        """The spread in another unit."""
        return replace(self, samples=tuple(convert(value) for value in self.samples))
