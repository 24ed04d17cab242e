"""Settings with what they were measured at, what they cost, and the Pareto front of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from ..spread import Spread
from .model import FULL


@dataclass(frozen=True)
class Point:
    """One setting at one speed: of one repeat, or medians over all."""

    replicas: int
    envs: int  # per replica
    speed: float  # steps per second
    cores: float  # kept busy: seconds of CPU per second
    gpus: float = 0.0  # held, busy or not

    @property
    def cost(self) -> float:
        """Core-seconds per million steps."""
        return 1e6 * self.cores / self.speed


@dataclass(frozen=True)
class Measured:
    """A setting's repeats; those of one number belong to the same round, whatever the setting."""

    replicas: int
    envs: int
    speed: Spread  # steps per second
    cores: Spread  # kept busy
    gpus: float = 0.0
    threads: int | None = None  # of torch, where its policy acts

    def longer(self, more: Measured) -> Measured:
        """With the rounds of another measurement of the same after its own."""
        speed, cores = (
            mine.longer(later)
            for mine, later in ((self.speed, more.speed), (self.cores, more.cores))
        )
        return dataclasses.replace(self, speed=speed, cores=cores)

    @property
    def point(self) -> Point:
        """Its medians."""
        return Point(self.replicas, self.envs, self.speed.median, self.cores.median, self.gpus)

    @property
    def points(self) -> list[Point]:
        """Its repeats."""
        pairs = zip(self.speed.samples, self.cores.samples, strict=True)
        return [Point(self.replicas, self.envs, *pair, self.gpus) for pair in pairs]

    @property
    def cost(self) -> Spread:
        """Core-seconds per million steps."""
        return Spread.of([point.cost for point in self.points])

    @property
    def gpu_cost(self) -> Spread:
        """GPU-seconds per million steps."""
        return self.speed.map(lambda speed: 1e6 * self.gpus / speed)

    @property
    def size(self) -> tuple[int, int, int]:
        """What it asks for: of settings worth the same the smallest is the best."""
        return self.replicas, self.threads or 0, self.envs

    @property
    def name(self) -> str:
        """For results."""
        threads = "" if self.threads is None else f"-threads-{self.threads}"
        return f"replicas-{self.replicas}-envs-{self.envs}{threads}"


@dataclass(frozen=True)
class Prices:
    """In one currency."""

    value_of_hour: float  # what an hour of waiting costs
    core_hour: float  # what a core costs for an hour
    gpu_hour: float = 0.0  # what a GPU does

    def million(self, point: Point) -> float:
        """What a million steps cost: waiting, cores, GPUs."""
        hours = 1e6 / point.speed / 3600
        paid = point.cores * self.core_hour + point.gpus * self.gpu_hour
        return hours * (self.value_of_hour + paid)


@dataclass(frozen=True)
class Step:
    """A point of the front, and what it takes to get there from the one before."""

    measured: Measured
    speedup: Spread  # times the fastest with the fewest replicas
    costs: Spread  # times its core-seconds per step
    # core-seconds for each million further steps; None: the first, or in a round no faster
    marginal: Spread | None

    @property
    def point(self) -> Point:
        """Its medians."""
        return self.measured.point


def front(measured: Sequence[Measured]) -> list[Step]:
    """The settings that no other beats in both speed and cost, the slowest first."""
    kept: list[Measured] = []
    for each in sorted(measured, key=lambda m: (-m.point.speed, m.point.cost)):
        if not kept or each.point.cost < kept[-1].point.cost:
            kept.append(each)
    kept.reverse()
    first = slowest(measured)
    return [
        Step(
            each,
            in_turn(each.speed, first.speed),
            in_turn(each.cost, first.cost),
            _marginal(kept[at - 1], each) if at else None,
        )
        for at, each in enumerate(kept)
    ]


def _marginal(before: Measured, after: Measured) -> Spread | None:
    found = []
    for low, high in zip(before.points, after.points, strict=False):
        if high.speed <= low.speed:
            return None
        found.append(1e6 * (high.cores - low.cores) / (high.speed - low.speed))
    return Spread.of(found)


def in_turn(one: Spread, other: Spread) -> Spread:
    """How many times the other, round by round, for as many rounds as both were measured."""
    rounds = min(one.repeats, other.repeats)
    return Spread(one.samples[:rounds]).over(Spread(other.samples[:rounds]))


def fastest(measured: Sequence[Measured], replicas: int) -> Measured:
    """The fastest setting with so many replicas."""
    return max((m for m in measured if m.replicas == replicas), key=lambda m: m.point.speed)


def one_waits(measured: Sequence[Measured]) -> bool:
    """Whether a replica may wait: not where one alone, with the policy that acts for it, keeps a
    core busy. More of them on as many cores then only take time from one another, even where the
    policy leaves some of it."""
    alone = [each.cores.median for each in measured if each.replicas == 1]
    return not alone or min(alone) < FULL


def slowest(measured: Sequence[Measured]) -> Measured:
    """What others are compared with: the fastest setting with the fewest replicas."""
    return fastest(measured, min(each.replicas for each in measured))
