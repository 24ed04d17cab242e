"""The native side of `bench kernels`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..engine import _core
from ..trainers import _native
from ..trainers.tiles import from_tiles, to_tiles
from .kernel_data import (
    BETAS,
    CLIP,
    ENTROPY_COEF,
    EPS,
    GAMMA,
    LAMBDA,
    LR,
    TILE,
    VALUE_COEF,
    Floats,
    Minibatch,
    Trajectories,
)

IMPL = "headrace native"


class NativeKernels:
    """What the trainer runs for a minibatch, each part by itself."""

    def __init__(self, data: Minibatch, threads: int) -> None:
        pool = _core.Pool(threads) if threads > 1 else None
        workers = _native.Workers(_core.pool_api, pool and pool.capsule)
        self._pool, self._data, policy = pool, data, data.policy
        self._x = to_tiles(data.obs)
        self._params = policy.weights(data.params).params
        self._rollout = _rollout(data)
        self._learner = _native.Learner(
            policy.net,
            workers,
            data.params,
            key=1,
            epochs=1,
            minibatches=1,
            normalize_advantage=False,
            clip=CLIP,
            value_clip=0.0,
            value_coef=VALUE_COEF,
            max_grad_norm=0.0,
            betas=BETAS,
            eps=EPS,
        )

    def close(self) -> None:
        """Ends the threads."""
        if self._pool is not None:
            self._pool.close()

    def forward(self) -> Floats:
        """Outputs [rows, outputs], in one thread."""
        return from_tiles(self._data.policy.net.forward(self._params, self._x), self._data.batch)

    def learn(self) -> Floats:
        """Gradient of the loss, flat as the parameters are."""
        gradient: Floats = self._learner.gradient(self._rollout, ENTROPY_COEF)[0]
        return gradient

    def forwards(self, count: int) -> None:
        """`forward` count times, its result left in tiles."""
        net, params, x = self._data.policy.net, self._params, self._x
        for _ in range(count):
            net.forward(params, x)

    def learns(self, count: int) -> None:
        """`learn` count times."""
        for _ in range(count):
            self._learner.gradient(self._rollout, ENTROPY_COEF)


def _rollout(data: Minibatch) -> Any:
    """The minibatch as the trainer holds it."""
    rollout = _native.Rollout(data.policy.net, horizon=1, worlds=data.batch, agents=1)
    rollout.obs[:] = to_tiles(data.obs)
    rollout.actions[:] = data.actions.reshape(-1, 1, TILE)
    for name, column in data.columns.items():
        getattr(rollout, name)[:] = column.reshape(-1, TILE)
    rollout.valid[:] = 1.0
    rollout.count_rows()
    return rollout


class NativeAdam:
    """Adam over flat parameters."""

    def __init__(self, data: Minibatch, gradient: Floats) -> None:
        self._arrays = [_native.aligned(len(gradient), np.float32) for _ in range(4)]
        self._arrays[0][:], self._arrays[1][:] = data.params, gradient
        self._taken = 0

    def step(self) -> Floats:
        """The parameters after one more step."""
        self.steps(1)
        return self._arrays[0].copy()

    def steps(self, count: int) -> None:
        """`step` count times."""
        for _ in range(count):
            self._taken += 1
            _native.adam(*self._arrays, self._taken, LR, BETAS, EPS)


def advantages(data: Trajectories, vtrace: bool) -> Callable[[], tuple[Floats, Floats]]:
    """A function that gives advantages and value targets [steps, rows]."""

    def aligned(array: Floats) -> Floats:
        block: Floats = _native.aligned(array.shape, np.float32)
        block[:] = array
        return block

    named = {name: aligned(column) for name, column in data.columns.items()}
    valid, last = aligned(np.ones_like(named["reward"])), aligned(data.last)
    order = ("reward", "value", "done", "bootstrap")
    columns = [*(named[name] for name in order), valid, last]
    ratios = {name: named[name] for name in ("logp", "current")} if vtrace else {}

    def run() -> tuple[Floats, Floats]:
        found: tuple[Floats, Floats] = _native.gae(*columns, GAMMA, LAMBDA, **ratios)
        return found

    return run
