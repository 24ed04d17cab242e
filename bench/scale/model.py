"""A law of scaling, fitted: the Universal Scalability Law of N. J. Gunther (Guerrilla Capacity
Planning, 2007, chapter 4).

    X(n) = rate * n / (1 + serial * (n - 1) + crosstalk * n * (n - 1))

X(n): steps per second of n replicas. serial: share of the work for which replicas queue (Amdahl's
law is crosstalk = 0); crosstalk: what each pair of replicas costs in keeping each other informed.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...engine.errors import ArgumentError

FULL = 0.85  # share of the cores that are busy when they count as all taken


@dataclass(frozen=True)
class Law:
    """The law with its three constants, none of them negative."""

    rate: float  # steps per second of one replica
    serial: float
    crosstalk: float

    def speed(self, replicas: float) -> float:
        """Steps per second."""
        pairs = replicas * (replicas - 1)
        return self.rate * replicas / (1 + self.serial * (replicas - 1) + self.crosstalk * pairs)


@dataclass(frozen=True)
class LeftOut:
    """A measurement that the fit was not shown, and what it predicted."""

    replicas: int
    measured: float
    predicted: float

    @property
    def error(self) -> float:
        """Relative to what was measured."""
        return self.predicted / self.measured - 1


def fit(speeds: Mapping[int, float]) -> Law:
    """The law that fits {replicas: steps per second} best, in relative errors.

    Two numbers of replicas fix the serial share, three the crosstalk as well; with one it is
    linear. n / X(n) is linear in (1, serial, crosstalk) / rate, so that this is a least-squares
    problem; of its four faces (which of serial and crosstalk are 0) the best without a negative
    one counts.

    Raises:
        ArgumentError: no speeds, or one that is not positive.
    """
    counts = sorted(speeds)
    if not counts or min(counts) < 1 or not all(speeds[n] > 0 for n in counts):
        raise ArgumentError(f"speeds are {dict(speeds)}: expected positive ones of 1, 2, ...")
    n = np.array(counts, float)
    x = np.array([speeds[count] for count in counts])
    columns = np.stack([x / n, x / n * (n - 1), x / n * n * (n - 1)], 1)
    best, least = np.array([1.0, 0.0, 0.0]), np.inf
    free = min(len(counts), 3)
    for others in itertools.product((False, True), repeat=2):
        used = [0, *(1 + at for at, on in enumerate(others) if on and at + 1 < free)]
        solution = np.linalg.lstsq(columns[:, used], np.ones(len(n)), rcond=None)[0]
        constants = np.zeros(3)
        constants[used] = solution
        error = float(((columns @ constants - 1) ** 2).sum())
        if (constants >= 0).all() and constants[0] > 0 and error < least - 1e-15:
            best, least = constants, error
    return Law(1 / best[0], best[1] / best[0], best[2] / best[0])


def left_out(speeds: Mapping[int, float]) -> list[LeftOut]:
    """Each measurement but the first, predicted from the others; [] of fewer than three."""
    if len(speeds) < 3:
        return []
    found = []
    for count in sorted(speeds)[1:]:
        others = {n: speed for n, speed in speeds.items() if n != count}
        found.append(LeftOut(count, speeds[count], fit(others).speed(count)))
    return found


def usable(
    points: Sequence[tuple[int, float, float]], cores: int, *, waits: bool
) -> dict[int, float]:
    """Of (replicas, steps per second, cores kept busy) those that a law of replicas may be fitted
    to: {replicas: steps per second}.

    There may be more replicas than cores only where they wait (`waits`: they may) and cores are
    not what is short.
    """
    return {n: x for n, x, busy in points if has_cores(n, busy, cores, waits=waits)}


def has_cores(replicas: int, busy: float, cores: int, *, waits: bool) -> bool:
    """Whether so many replicas, which keep `busy` cores busy, have what they need."""
    return replicas <= cores or (waits and busy < FULL * cores)
