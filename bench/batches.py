"""The vector environments that `bench env` compares: headrace's own and its peers'.

All are driven alike: `reset(seed=...)`, then `step(actions)` with ready-made random actions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
ACTION_BATCHES = 64  # different batches of random actions that a run cycles through


class NotInstalled(Exception):
    """A peer that cannot be measured here; the message says why."""

    def __init__(self, impl: str, reason: str) -> None:
        super().__init__(reason)
        self.impl = impl


@dataclass(frozen=True)
class Batch:
    """How to make one vector environment of CartPole and how it behaves."""

    name: str
    impl: str
    num_envs: int
    threads: int
    make: Callable[[], Any]
    next_step: bool = True  # a finished row is reset by the next step, which is then no step
    ours: bool = False
    seedable: bool = True  # whether reset takes a seed
    action_dtype: Any = np.int64
    note: str = ""
    share: float | None = None  # of the rows of a step, transitions; None: to be measured
    rest: float = 0.0  # seconds that it still keeps cores busy after a step

    def actions(self) -> list[Array]:
        """ACTION_BATCHES arrays [num_envs] of random actions, the same for every batch."""
        rng = np.random.default_rng(1)
        return [
            rng.integers(0, 2, self.num_envs).astype(self.action_dtype)
            for _ in range(ACTION_BATCHES)
        ]


def headrace_batch(num_envs: int, threads: int, copy: bool) -> Batch:
    """`headrace.make_vec("cartpole", num_envs)`: serial with 1 thread, else a pool of threads."""
    from ..engine.make import make_vec

    def make() -> Any:
        if threads == 1:
            return make_vec("cartpole", num_envs, executor="serial", copy=copy)
        return make_vec("cartpole", num_envs, executor="threads", threads=threads, copy=copy)

    return Batch(
        f"vecenv{'-copy' if copy else ''}-{num_envs}",
        f"headrace VecEnv (copy={copy})",
        num_envs,
        threads,
        make,
        ours=True,
    )


def gymnasium_numpy(num_envs: int) -> Batch:
    """Gymnasium's NumPy CartPole: one array program for the whole batch."""
    import gymnasium

    def make() -> Any:
        return gymnasium.make_vec("CartPole-v1", num_envs, vectorization_mode="vector_entry_point")

    return Batch(f"vecenv-{num_envs}", "Gymnasium CartPoleVectorEnv", num_envs, 1, make)


def gymnasium_sync(num_envs: int) -> Batch:
    """Gymnasium's loop over single Python environments."""
    import gymnasium

    def make() -> Any:
        return gymnasium.make_vec("CartPole-v1", num_envs, vectorization_mode="sync")

    return Batch(f"vecenv-{num_envs}", "Gymnasium SyncVectorEnv", num_envs, 1, make)


def envpool(num_envs: int, threads: int) -> Batch:
    """EnvPool in its synchronous mode; NotInstalled when it is not there."""
    try:
        import envpool as library
    except ImportError:
        raise NotInstalled("EnvPool", "not installed") from None

    def make() -> Any:
        return library.make(
            "CartPole-v1", env_type="gymnasium", num_envs=num_envs, num_threads=threads
        )

    return Batch(
        f"vecenv-{num_envs}",
        "EnvPool",
        num_envs,
        threads,
        make,
        seedable=False,
        action_dtype=np.int32,
    )


def pufferlib(num_envs: int) -> Batch:
    """PufferLib's CartPole in C; NotInstalled when it is not there."""
    try:
        from pufferlib.ocean.cartpole.cartpole import Cartpole
    except ImportError as error:
        absent = (error.name or "") == "pufferlib"
        reason = "not installed" if absent else "this installation has no C CartPole"
        raise NotInstalled("PufferLib C env", reason) from None

    def make() -> Any:
        return Cartpole(num_envs=num_envs, report_interval=1 << 30)

    return Batch(f"vecenv-{num_envs}", "PufferLib C env", num_envs, 1, make, next_step=False)


def transitions_per_row(env: Any, batch: Batch, steps: int = 500) -> float:
    """Share of the rows of a step that are transitions, the rest being resets; untimed.

    With next-step autoreset each finished episode costs one row in which nothing was stepped.
    """
    if batch.share is not None:
        return batch.share
    if not batch.next_step:
        return 1.0
    actions = batch.actions()
    resets = 0
    ended: Array = np.zeros(batch.num_envs, bool)
    for step in range(steps):
        resets += int(np.count_nonzero(ended))
        _, _, terminated, truncated, _ = env.step(actions[step % ACTION_BATCHES])
        ended = np.logical_or(terminated, truncated)
    return 1.0 - resets / (steps * batch.num_envs)


def stepper(env: Any, batch: Batch) -> Callable[[int], None]:
    """A loop of n steps with ready-made actions."""
    step, actions = env.step, batch.actions()

    def run(count: int) -> None:
        for index in range(count):
            step(actions[index % ACTION_BATCHES])

    return run
