"""Runs from Python: a loop of one's own, callbacks, and objects in the place of names."""

from __future__ import annotations

import json
import os
import signal
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

import headrace
from headrace.engine.errors import ClosedError
from headrace.trainers.interrupt import TrainingInterrupted
from headrace.trainers.metrics import METRICS
from headrace.trainers.run import Run
from headrace.trainers.settings import ConfigError

STEPS = 40_000
ROLLOUT = 256 * 32
SHORT = {"num_envs": 8, "threads": 2, "horizon": 16, "target": None, "steps": 500}


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def weights(run):
    run = Run.open(run)
    return (run.checkpoint_path(run.latest()) / "policy.safetensors").read_bytes()


# ---- a loop of one's own ---------------------------------------------------------------------


def test_a_loop_of_ones_own_is_the_run_that_train_makes():
    settings = {"seed": 3, "steps": STEPS, "target": None}
    whole = headrace.train("cartpole", run_dir="whole", **settings)
    seen = []
    with headrace.PPO("cartpole", run_dir="own", **settings) as ppo:
        for metrics in ppo:
            seen.append(metrics)
            assert metrics["steps"] == ppo.steps
            assert metrics["version"] == ppo.version
    assert weights("own") == weights("whole")
    assert [m["steps"] for m in seen] == [k * ROLLOUT for k in range(1, len(seen) + 1)]
    assert seen[-1]["steps"] == whole.steps == ppo.result().steps
    assert seen[-1]["episode/return"] == whole.return_mean
    assert set(seen[0]) <= set(METRICS)
    assert 0 < seen[0]["policy/entropy"] < np.log(2) + 1e-6
    assert json.loads(Path("own/metrics.jsonl").read_text().splitlines()[-1])["steps"] == ppo.steps


def test_a_loop_that_is_left_early_is_saved_and_goes_on():
    with headrace.PPO("cartpole", seed=3, steps=STEPS, target=None, run_dir="r") as ppo:
        before = ppo.metrics
        assert (before["steps"], before["episode/return"]) == (0, None)
        for _ in ppo:
            break
        for _ in ppo:  # goes on where the first loop was left
            break
    assert Run.open("r").checkpoints() == [2 * ROLLOUT]
    handler = signal.getsignal(signal.SIGINT)
    assert handler is signal.default_int_handler
    headrace.train("cartpole", seed=3, steps=STEPS, target=None, run_dir="whole")
    with headrace.PPO(resume="r") as again:
        assert again.steps == 2 * ROLLOUT
        assert sum(1 for _ in again) == 3
    assert weights("r") == weights("whole")


def test_a_run_that_was_not_trained_leaves_no_checkpoint():
    with headrace.PPO("cartpole", run_dir="r"):
        pass
    assert Run.open("r").checkpoints() == []


def test_saving_twice_writes_once():
    with headrace.PPO("cartpole", run_dir="r", target=None) as ppo:
        next(iter(ppo))
        folder = ppo.save()
        written = (folder / "state.json").stat().st_mtime_ns
        assert ppo.save() == folder == Run.open("r").checkpoint_path(ROLLOUT)
    assert (folder / "state.json").stat().st_mtime_ns == written


def test_ctrl_c_in_a_loop_of_ones_own_saves_and_raises():
    def loop():
        with headrace.PPO("cartpole", run_dir="r", target=None) as ppo:
            for metrics in ppo:
                if metrics["version"] == 2:
                    os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(TrainingInterrupted) as stopped:
        loop()
    assert stopped.value.checkpoint.name == str(2 * ROLLOUT)
    assert Run.open("r").latest() == 2 * ROLLOUT


def test_settings_may_come_as_a_config():
    config = headrace.TrainConfig(env="cartpole", hidden=(8,), seed=5)
    with headrace.PPO(config=config, run_dir="r") as ppo:
        assert ppo.config.hidden == (8,)
        assert ppo.config.target is None  # the preset's is not heard
    with headrace.PPO("cartpole", config={"hidden": (16,), "lr": 0.01}, lr=0.02) as ppo:
        assert (ppo.config.hidden, ppo.config.lr, ppo.config.target) == ((16,), 0.02, 475.0)
    with pytest.raises(ConfigError, match="unknown setting hiddens"):
        headrace.PPO("cartpole", config={"hiddens": 1})
    with pytest.raises(ConfigError, match="env is missing"):
        headrace.PPO()


# ---- callbacks -------------------------------------------------------------------------------


def test_callbacks_are_called_with_the_metrics_of_each_update():
    seen = []
    result = headrace.train(
        "cartpole", steps=STEPS, target=None, callbacks=[seen.append, lambda m: None]
    )
    assert [m["version"] for m in seen] == [1, 2, 3, 4, 5]
    assert seen[-1]["steps"] == result.steps


def test_a_callback_may_end_the_run():
    result = headrace.train(
        "cartpole", run_dir="r", target=None, callbacks=[lambda m: m["version"] < 3]
    )
    assert result.steps == Run.open("r").latest() == 3 * ROLLOUT
    assert headrace.train(resume="r", steps=4 * ROLLOUT).steps == 4 * ROLLOUT


def test_where_a_callback_raises_a_checkpoint_is_saved():
    def fails(metrics):
        if metrics["version"] == 2:
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        headrace.train("cartpole", run_dir="r", callbacks=[fails])
    assert Run.open("r").latest() == 2 * ROLLOUT
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert headrace.train(resume="r", steps=3 * ROLLOUT).steps == 3 * ROLLOUT


# ---- objects in the place of names -----------------------------------------------------------


def limited(limit):
    return gymnasium.wrappers.TimeLimit(CartPoleEnv(), limit)


@pytest.mark.parametrize(
    ("env", "name"),
    [
        (CartPoleEnv, "CartPoleEnv"),
        (partial(limited, 20), "partial"),
        ([partial(limited, k) for k in range(10, 18)], "partial"),
    ],
    ids=["class", "function", "list"],
)
def test_environments_as_objects_train_resume_and_are_evaluated(env, name):
    result = headrace.train(env, run_dir="r", **SHORT)
    assert result.env == f"object:{name}"
    assert result.steps >= 500
    with pytest.raises(ConfigError, match=f"env {name} of this run was given as an object"):
        headrace.train(resume="r", steps=900)
    with pytest.raises(ConfigError, match=f"env {name} of this run was given as an object"):
        headrace.evaluate("r")
    assert headrace.train(env, resume="r", steps=900).steps >= 900
    played = headrace.evaluate("r", env=env, episodes=8, threads=2)
    assert played.episodes == 8
    assert played.length_mean > 5
    if name == "partial":
        assert played.length_mean <= 20


def test_a_list_of_environments_says_how_many_there_are():
    envs = [partial(limited, 20)] * 5
    settings = {key: value for key, value in SHORT.items() if key != "num_envs"}
    with headrace.PPO(envs, **settings) as ppo:
        assert ppo.config.num_envs == 5
        assert str(ppo.run).startswith("runs/partial-")


def test_policies_as_objects():
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Module):
        def __init__(self, observation_space, action_space):
            super().__init__()
            self.hidden = torch.nn.Linear(observation_space.shape[0], 8)
            self.heads = headrace.nn.Heads(8, action_space)

        def forward(self, obs):
            return self.heads(torch.tanh(self.hidden(obs)))

    spaces = gymnasium.spaces.Box(-1, 1, (4,)), gymnasium.spaces.Discrete(2)
    for number, policy in enumerate((Net, Net(*spaces))):
        with headrace.PPO("cartpole", policy, run_dir=f"{number}", steps=1, target=None) as ppo:
            assert [m["version"] for m in ppo] == [1]
        assert ppo.config.policy == "object:Net"


def test_a_closed_run_is_not_trained_and_says_how_to_go_on():
    with headrace.PPO("cartpole", run_dir="r", steps=20_000, horizon=8) as ppo:
        next(iter(ppo))
    for use in (lambda: next(iter(ppo)), ppo.updates):
        with pytest.raises(ClosedError, match=r"continue the run with headrace.PPO\(resume='r'\)"):
            use()
    assert ppo.result().steps == ppo.steps > 0
