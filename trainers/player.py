"""A policy that plays the episodes of a vector environment."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from .actor import Draw
from .codec import Codec
from .policies import Acting
from .policy import seed_key
from .rollout import check_masks


class Player:
    """Acts for all rows of a vector environment, and keeps what is remembered of each, so that
    `ended` must be told of the ends of episodes.

    Attributes:
        policy, weights: PolicySpec or TorchPolicy, and what it plays with.
    """

    def __init__(self, vec: VectorEnv, acting: Acting) -> None:
        self._codec = Codec.of(vec)
        self._actor, self.policy, self.weights = acting
        self._rows = np.arange(vec.num_envs)
        self._state = np.zeros((vec.num_envs, self._actor.state_size), np.float32)

    def act(
        self,
        obs: Any,
        mask: NDArray[Any] | None = None,
        there: NDArray[np.bool_] | None = None,
        *,
        greedy: bool = True,
        seed: int = 0,
        step: int = 0,
    ) -> Any:
        """Actions of all rows, as the batched action space has them.

        Args:
            obs: a batch of the environment's observation space.
            mask: [rows, mask_size], 0 where a choice is not allowed; None: all are.
            there: bool [rows]: whose action counts; None: everybody's. The others remember what
                they did before.
            greedy: the likeliest action; else one drawn by (seed, row, step) alone.

        Raises:
            MaskError: the mask of a row whose action counts allows nothing.
        """
        draw = Draw(seed_key(seed), self._rows, np.full(len(self._rows), step), greedy)
        there = np.ones(len(self._rows), np.bool_) if there is None else there
        if mask is not None:
            mask = mask.view(np.uint8)
            check_masks(self._codec.spec, mask, there, step)
        acted = self._actor.act(self.weights, self._codec.pack(obs), mask, self._state, draw)
        self._state = np.where(there[:, None], acted.state, self._state)
        return self._codec.actions(acted.actions)

    def act_in(self, vec: Any, *, greedy: bool = True, seed: int = 0, step: int = 0) -> Any:
        """The same for a vector environment of ours as it stands; errors likewise."""
        arrays = vec.buffers.arrays
        there = np.array(arrays.get("present", np.ones(vec.num_envs)), np.bool_)
        if vec.metadata["autoreset_mode"].value == "NextStep":  # who is over will be reset
            there &= ~np.repeat(np.array(arrays["pending"], np.bool_), vec.agents)
        mask = arrays.get("mask")
        return self.act(vec.buffers.obs, mask, there, greedy=greedy, seed=seed, step=step)

    def ended(self, rows: NDArray[np.bool_]) -> None:
        """The episodes of these rows have ended, bool [rows]: nothing is remembered of them."""
        self._state = np.where(rows[:, None], np.float32(0.0), self._state)
