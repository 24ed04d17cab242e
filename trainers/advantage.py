"""Generalised advantage estimation (Schulman et al. 2016) over arrays [steps, rows]."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _native


def gae(
    reward: ArrayLike,
    value: ArrayLike,
    done: ArrayLike,
    last_value: ArrayLike,
    *,
    gamma: float,
    gae_lambda: float,
    bootstrap: ArrayLike | None = None,
    valid: ArrayLike | None = None,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Advantages and value targets, both float32 [steps, rows].

    Args:
        reward: of each step, [steps, rows]; likewise:
        value: V(observation) that the step started from.
        done: not 0 where the step ended an episode.
        last_value: V(observation) after the last step, [rows].
        gamma, gae_lambda: discount, and decay of the estimator.
        bootstrap: V(final observation) where an episode was cut, 0 where it ended by itself;
            read only where `done` is set. Default 0.
        valid: 0 for rows that were no transition: they get 0, and are stepped over. Default 1.
    """
    reward = np.asarray(reward, np.float32)
    steps, rows = reward.shape
    width = -(-rows // _native.TILE) * _native.TILE

    def padded(array: ArrayLike, shape: tuple[int, ...], name: str) -> NDArray[np.float32]:
        given = np.asarray(array, np.float32)
        if given.shape != shape:
            raise ValueError(f"{name} has shape {given.shape}: expected {shape}")
        block: NDArray[np.float32] = _native.aligned((*shape[:-1], width), np.float32)
        block[..., :rows] = given
        return block

    shape = (steps, rows)
    advantage, target = _native.gae(
        padded(reward, shape, "reward"),
        padded(value, shape, "value"),
        padded(done, shape, "done"),
        padded(np.zeros(shape) if bootstrap is None else bootstrap, shape, "bootstrap"),
        padded(np.ones(shape) if valid is None else valid, shape, "valid"),
        padded(last_value, (rows,), "last_value"),
        gamma,
        gae_lambda,
    )
    return advantage[:, :rows], target[:, :rows]
