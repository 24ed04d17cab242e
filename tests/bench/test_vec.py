"""`headrace bench vec`: what it compares, and how it counts."""

from __future__ import annotations

import numpy as np
import pytest

from headrace.bench import tails, vec
from headrace.bench.bare import BareLoops, loop
from headrace.bench.python_batches import cartpole
from headrace.bench.results import Result
from headrace.bench.timing import Spread


def test_bare_loops_step_and_reset() -> None:
    """Random play falls after about 22 steps; the environments go on."""
    envs = [cartpole() for _ in range(8)]
    for env in envs:
        env.reset(seed=1)
    rng = np.random.default_rng(0)
    actions = [list(rng.integers(0, 2, 8)) for _ in range(64)]
    resets = loop(envs, actions, 300)
    assert resets == pytest.approx(8 * 300 / 22, rel=0.3)


def test_bare_loops_run_in_processes() -> None:
    bare = BareLoops(cartpole, 3, 2)
    bare.run(5)
    bare.close()


def test_turns_are_compared_within_a_worker() -> None:
    """Each environment of a worker gets as many steps as the others, however slow it is."""
    lengths = np.tile([1.0, 2.0, 3.0, 4.0], 16)
    steps = np.full(64, 10.0)
    assert tails._unfairness(lengths * steps, steps) == pytest.approx(0.0)
    steps[0] = 5.0  # a quarter of what its neighbours get, more or less
    assert tails._unfairness(lengths * steps, steps) > 0.4


def test_a_heavy_tailed_trip() -> None:
    trip = tails.trip(tails.BATCH, 0.3, 1)
    assert trip.sps > 0
    assert 0.5 < trip.ideal < 1.5


def test_ratios_name_both() -> None:
    def result(impl: str, value: float, name: str = "step", env: str = vec.NAME) -> Result:
        return Result.measured(name, impl, env, 2, Spread.of([value]), "steps/s")

    found = vec.ratios(
        [
            result("bare loops", 4.0, "limit"),
            result("headrace processes (copy=False)", 3.0),
            result("Gymnasium AsyncVectorEnv", 0.5),
            result("headrace processes", 9.0, "tail-continuous", tails.ENV),
            result("headrace processes", 3.0, "tail-lockstep", tails.ENV),
        ]
    )
    assert [ratio.median for _, ratio in found] == [0.75, 6.0, 3.0]
