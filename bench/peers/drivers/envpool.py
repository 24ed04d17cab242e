"""EnvPool: synchronous and asynchronous stepping."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ...batches import ACTION_BATCHES, envpool, stepper, transitions_per_row
from .protocol import RECORDED_ENVS, STEP, Case, Running, serve


def cases(cores: int) -> list[Case]:
    """Several settings of each mode, on `cores` threads and on one."""
    sizes = ((16 * cores, cores), (256, cores), (4096, cores), (1024, 1), (4096, 1))
    groups = ((64, 32), (4096, 2048))
    return [_sync(*size) for size in sizes] + [_async(*group, cores) for group in groups]


def _sync(num_envs: int, threads: int) -> Case:
    def make() -> Running:
        batch = envpool(num_envs, threads)
        env = batch.make()
        env.reset()
        share = transitions_per_row(env, batch)
        return Running(share * num_envs, stepper(env, batch), close=env.close)

    setting = f"{num_envs} environments, {threads} threads, synchronous"
    return Case(f"sync-{num_envs}-{threads}", STEP, "EnvPool", setting, threads, make)


def _async(num_envs: int, group: int, threads: int) -> Case:
    def make() -> Running:
        import envpool as library

        env: Any = library.make(
            "CartPole-v1",
            env_type="gymnasium",
            num_envs=num_envs,
            num_threads=threads,
            batch_size=group,
        )
        env.async_reset()
        rng = np.random.default_rng(1)
        actions = [rng.integers(0, 2, group).astype(np.int32) for _ in range(ACTION_BATCHES)]

        def run(count: int) -> None:
            for index in range(count):
                *_, info = env.recv()
                env.send(actions[index % ACTION_BATCHES], info["env_id"])

        return Running(_share(num_envs, threads) * group, run, close=env.close)

    setting = f"{num_envs} environments, {group} at a time, {threads} threads, asynchronous"
    return Case(f"async-{num_envs}-{group}", STEP, "EnvPool", setting, threads, make)


def _share(num_envs: int, threads: int) -> float:
    """Transitions per row, the rest being resets: the same in both modes."""
    batch = envpool(num_envs, threads)
    env = batch.make()
    env.reset()
    share = transitions_per_row(env, batch)
    env.close()
    return share


if __name__ == "__main__":
    serve(("envpool", "gymnasium", "numpy"), envpool(RECORDED_ENVS, 1), cases(int(sys.argv[1])))
