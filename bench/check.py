"""Correctness before speed: every CartPole is compared with Gymnasium's before it is timed."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv

from ..engine.errors import HeadraceError
from .batches import Array, Batch

TOLERANCE = 1e-4  # of an observation; several peers keep their state in float32
X_LIMIT, THETA_LIMIT = 2.4, 12 * 2 * np.pi / 360


class CheckFailed(HeadraceError):
    """An environment that does not do what Gymnasium's CartPole does."""


def check_cartpole(env: Any, batch: Batch, steps: int = 40) -> None:
    """Asks Gymnasium's dynamics about each transition of `env`; CheckFailed where they differ.

    Rows that a reset starts anew are left out. Ends every episode within `steps` for some rows
    (random actions fall after about 20 steps), so that terminations are compared too.
    """
    oracle = CartPoleVectorEnv(num_envs=batch.num_envs)
    oracle.reset(seed=0)
    start = env.reset(seed=3) if batch.seedable else env.reset()
    before: Array = np.array(start[0], np.float64).reshape(batch.num_envs, 4)
    actions = batch.actions()
    ended: Array = np.zeros(batch.num_envs, bool)
    for step in range(steps):
        acted = actions[step]
        obs, _, terminated, truncated, _ = env.step(acted)
        after: Array = np.array(obs, np.float64).reshape(batch.num_envs, 4)
        over = np.logical_or(terminated, truncated)
        stepped = ~ended if batch.next_step else np.ones(batch.num_envs, bool)
        expected, fell = _ask(oracle, before, acted)
        _compare_ends(batch, expected, fell, np.asarray(terminated, bool), stepped)
        _compare_observations(batch, expected, after, stepped if batch.next_step else ~over)
        before, ended = after, over if batch.next_step else np.zeros_like(over)


def _ask(oracle: CartPoleVectorEnv, states: Array, actions: Array) -> tuple[Array, Array]:
    """(next observations [n, 4], terminated [n]) by Gymnasium for one step from these states."""
    oracle.state = states.T.copy()
    oracle.steps[:] = 0
    oracle.prev_done[:] = False
    obs, _, terminated, _, _ = oracle.step(actions.astype(np.int64))
    return np.asarray(obs, np.float64), np.asarray(terminated, bool)


def _compare_observations(batch: Batch, expected: Array, got: Array, rows: Array) -> None:
    error = np.abs(expected - got) / np.maximum(1.0, np.abs(expected))
    worst = float(error[rows].max(initial=0.0))
    if not worst <= TOLERANCE:
        raise CheckFailed(f"{batch.impl}: an observation is {worst:.2g} off Gymnasium's CartPole")


def _compare_ends(batch: Batch, expected: Array, fell: Array, got: Array, rows: Array) -> None:
    near = np.minimum(
        np.abs(np.abs(expected[:, 0]) - X_LIMIT), np.abs(np.abs(expected[:, 2]) - THETA_LIMIT)
    )
    wrong = int(np.count_nonzero((fell != got) & rows & (near > TOLERANCE)))
    if wrong:
        raise CheckFailed(f"{batch.impl}: terminated differs from Gymnasium's in {wrong} rows")
