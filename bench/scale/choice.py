"""Which settings are worth their price: the Pareto front, and a recommendation with its reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .model import Law

MARGIN = 0.10  # what a dearer setting must save, as a share of the price, to be worth it


@dataclass(frozen=True)
class Point:
    """One setting, measured: medians over its repeats."""

    replicas: int
    envs: int  # per replica
    speed: float  # steps per second
    cores: float  # kept busy: seconds of CPU per second

    @property
    def cost(self) -> float:
        """Core-seconds per million steps."""
        return 1e6 * self.cores / self.speed


@dataclass(frozen=True)
class Prices:
    """In one currency."""

    value_of_hour: float  # what an hour of waiting costs
    core_hour: float  # what a core costs for an hour

    def million(self, point: Point) -> float:
        """What a million steps cost, waiting and cores."""
        hours = 1e6 / point.speed / 3600
        return hours * (self.value_of_hour + point.cores * self.core_hour)


@dataclass(frozen=True)
class Step:
    """A point of the front, and what it takes to get there from the one before."""

    point: Point
    speedup: float  # times the fastest with the fewest replicas
    costs: float  # times its core-seconds per step
    marginal: float | None  # core-seconds for each million further steps; None: the first


def front(points: Sequence[Point]) -> list[Step]:
    """The points that no other beats in both speed and cost, the slowest first."""
    kept: list[Point] = []
    for point in sorted(points, key=lambda p: (-p.speed, p.cost)):
        if not kept or point.cost < kept[-1].cost:
            kept.append(point)
    kept.reverse()
    found: list[Step] = []
    first = slowest(points)
    for at, point in enumerate(kept):
        before = kept[at - 1] if at else None
        marginal = None
        if before is not None:
            marginal = 1e6 * (point.cores - before.cores) / (point.speed - before.speed)
        found.append(Step(point, point.speed / first.speed, point.cost / first.cost, marginal))
    return found


def recommend(points: Sequence[Point], prices: Prices) -> Point:
    """Of the settings whose price is within MARGIN of the lowest the one with the fewest replicas,
    then the fewest environments: noise does not choose between what is worth the same.
    """
    limit = min(prices.million(point) for point in points) * (1 + MARGIN)
    within = [point for point in points if prices.million(point) <= limit]
    return min(within, key=lambda point: (point.replicas, point.envs))


def reason(chosen: Point, points: Sequence[Point], law: Law, prices: Prices) -> str:
    """Why, in one sentence: what it gains over one replica, and what one more would."""
    first = slowest(points)
    text = f"{_replicas(chosen.replicas)}"
    if chosen.replicas > first.replicas:
        text += (
            f": {chosen.speed / first.speed:.2g}× faster than {_replicas(first.replicas)} for "
            f"{chosen.cost / first.cost:.2g}× the core time per step"
        )
    return f"{text}; {_next(chosen, points, law, prices)}"


def _next(chosen: Point, points: Sequence[Point], law: Law, prices: Prices) -> str:
    """What the next number of replicas buys, measured or else predicted."""
    more = sorted({point.replicas for point in points if point.replicas > chosen.replicas})
    if more:
        then = fastest(points, more[0])
        gain, cost = then.speed / chosen.speed - 1, then.cost / chosen.cost
        saves = 1 - prices.million(then) / prices.million(chosen)
        worth = "saves" if saves > 0 else "adds"
        return (
            f"{_replicas(more[0])} buy {100 * gain:.0f} % for {cost:.2g}× and that {worth} "
            f"{abs(100 * saves):.0f} % of the price"
        )
    following = chosen.replicas + 1
    gain = law.speed(following) / law.speed(chosen.replicas) - 1
    return f"one more is predicted to buy {100 * gain:.0f} % where it has a core of its own"


def fastest(points: Sequence[Point], replicas: int) -> Point:
    """The fastest setting with so many replicas."""
    return max((p for p in points if p.replicas == replicas), key=lambda p: p.speed)


def slowest(points: Sequence[Point]) -> Point:
    """What others are compared with: the fastest setting with the fewest replicas."""
    return fastest(points, min(point.replicas for point in points))


def _replicas(count: int) -> str:
    return "1 replica" if count == 1 else f"{count} replicas"
