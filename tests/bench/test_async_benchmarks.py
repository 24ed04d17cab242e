"""`headrace bench ladder` and `bench staleness`: what they measure and how they tell it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from headrace.bench import ladder, staleness
from headrace.bench.heavy_tail import HeavyTail
from headrace.bench.ladder import Climb
from headrace.cli import main

# ---- staleness ---------------------------------------------------------------------------


@pytest.fixture
def scores(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The runs that were asked for; the score of each falls with its lag."""
    asked: list[tuple[Any, ...]] = []

    def score(env: str, steps: int, lag: int, correction: str, seed: int) -> float:
        asked.append((env, steps, lag, correction, seed))
        return 100.0 - lag * (2.0 if correction == "clip" else 1.0) + seed

    monkeypatch.setattr(staleness, "_score", score)
    return asked


def test_every_cell_of_the_table(scores: list[tuple[Any, ...]]) -> None:
    told: list[tuple[int, int]] = []
    found = staleness.run(seeds=3, share=0.5, announce=lambda *a: told.append(a))
    assert len(found) == 2 * 4 * 4
    assert len(scores) == len(told) == 2 * 3 * (1 + 3 * 4)
    assert told[-1][0] == told[-1][1]
    assert {steps for env, steps, *_ in scores if env == "acrobot"} == {250_000}
    by_name = {each.name: each for each in found}
    clip = by_name["cartpole-lag4-clip"]
    assert (clip.median, clip.min, clip.max, clip.repeats) == (94.0, 93.0, 95.0, 3)
    same = [by_name[f"acrobot-lag0-{c}"].value for c in staleness.CORRECTIONS]
    assert same == [102.0] * 4
    sentences = dict(staleness.ratios(found))
    (best,) = (share for text, share in sentences.items() if "on cartpole at lag 4" in text)
    assert best.samples == pytest.approx([97 / 101, 98 / 102, 99 / 103])


def test_a_real_run_lags(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Any]] = []
    ordinary = staleness.trained

    def train(env: str, **settings: Any) -> Any:
        seen.append(settings)
        return ordinary(env, **settings)

    monkeypatch.setattr(staleness, "trained", train)
    monkeypatch.setattr(staleness, "STEPS", {"cartpole": 30_000})
    monkeypatch.setattr(staleness, "LAGS", (0, 2))
    found = staleness.run(seeds=1, share=1.0, announce=lambda *_: None)
    assert len(seen) == 5
    assert all(run["deterministic"] and run["target"] is None for run in seen)
    assert all(9 < (each.value or 0) <= 500 for each in found)


# ---- ladder ------------------------------------------------------------------------------


def test_rungs_are_told_with_their_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    speeds = [100.0, 300.0, 300.0, 350.0]
    rungs = list(ladder.RUNGS)
    configs = [ladder.BASE.replace(seed=1, **changes) for _, changes in ladder.RUNGS.values()]

    def climb(config: Any, seconds: float) -> Climb:
        number = configs.index(config.replace(seed=1))
        return Climb(speeds[number], None if number == 0 else 20.0 * seconds, 0.05)

    monkeypatch.setattr(ladder, "_climb", climb)
    found = ladder.run(rounds=5, seconds=2.0, announce=lambda *_: None)
    value = {each.name: each for each in found}
    assert [each.name for each in found if each.unit == "steps/s"] == rungs
    assert [value[name].value for name in rungs] == [100.0, 300.0, 300.0, 350.0]
    assert value["lockstep-return"].value is None
    assert value["in-flight-return"].value == 40.0
    assert (
        "gains no speed here: below, learning by itself took 5.0 % (5.0 … 5.0)"
        in value["concurrent"].note
    )
    assert "gains no speed" not in value["continuous-batching"].note
    assert [round(ratio.median, 3) for _, ratio in ladder.ratios(found)] == [3.0, 1.0, 1.167, 3.5]


def test_times_of_steps_are_the_seeds_own(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    env = HeavyTail()
    for seed in (1, 1, 2):
        env.reset(seed=seed)
        for _ in range(300):
            if env.step(0)[2]:
                env.reset()
    one, again, other = np.array(slept).reshape(3, 300)
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)
    assert one.max() <= 1.0
    assert 0.5e-3 < np.median(slept) < 2e-3
    env.close()


# ---- the command -------------------------------------------------------------------------


def test_the_command_prints_one_document(
    scores: list[tuple[Any, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "staleness", "--json", "--seeds", "2"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["results"]) == 32
    assert document["results"][0]["unit"] == "return"


def test_the_command_climbs_the_ladder(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[float] = []

    def climb(config: Any, seconds: float) -> Climb:
        asked.append(seconds)
        return Climb(10.0, 20.0, 0.0)

    monkeypatch.setattr(ladder, "_climb", climb)
    assert main(["bench", "ladder", "--json", "--seconds", "3"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [each["unit"] for each in document["results"]] == ["steps/s", "return"] * 4
    assert asked == [3.0] * 20
