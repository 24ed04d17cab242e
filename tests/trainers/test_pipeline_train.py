"""Asynchronous training end to end: repeatability, resuming, what is logged."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

import headrace
from headrace.trainers import begin, progress, session
from headrace.trainers.interrupt import TrainingInterrupted
from headrace.trainers.run import Run

STEPS = 200_000
FIXED = {"async_": True, "deterministic": True}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def trained(run_dir, env="cartpole", **settings):
    given = {"seed": 3, "steps": STEPS, "target": None, "run_dir": run_dir, **settings}
    return headrace.train(env, **given)


def weights(result):
    newest = Run.open(result.run).latest()
    return (Path(result.run) / "checkpoints" / str(newest) / "policy.safetensors").read_bytes()


def lines(run_dir):
    return [json.loads(line) for line in (Path(run_dir) / "metrics.jsonl").open()]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"correction": "vtrace", "replicas": 3},
        {"max_lag": 4, "correction": "decoupled", "normalize_obs": True},
        {"max_lag": 2, "correction": "none", "normalize_reward": True},
    ],
)
def test_a_fixed_schedule_repeats_for_any_number_of_threads(settings):
    found = {
        weights(trained(f"{threads}", threads=threads, **FIXED, **settings))
        for threads in (1, 2, 3)
    }
    assert len(found) == 1


def test_every_correction_is_one_of_its_own():
    found = {
        weights(trained(name, **FIXED, correction=name))
        for name in ("none", "clip", "vtrace", "decoupled")
    }
    assert len(found) == 4


def test_no_lag_gives_the_weights_of_training_in_turn():
    plain = trained("plain")
    assert weights(trained("async", async_=True, max_lag=0, replicas=2)) == weights(plain)


def test_what_is_logged():
    trained("plain")
    assert {line["async/lag_max"] for line in lines("plain")} == {0}
    assert {line["async/ess"] for line in lines("plain")} == {1.0}
    trained("late", **FIXED, max_lag=3, correction="decoupled")
    last = lines("late")[-1]
    assert last["async/lag_max"] == 3
    assert 2.7 < last["async/lag"] <= 3.0  # 25 updates, of which the first three lag less
    assert 0.5 < last["async/ess"] < 1.0
    assert Run.open("late").read_config()[0].async_
    assert "async = true\n" in (Path("late") / "config.toml").read_text()


def test_learns_with_updates_in_flight():
    result = headrace.train("cartpole", seed=1, run_dir="solved", async_=True, replicas=2)
    assert result.solved
    assert max(line.get("async/lag_max", 0) for line in lines("solved")) <= 1


def stopped(monkeypatch, run_dir, **settings):
    """Ctrl-C after about a third of the steps; the observer is asked after every update."""
    monkeypatch.setattr(progress, "OBSERVER_SECONDS", 0.0)

    def observer(at):
        if at.steps >= STEPS // 3:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(TrainingInterrupted):
        trained(run_dir, observer=observer, **settings)


@pytest.mark.parametrize("normalize", [False, True])
def test_a_resumed_fixed_schedule_equals_an_uninterrupted_one(monkeypatch, normalize):
    settings = {**FIXED, "max_lag": 2, "replicas": 2, "correction": "vtrace",
                "normalize_obs": normalize, "normalize_reward": normalize}  # fmt: skip
    whole = trained("whole", **settings)
    stopped(monkeypatch, "parts", **settings)
    resumed = headrace.train(resume="parts")
    assert weights(resumed) == weights(whole)
    assert (resumed.steps, resumed.return_mean) == (whole.steps, whole.return_mean)


def test_a_run_with_rollouts_in_flight_resumes(monkeypatch):
    stopped(monkeypatch, "parts", async_=True, max_lag=2)
    resumed = headrace.train(resume="parts")
    assert resumed.steps >= STEPS
    assert lines("parts")[-1]["async/lag_max"] <= 2


class Interrupted(session.Session):
    """Ctrl-C as the fourth update collects or learns, or between it and the next."""

    where = ""

    def __init__(self, *given):
        super().__init__(*given)
        self.calls = 0
        original = getattr(self._source, self.where)

        def call(*given, **named):
            self.calls += 1
            if self.calls == 4:
                os.kill(os.getpid(), signal.SIGINT)
            return original(*given, **named)

        setattr(self._source, self.where, call)


def broken_off(monkeypatch, where, **settings):
    """A run in which every update counts as slow, and may be left in the middle."""
    monkeypatch.setattr(session, "SLOW_SECONDS", -1.0)
    with monkeypatch.context() as patch:
        patch.setattr(Interrupted, "where", where)
        patch.setattr(begin, "Session", Interrupted)
        with pytest.raises(TrainingInterrupted):
            trained("parts", **settings)


@pytest.mark.parametrize("where", ["take", "learn"])
@pytest.mark.parametrize("policy", ["native", "torch"])
def test_a_fixed_schedule_that_is_broken_off_goes_on_as_if_it_had_not_been(
    monkeypatch, where, policy
):
    if policy == "torch":
        pytest.importorskip("torch")
    settings = {**FIXED, "max_lag": 2, "policy": policy, "num_envs": 64, "horizon": 16,
                "steps": 64 * 16 * 8, "threads": 1}  # fmt: skip
    whole = trained("whole", **settings)
    broken_off(monkeypatch, where, **settings)
    assert 0 < Run.open("parts").latest() <= 3 * 64 * 16
    assert weights(headrace.train(resume="parts")) == weights(whole)


@pytest.mark.parametrize("where", ["take", "learn"])
@pytest.mark.parametrize("env", ["cartpole", "gymnasium:CartPole-v1"])
def test_a_run_that_is_broken_off_goes_on(monkeypatch, where, env):
    settings = {"async_": True, "max_lag": 2, "num_envs": 64, "horizon": 16, "steps": 64 * 16 * 8}
    broken_off(monkeypatch, where, env=env, threads=2, **settings)
    assert Run.open("parts").latest() == 3 * 64 * 16
    resumed = headrace.train(resume="parts")
    assert resumed.steps >= settings["steps"]
    assert lines("parts")[-1]["async/lag_max"] <= 2


def test_python_environments_in_a_thread_of_their_own():
    trained("gym", "gymnasium:CartPole-v1", steps=4000, async_=True, max_lag=2, num_envs=16,
            batch_size=4, fill=0.7, threads=2, correction="vtrace")  # fmt: skip
    last = lines("gym")[-1]
    assert last["steps"] >= 4000
    assert 0 <= last["async/lag"] <= last["async/lag_max"] <= 2
    assert 0 < last["async/ess"] <= 1


def test_torch_policies():
    pytest.importorskip("torch")
    trained("torch", policy="torch", steps=40_000, async_=True, inflight=False)
    last = lines("torch")[-1]
    assert last["async/lag_max"] == 1
    assert 0.9 < last["async/ess"] < 1
