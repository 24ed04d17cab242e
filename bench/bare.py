"""Python environments stepped in bare loops, in processes of their own: what they allow."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from .batches import ACTION_BATCHES


class BareLoops:
    """`processes` processes, each of which steps its share of the environments in a loop.

    Nothing is given to them and nothing comes back but that they are done.
    """

    def __init__(self, make: Callable[[], Any], num_envs: int, processes: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._ends: list[Connection] = []
        self._processes = []
        for share in np.array_split(np.arange(num_envs), processes):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, make, share), daemon=True)
            process.start()
            theirs.close()
            self._ends.append(ours)
            self._processes.append(process)
        self._await()  # until the environments are made

    def run(self, count: int) -> None:
        """`count` steps of every environment."""
        for end in self._ends:
            end.send(count)
        self._await()

    def close(self) -> None:
        """Ends the processes."""
        for end in self._ends:
            end.send(0)
            end.close()
        for process in self._processes:
            process.join()

    def _await(self) -> None:
        for end in self._ends:
            end.recv()


def _serve(end: Connection, make: Callable[[], Any], worlds: Sequence[int]) -> None:
    envs = [make() for _ in worlds]
    for world, env in zip(worlds, envs, strict=True):
        env.reset(seed=int(world))
    rng = np.random.default_rng(1)
    # scalars of NumPy, as vector environments hand them out
    actions = [list(rng.integers(0, 2, len(envs))) for _ in range(ACTION_BATCHES)]
    end.send(True)
    while count := end.recv():
        loop(envs, actions, count)
        end.send(True)


def loop(envs: Sequence[Any], actions: Sequence[Sequence[Any]], count: int) -> int:
    """Steps every environment `count` times and resets those whose episode ends; how many."""
    resets = 0
    for step in range(count):
        for env, action in zip(envs, actions[step % len(actions)], strict=True):
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
                resets += 1
    return resets
