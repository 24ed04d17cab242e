"""Policies as collectors drive them: observations in, actions and values out."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ._native import TILE, Net, Weights
from .policy import OBS_CLIP, PolicySpec, from_tiles, mask_tiles

Floats = NDArray[np.float32]


class Acted(NamedTuple):
    """What a policy did for k rows."""

    actions: NDArray[np.int32]  # [k, heads], floats by their bits, as sampled (not clipped)
    logp: Floats  # [k]
    value: Floats  # [k]
    state: Floats  # [k, state_size], for the rows' next step


class Draw(NamedTuple):
    """Which random numbers k rows get: those of (seed, row, step), whoever asks and when."""

    key: int  # seed_key of the seed
    rows: NDArray[np.int64]  # [k]
    steps: NDArray[np.int64]  # [k], of each row since the run began
    greedy: bool = False  # the likeliest action, no randomness


class Actor(Protocol):
    """A policy that acts. Weights are what its learner publishes."""

    state_size: int  # floats of recurrent state per row; 0: none
    rollout_net: Net  # shapes of the rollouts that it fills

    def act(
        self, weights: Any, raw: NDArray[np.uint8], mask: Any, state: Floats, draw: Draw
    ) -> Acted:
        """Actions for Obs structs raw [k, size] with masks [k, mask_size] or None."""
        ...

    def value(self, weights: Any, raw: NDArray[np.uint8], state: Floats) -> Floats:
        """V of k observations."""
        ...


class NativeActor:
    """A native policy that acts for any rows at any step, through its C kernels.

    For the same seed, row and step it does what fused collection does, bit for bit.
    """

    state_size = 0

    def __init__(self, policy: PolicySpec, *, normalize_obs: bool = False) -> None:
        """normalize_obs: by the running statistics in the weights."""
        self.policy = policy
        self.rollout_net = policy.net
        self._clip = OBS_CLIP if normalize_obs else 0.0

    def act(
        self,
        weights: Weights,
        raw: NDArray[np.uint8],
        mask: NDArray[np.uint8] | None,
        state: Floats,
        draw: Draw,
    ) -> Acted:
        """See Actor."""
        out = self._forward(weights, raw)
        actions, logp = sample(self.policy.net, weights.params, out, mask, draw)
        return Acted(actions, logp, self._values(out, len(raw)), state)

    def value(self, weights: Weights, raw: NDArray[np.uint8], state: Floats) -> Floats:  # noqa: ARG002
        """See Actor."""
        return self._values(self._forward(weights, raw), len(raw))

    def _forward(self, weights: Weights, raw: NDArray[np.uint8]) -> Floats:
        net = self.policy.net
        x = net.encode(raw)
        if self._clip > 0:
            net.normalize(x, weights.obs_mean, weights.obs_scale, self._clip)
        out: Floats = net.forward(weights.params, x)
        return out

    def _values(self, out: Floats, rows: int) -> Floats:
        return np.ascontiguousarray(out[:, -1]).reshape(-1)[:rows]


def sample(
    net: Net, params: Floats, out: Floats, mask: NDArray[np.uint8] | None, draw: Draw
) -> tuple[NDArray[np.int32], Floats]:
    """Actions int32 [k, heads] and their log-probabilities [k] from outputs in tiles."""
    rows, lanes = len(draw.rows), len(out) * TILE
    numbers, steps = np.zeros(lanes, np.uint32), np.zeros(lanes, np.uint64)
    numbers[:rows], steps[:rows] = draw.rows, draw.steps
    tiles = None if mask is None else mask_tiles(mask, mask.shape[1])
    actions, logp = net.sample(params, out, tiles, draw.key, steps, draw.greedy, numbers)
    return from_tiles(actions, rows), logp.reshape(-1)[:rows]
