"""Environments of a heavy-tailed step time: what is got of the ideal when nobody waits for all."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..engine.make import make_vec
from .heavy_tail import HeavyTail
from .results import Result
from .timing import Spread

ENV = "heavy-tailed cartpole"
ENVS, WORKERS, BATCH = 64, 16, 16


class Timed(HeavyTail):
    """HeavyTail that knows how many of its steps took how long."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.busy, self.steps = 0.0, 0  # seconds

    def step(self, action: Any) -> Any:
        """See gymnasium.Env."""
        started = time.perf_counter()
        result = super().step(action)
        self.busy += time.perf_counter() - started
        self.steps += 1
        return result


@dataclass(frozen=True)
class Trip:
    """What one run came to."""

    sps: float
    ideal: float  # share: time that workers spent in steps, of all their time
    fairness: float  # largest deviation of an environment's steps from what its speed allows


def trip(batch_size: int, seconds: float, seed: int) -> Trip:
    """Steps for `seconds` of wall time; batch_size=ENVS: in lockstep."""
    vec = make_vec(
        Timed, ENVS, executor="processes", workers=WORKERS, autoreset_mode="SameStep",
        batch_size=batch_size, copy=False,
    )  # fmt: skip
    with closing(vec):
        vec.reset(seed=1000 * seed)
        rng = np.random.default_rng(seed)
        clock = time.perf_counter
        before = _tally(vec)
        started = clock()
        if batch_size < ENVS:
            vec.send(rng.integers(0, 2, ENVS))
            while clock() - started < seconds:
                rows = vec.recv()[-1]["env_id"]
                vec.send(rng.integers(0, 2, len(rows)))
            passed = clock() - started
            busy, steps = _in_time(vec)
        else:
            while clock() - started < seconds:
                vec.step(rng.integers(0, 2, ENVS))
            passed = clock() - started
            busy, steps = _tally(vec)
    busy, steps = busy - before[0], steps - before[1]
    return Trip(
        float(steps.sum()) / passed,
        float(busy.sum()) / (WORKERS * passed),
        _unfairness(busy, steps),
    )


def _in_time(vec: Any) -> tuple[np.ndarray, np.ndarray]:
    """The tally without what was still in flight when time was up."""
    flying = []
    while vec._flight.in_flight:
        flying.append(vec.recv()[-1]["env_id"])
    busy, steps = _tally(vec)
    late = np.concatenate(flying)
    busy[late] -= busy[late] / np.maximum(1, steps[late])  # one step, at its usual length
    steps[late] -= 1
    return busy, steps


def _tally(vec: Any) -> tuple[np.ndarray, np.ndarray]:
    """Seconds in steps and number of steps of each environment."""
    return np.array(vec.get_attr("busy")), np.array(vec.get_attr("steps"), np.float64)


def _unfairness(busy: np.ndarray, steps: np.ndarray) -> float:
    """Environments of one worker take turns: each should have had as many steps as the time of
    that worker allows, at the mean length of a step of each of them."""
    rounds = steps.reshape(WORKERS, -1)
    lengths = (busy / np.maximum(1, steps)).reshape(WORKERS, -1)
    expected = busy.reshape(WORKERS, -1).sum(1) / lengths.sum(1)
    return float(np.max(np.abs(rounds - expected[:, None]) / expected[:, None]))


def run(*, rounds: int, seconds: float, announce: Callable[[int], None]) -> list[Result]:
    """Continuous batches and lockstep in turn, `rounds` times."""
    trips: dict[str, list[Trip]] = {"continuous": [], "lockstep": []}
    for number in range(rounds):
        for name, batch_size in (("continuous", BATCH), ("lockstep", ENVS)):
            trips[name].append(trip(batch_size, seconds, number + 1))
            announce(sum(map(len, trips.values())))
    found = []
    for name, taken in trips.items():
        what = f"recv of the first {BATCH} rows" if name == "continuous" else "step of all rows"
        found.append(_result(name, [t.sps for t in taken], "steps/s", what))
        note = "time that the workers spent in steps, of all their time"
        found.append(_result(f"{name}-of-ideal", [t.ideal for t in taken], "share", note))
    note = (
        "largest difference of an environment's number of steps from what the speed of the "
        "environments of its worker allows"
    )
    unfair = [t.fairness for t in trips["continuous"]]
    return [*found, _result("continuous-deviation", unfair, "share", note)]


def _result(name: str, values: list[float], unit: str, note: str) -> Result:
    spread = Spread.of(values)
    return Result.measured(f"tail-{name}", "headrace processes", ENV, WORKERS, spread, unit, note)
