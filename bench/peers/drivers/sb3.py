"""Stable-Baselines3: PPO with the settings that RL Baselines3 Zoo tuned for CartPole-v1."""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

from ...batches import ACTION_BATCHES, Array, Batch
from .protocol import RECORDED_ENVS, SOLVE, STEP, Case, Running, serve

ENVS, BUDGET = 8, 100_000  # environments and steps of the tuned settings
SB3 = "Stable-Baselines3"
EPISODES = 100  # whose mean return counts


class Recorded:
    """The environments as Gymnasium's vector environments are, for the check."""

    def __init__(self) -> None:
        self._vec = make_vec_env("CartPole-v1", n_envs=RECORDED_ENVS, seed=0)

    def reset(self, seed: int | None = None) -> Any:
        """See gymnasium.vector.VectorEnv."""
        self._vec.seed(seed)
        return self._vec.reset(), {}

    def step(self, actions: Array) -> Any:
        """See gymnasium.vector.VectorEnv; an observation after an end is the next episode's."""
        obs, rewards, done, infos = self._vec.step(actions)
        cut = np.array([info.get("TimeLimit.truncated", False) for info in infos])
        return obs, rewards, done & ~cut, done & cut, {}

    def close(self) -> None:
        """Closes the environments."""
        self._vec.close()


class Watch(BaseCallback):
    """Ends training once the mean return of the last EPISODES episodes reaches the target."""

    def __init__(self, target: float) -> None:
        super().__init__()
        self.target, self.solved = target, False
        self.mean: float | None = None

    def _on_step(self) -> bool:
        episodes = self.model.ep_info_buffer
        if episodes:
            self.mean = float(np.mean([episode["r"] for episode in episodes]))
            self.solved = len(episodes) == EPISODES and self.mean >= self.target
        return not self.solved


def solve(seed: int, target: float) -> dict[str, Any]:
    """Trains from the beginning; seconds of training alone."""
    vec = make_vec_env("CartPole-v1", n_envs=ENVS, seed=seed)
    model = PPO(
        "MlpPolicy",
        vec,
        n_steps=32,
        batch_size=256,
        gae_lambda=0.8,
        gamma=0.98,
        n_epochs=20,
        ent_coef=0.0,
        learning_rate=lambda left: 1e-3 * left,
        clip_range=lambda left: 0.2 * left,
        seed=seed,
        device="cpu",
    )
    watch = Watch(target)
    started = time.perf_counter()
    model.learn(BUDGET, callback=watch)
    seconds = time.perf_counter() - started
    vec.close()
    return {
        "seconds": seconds if watch.solved else None,
        "steps": model.num_timesteps,
        "return": watch.mean,
    }


def stepping() -> Case:
    """DummyVecEnv of Gymnasium's CartPole."""

    def make() -> Running:
        vec = make_vec_env("CartPole-v1", n_envs=ENVS, seed=0)
        vec.reset()
        rng = np.random.default_rng(1)
        actions = [rng.integers(0, 2, ENVS) for _ in range(ACTION_BATCHES)]

        def run(count: int) -> None:
            for index in range(count):
                vec.step(actions[index % ACTION_BATCHES])

        return Running(ENVS, run, close=vec.close)

    return Case("step-dummy", STEP, SB3, f"DummyVecEnv, {ENVS} environments", 1, make)


def cases(threads: int) -> list[Case]:
    """Stepping, and solving on one thread of PyTorch's, which is faster here than on more."""
    torch.set_num_threads(threads)
    tuned = f"the zoo's tuned settings: {ENVS} environments × 32 steps, 20 epochs, two 64×64"
    return [stepping(), Case("solve-zoo", SOLVE, SB3, tuned, threads, solve=solve)]


if __name__ == "__main__":
    BATCH = Batch("recorded", "SB3", RECORDED_ENVS, 1, Recorded, next_step=False)
    serve(("stable-baselines3", "torch", "gymnasium", "numpy"), BATCH, cases(1))
    sys.exit(0)
