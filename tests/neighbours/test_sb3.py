"""Stable-Baselines3 over our batches."""

from __future__ import annotations

import numpy as np
import pytest

import headrace
from headrace.engine.adapters import to_sb3

pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed")
pytestmark = pytest.mark.filterwarnings("ignore:You are trying to run PPO on the GPU")


def test_endings_are_told() -> None:
    """Each row's episode is cut at step 5; the final observation is the one before the reset."""
    vec = to_sb3(headrace.make_vec("cartpole", 3, autoreset_mode="SameStep", max_steps=5, seed=1))
    reference = headrace.make_vec("cartpole", 3, autoreset_mode="Disabled", max_steps=5)
    vec.seed(1)
    obs = vec.reset()
    expected, _ = reference.reset(seed=1)
    for step in range(5):
        assert np.array_equal(obs, expected)
        actions = np.array([step % 2] * 3)
        obs, rewards, dones, infos = vec.step(actions)
        expected = reference.step(actions)[0]
    assert dones.all()
    assert rewards.dtype == np.float32
    for row, info in enumerate(infos):
        assert np.array_equal(info["terminal_observation"], expected[row])
        assert info["TimeLimit.truncated"] is True
        assert (info["episode"]["r"], info["episode"]["l"]) == (5.0, 5)
    assert not np.array_equal(obs, expected)
    vec.close()
    reference.close()


def test_ppo_learns() -> None:
    """A short training; 100 000 steps with these settings reach 500 (docs/neighbours.md)."""
    import torch
    from stable_baselines3 import PPO

    torch.set_num_threads(1)
    vec = to_sb3(headrace.make_vec("cartpole", 8, autoreset_mode="SameStep", executor="serial"))
    model = PPO(
        "MlpPolicy", vec, n_steps=32, batch_size=256, gae_lambda=0.8, gamma=0.98, n_epochs=20,
        learning_rate=0.001, seed=1, device="cpu",
    )  # fmt: skip
    model.learn(16_000)
    lengths = [episode["l"] for episode in model.ep_info_buffer]
    assert np.mean(lengths) > 60  # random actions last for 22 steps
    vec.close()


def test_other_modes_are_refused() -> None:
    vec = headrace.make_vec("cartpole", 2)
    with pytest.raises(ValueError, match="autoreset_mode 'NextStep', but Stable-Baselines3"):
        to_sb3(vec)
    vec.close()
