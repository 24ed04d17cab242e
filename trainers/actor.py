"""Policies as collectors drive them: observations in, actions and values out."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ._native import Net, Weights
from .policy import OBS_CLIP, PolicySpec
from .tiles import from_tiles, to_tiles

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

    def __init__(self, policy: PolicySpec, *, normalize_obs: bool = False) -> None:
        """normalize_obs: by the running statistics in the weights."""
        self.policy = policy
        self.state_size = policy.state_size
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
        out, after = self._forward(weights, raw, state)
        actions, logp = self.policy.net.sample_rows(weights.params, out, mask, *draw)
        return Acted(actions, logp, np.ascontiguousarray(out[:, -1]), after)

    def value(self, weights: Weights, raw: NDArray[np.uint8], state: Floats) -> Floats:
        """See Actor."""
        return np.ascontiguousarray(self._forward(weights, raw, state)[0][:, -1])

    def _forward(
        self, weights: Weights, raw: NDArray[np.uint8], state: Floats
    ) -> tuple[Floats, Floats]:
        """(outputs and value side by side [k, outputs + 1], state [k, state_size])."""
        net = self.policy.net
        x = net.encode(raw)
        if self._clip > 0:
            net.normalize(x, weights.obs_mean, weights.obs_scale, self._clip)
        if not self.state_size:
            return from_tiles(net.forward(weights.params, x), len(raw)), state
        tiles = to_tiles(state)
        out = from_tiles(net.forward(weights.params, x, tiles), len(raw))
        return out, from_tiles(tiles, len(raw))
