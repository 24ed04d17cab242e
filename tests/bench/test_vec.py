"""`headrace bench vec`: what it compares, and how it counts."""

from __future__ import annotations

import numpy as np
import pytest

from headrace.bench import tails, vec
from headrace.bench.bare import BareLoops, loop
from headrace.bench.python_batches import cartpole
from headrace.bench.results import Result
from headrace.bench.spread import Spread


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


Spans = list[list[tuple[float, float]]]


def heavy_tailed_run(turns: list[int], seconds: float, seed: int) -> Spans:
    """When the steps of 64 environments begin and end, on 16 ideal workers that step their
    environments in the order `turns` of each round."""
    rng = np.random.default_rng(seed)
    spans: Spans = [[] for _ in range(64)]
    for worker in range(16):
        now, turn = 0.0, 0
        while now < seconds:
            took = min(1.0, float(rng.lognormal(np.log(1e-3), 2.0)))
            spans[4 * worker + turns[turn % len(turns)]].append((now, now + took))
            now, turn = now + took, turn + 1
    return spans


def shares_of(spans: Spans, seconds: float) -> tails.Shares:
    return tails.Shares.of(*tails.in_run(spans, 0.0, seconds), workers=16)


@pytest.mark.parametrize("seed", range(5))
def test_environments_that_take_turns_are_within_their_expectation(seed: int) -> None:
    """However unlike the times are that their steps take."""
    shares = shares_of(heavy_tailed_run([0, 1, 2, 3], 6.0, seed), 6.0)
    assert shares.steps.max() > 1.2 * shares.steps.min()
    assert shares.outside == 0


@pytest.mark.parametrize("turns", [[0, 1, 2, 0, 1, 3], [0, 1, 2, 0, 1, 2, 3]])
def test_environments_that_are_passed_over_are_found(turns: list[int]) -> None:
    """As when the caller's order decides who is next: the last ones come every other round."""
    shares = shares_of(heavy_tailed_run(turns, 6.0, 1), 6.0)
    assert shares.outside >= 16
    assert shares.deviation > 0.2


def test_a_worker_that_idles_is_found() -> None:
    spans = heavy_tailed_run([0, 1, 2, 3], 6.0, 1)
    for row in range(4):  # the first worker has work every other second
        spans[row] = [span for span in spans[row] if int(span[0]) % 2]
    assert shares_of(spans, 6.0).outside == 4


def test_steps_count_by_what_lies_in_the_run() -> None:
    spans = [[(0.0, 2.0), (2.0, 3.0)], [(3.0, 7.0), (8.0, 9.0)]]
    busy, steps = tails.in_run(spans, 1.0, 4.0)
    assert busy.tolist() == [2.0, 1.0]
    assert steps.tolist() == [1.5, 0.25]


def test_a_heavy_tailed_trip() -> None:
    trip = tails.trip(tails.BATCH, 0.3, 1)
    assert trip.sps > 0
    assert 0 < trip.ideal <= 1
    assert 0 <= trip.outside <= tails.ENVS


def test_a_deviation_is_no_share_of_which_more_is_better(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tails, "trip", lambda *_: tails.Trip(9.0, 0.9, 0.2, 3))
    found = tails.run(rounds=2, seconds=0.1, announce=lambda _: None)
    assert {each.name: each.unit for each in found} == {
        "tail-continuous": "steps/s",
        "tail-continuous-of-ideal": "share",
        "tail-lockstep": "steps/s",
        "tail-lockstep-of-ideal": "share",
        "tail-continuous-deviation": "share off",
        "tail-continuous-outside": "environments",
    }


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
