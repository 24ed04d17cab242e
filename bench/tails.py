"""Environments of a heavy-tailed step time: what is got of the ideal when nobody waits for all."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np

from ..engine.make import make_vec
from .heavy_tail import HeavyTail
from .results import Result
from .rounds import repeated
from .spread import Spread

ENV = "heavy-tailed cartpole"
ENVS, WORKERS, BATCH = 64, 16, 16
# An environment may differ from what is expected of it by this share, as workers wait for work
# at different times, and by so many steps, as a run begins and ends in the middle of a round.
TOLERANCE, TURNS = 0.1, 2


class Timed(HeavyTail):
    """HeavyTail that knows when its steps began and ended."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.spans: list[tuple[float, float]] = []  # seconds, of a clock that processes share

    def step(self, action: Any) -> Any:
        """See gymnasium.Env."""
        started = time.monotonic()
        result = super().step(action)
        self.spans.append((started, time.monotonic()))
        return result


@dataclass(frozen=True)
class Trip:
    """What one run came to."""

    sps: float
    ideal: float  # share: time that workers spent in steps, of all their time
    deviation: float  # see Shares
    outside: int


@dataclass(frozen=True)
class Shares:
    """How the environments' numbers of steps compare with what their own speeds allow.

    Workers differ by luck: with such a tail one of them has half as many steps again as another
    in a run of some seconds. So nothing is expected of an environment but what follows
    from the lengths that its own steps and those of its worker had: that the environments of a
    worker take turns, and that each worker is busy as much as all are on average, U of the time
    T. With mean lengths l_j that is T U / sum(l_j) steps for each of them.

    Attributes:
        expected, steps: [environments]; a step that only partly lies in the run counts by its
            part.
        deviation: the largest difference, as a share of what was expected.
        outside: environments whose difference is more than TOLERANCE and TURNS.
    """

    expected: np.ndarray
    steps: np.ndarray

    @classmethod
    def of(cls, busy: np.ndarray, steps: np.ndarray, workers: int) -> Shares:
        """busy: seconds of each environment's steps; those of a worker follow each other."""
        lengths = (busy / np.maximum(steps, 1e-9)).reshape(workers, -1)
        each = busy.sum() / workers / lengths.sum(1)
        return cls(np.repeat(each, lengths.shape[1]), steps)

    @property
    def deviation(self) -> float:
        return float((np.abs(self.steps - self.expected) / self.expected).max())

    @property
    def outside(self) -> int:
        allowed = TOLERANCE * self.expected + TURNS
        return int((np.abs(self.steps - self.expected) > allowed).sum())


def trip(batch_size: int, seconds: float, seed: int) -> Trip:
    """Steps for `seconds` of wall time; batch_size=ENVS: in lockstep."""
    vec = make_vec(
        Timed, ENVS, executor="processes", workers=WORKERS, autoreset_mode="SameStep",
        batch_size=batch_size, copy=False,
    )  # fmt: skip
    with closing(vec):
        vec.reset(seed=1000 * seed)
        rng = np.random.default_rng(seed)
        clock = time.monotonic
        started = clock()
        flying = 0
        if batch_size < ENVS:
            vec.send(rng.integers(0, 2, ENVS))
            flying = ENVS
            while clock() - started < seconds:
                rows = vec.recv()[-1]["env_id"]
                vec.send(rng.integers(0, 2, len(rows)))
        else:
            while clock() - started < seconds:
                vec.step(rng.integers(0, 2, ENVS))
        ended = clock()
        while flying:
            flying -= len(vec.recv()[-1]["env_id"])
        busy, steps = in_run(vec.get_attr("spans"), started, ended)
    passed = ended - started
    shares = Shares.of(busy, steps, WORKERS)
    return Trip(
        float(steps.sum()) / passed,
        float(busy.sum()) / (WORKERS * passed),
        shares.deviation,
        shares.outside,
    )


def in_run(spans: Sequence[Any], started: float, ended: float) -> tuple[np.ndarray, np.ndarray]:
    """Seconds in steps and number of steps of each environment between two times."""
    busy, steps = np.zeros(len(spans)), np.zeros(len(spans))
    for row, those in enumerate(spans):
        begins, ends = np.array(those).reshape(-1, 2).T
        inside = np.clip(np.minimum(ends, ended) - np.maximum(begins, started), 0.0, None)
        busy[row] = inside.sum()
        steps[row] = (inside / (ends - begins)).sum()
    return busy, steps


def run(*, rounds: int, seconds: float, announce: Callable[[int], None]) -> list[Result]:
    """Continuous batches and lockstep in turn, `rounds` times."""
    sizes = {"continuous": BATCH, "lockstep": ENVS}
    jobs = [partial(_of_round, batch_size, seconds) for batch_size in sizes.values()]
    trips = dict(zip(sizes, repeated(jobs, rounds, announce), strict=True))
    found = []
    for name, taken in trips.items():
        what = f"recv of the first {BATCH} rows" if name == "continuous" else "step of all rows"
        found.append(_result(name, taken.spread(attrgetter("sps")), "steps/s", what))
        note = "time that the workers spent in steps, of all their time"
        ideal = taken.spread(attrgetter("ideal"))
        found.append(_result(f"{name}-of-ideal", ideal, "share", note))
    note = (
        "largest difference of an environment's number of steps from what its own speed and that "
        "of its worker's others allow"
    )
    continuous = trips["continuous"]
    deviations = continuous.spread(attrgetter("deviation"))
    found.append(_result("continuous-deviation", deviations, "share off", note))
    note = f"of {ENVS}, that differ from it by more than {TOLERANCE:.0%} and {TURNS} steps"
    outside = continuous.spread(attrgetter("outside"))
    return [*found, _result("continuous-outside", outside, "environments", note)]


def _of_round(batch_size: int, seconds: float, number: int) -> Trip:
    return trip(batch_size, seconds, number + 1)


def _result(name: str, spread: Spread, unit: str, note: str) -> Result:
    return Result.measured(f"tail-{name}", "headrace processes", ENV, WORKERS, spread, unit, note)
