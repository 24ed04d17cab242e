"""`headrace bench train --envs`: presets, one after the other; and what is checked first."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.bench import native_kernels, presets, stages, training
from headrace.bench.presets import Trained
from headrace.bench.rounds import Repeats
from headrace.bench.stages import Profile
from headrace.cli import main

STAGES = ("env", "encode", "forward", "sample", "learn_forward", "loss", "backward")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The trainings that were asked for; seed 2 never reaches the target."""
    seen: list[tuple[str, int]] = []

    def trained(env: str, seed: int) -> Trained:
        seen.append((env, seed))
        if seed == 2:
            return Trained(1e6, None, None, 480.0, 470.0)
        return Trained(1e6, 0.5 * seed, 1000.0 * seed, 480.0, 470.0)

    monkeypatch.setattr(presets, "trained", trained)
    known = Profile(dict.fromkeys(STAGES, 0.1), 1.4, 100, 10)
    monkeypatch.setattr(stages, "profile", lambda *_: known)
    return seen


def test_presets_over_seeds(
    asked: list[tuple[str, int]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "train", "--envs", "cartpole,maze", "--seeds", "3", "--json"]) == 0
    assert asked == [(env, seed) for seed in (1, 2, 3) for env in ("cartpole", "maze")]
    found = {
        (each["name"], each["env"]): each for each in json.loads(capsys.readouterr().out)["results"]
    }
    solve = found["solve", "cartpole"]
    assert (solve["median"], solve["repeats"], solve["missed"]) == (1.5, 2, 1)
    assert solve["note"] == "return 475, 2 of 3 seeds solved (the other counts as longer)"
    assert found["solve-steps", "cartpole"]["max"] == 3000
    assert found["train", "maze"]["repeats"] == 3
    assert found["stage-environment", "maze"]["median"] == pytest.approx(0.1 / 1.4)


def test_a_preset_that_is_never_solved_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Repeats([Trained(1e6, None, None, 20.0, 21.0)] * 2)
    found = {each.name: each for each in presets.results("cartpole", runs)}
    assert found["solve"].value is None
    assert found["solve"].note == "return 475, 0 of 2 seeds solved (the others count as longer)"
    assert found["solve-steps"].value is None
    assert found["train"].value == 1e6


def test_training_that_learns_something_else_is_not_timed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(self: Any) -> Any:
        gradient = real(self)
        gradient[:4] *= -1
        return gradient

    real = native_kernels.NativeKernels.learn
    monkeypatch.setattr(native_kernels.NativeKernels, "learn", wrong)
    monkeypatch.setattr(training, "_throughput", lambda *_: pytest.fail("was timed"))
    assert main(["bench", "train", "--json"]) == 1
    captured = capsys.readouterr()
    assert "gradient of 'trunk.0.weight'" in captured.err
    assert list(json.loads(captured.out)) == ["error"]


def test_an_environment_that_does_something_else_is_not_trained_on(
    asked: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.bench.trajectory.TRAJECTORIES", {"pong": ("0", "0")})
    assert main(["bench", "train", "--envs", "pong"]) == 1
    assert asked == []


def test_a_real_profile_of_a_preset() -> None:
    found = stages.profile("squared", {}, steps=20_000, threads=1).shares()
    assert sum(found.values()) == pytest.approx(1.0)
    assert found["environment"] > 0
