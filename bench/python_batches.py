"""The vectorisations of Python environments that `bench vec` compares, all of one CartPole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from ..engine.make import make_vec
from .batches import Batch, NotInstalled

NAME = "python-cartpole"
HALVES = "half of the rows are in the caller's hands while the others are stepped"


def cartpole() -> gymnasium.Env[Any, Any]:
    """Gymnasium's single CartPole with its time limit; all vectorisations step this one.

    Without Gymnasium's checker of an environment's first step, which slows every later one.
    """
    return gymnasium.make("CartPole-v1", disable_env_checker=True)


def headrace_step(num_envs: int, workers: int, copy: bool) -> Batch:
    """`headrace.make_vec(cartpole, num_envs)`, stepped as a whole."""
    return Batch(
        "step",
        f"headrace processes (copy={copy})",
        num_envs,
        workers,
        lambda: make_vec(cartpole, num_envs, workers=workers, copy=copy),
        ours=True,
    )


def headrace_halves(num_envs: int, workers: int) -> Batch:
    """The same by send and recv: half of the rows at a time, while the others are stepped."""
    half = num_envs // 2
    return Batch(
        "send-recv",
        f"headrace processes (batch_size={half})",
        num_envs,
        workers,
        lambda: make_vec(cartpole, num_envs, workers=workers, copy=False, batch_size=half),
        ours=True,
        note=HALVES,
    )


def headrace_caller(num_envs: int, cores: int, halves: bool) -> Batch:
    """The same where the calling process takes the place of one of the workers."""
    rows = num_envs // 2 if halves else num_envs
    return Batch(
        "send-recv" if halves else "step",
        f"headrace processes (caller_share=1{f', batch_size={rows}' if halves else ''})",
        num_envs,
        cores,
        lambda: make_vec(
            cartpole, num_envs, workers=max(1, cores - 1), caller_share=1, copy=False,
            batch_size=rows,
        ),
        ours=True,
        note=HALVES if halves else "the calling process is one of the workers",
    )  # fmt: skip


def halves_loop(env: Any, batch: Batch) -> Callable[[int], None]:
    """A loop of n steps of all rows by send and recv, half of them at a time."""
    half = env.batch_size
    actions = [each[:half].copy() for each in batch.actions()]
    env.reset(seed=3)
    env.send(batch.actions()[0])

    def run(count: int) -> None:
        send, recv = env.send, env.recv
        for index in range(2 * count):
            recv()
            send(actions[index % len(actions)])

    return run


def gymnasium_vector(kind: str, num_envs: int) -> Batch:
    """Gymnasium's SyncVectorEnv or AsyncVectorEnv."""
    from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

    made = {"Sync": SyncVectorEnv, "Async": AsyncVectorEnv}[kind]
    threads = 1 if kind == "Sync" else num_envs
    impl = f"Gymnasium {kind}VectorEnv"
    return Batch("step", impl, num_envs, threads, lambda: made([cartpole] * num_envs))


class _OfSB3:
    """Stable-Baselines3's vector environment with Gymnasium's calls."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self.close = env.close

    def reset(self, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        self.env.seed(seed)
        return self.env.reset(), {}

    def step(self, actions: Any) -> tuple[Any, ...]:
        obs, rewards, dones, infos = self.env.step(actions)
        cut = np.array([info.get("TimeLimit.truncated", False) for info in infos])
        return obs, rewards, dones & ~cut, cut, infos


def sb3_subproc(num_envs: int) -> Batch:
    """Stable-Baselines3's SubprocVecEnv: a process for each environment."""
    try:
        from stable_baselines3.common.vec_env import SubprocVecEnv
    except ImportError:
        raise NotInstalled("Stable-Baselines3 SubprocVecEnv", "not installed") from None

    return Batch(
        "step",
        "Stable-Baselines3 SubprocVecEnv",
        num_envs,
        num_envs,
        lambda: _OfSB3(SubprocVecEnv([cartpole] * num_envs, start_method="fork")),
        next_step=False,
    )
