"""A batch as PufferLib has it: a `pufferlib.PufferEnv` of many agents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pufferlib
from gymnasium import spaces
from gymnasium.vector import VectorEnv

from ..errors import ArgumentError
from .endings import EpisodeCounter, require_same_step


class HeadracePufferEnv(pufferlib.PufferEnv):
    """`vec`, stepped by PufferLib: each row is one of its agents.

    `step` returns a list of one dict with the means over the episodes that ended
    ("episode_return", "episode_length"), and an empty one where none did. Closing it closes
    `vec`.
    """

    def __init__(self, vec: VectorEnv, buf: Any = None) -> None:
        """vec: made with autoreset_mode="SameStep", and best with copy=False."""
        require_same_step(vec, "PufferLib")
        if not isinstance(vec.single_observation_space, spaces.Box):
            raise ArgumentError(
                f"vec observes {vec.single_observation_space}: PufferLib takes a Box, flatten it "
                "with a wrapper first"
            )
        self.vec = vec
        self.single_observation_space = vec.single_observation_space
        self.single_action_space = vec.single_action_space
        self.num_agents = vec.num_envs
        self._episodes = EpisodeCounter(vec.num_envs)
        super().__init__(buf)

    def reset(self, seed: int | None = 0) -> Any:
        """(observations, infos) of new episodes; observations are PufferLib's array."""
        self.observations[:], _ = self.vec.reset(seed=seed)
        self._episodes.clear()
        return self.observations, []

    def step(self, actions: Any) -> Any:
        """(observations, rewards, terminals, truncations, infos) in PufferLib's arrays."""
        self.actions[:] = actions
        shaped = self.actions.reshape(self.vec.action_space.shape)
        obs, rewards, terminated, truncated, _ = self.vec.step(shaped)
        self.observations[:] = obs
        self.rewards[:] = rewards
        self.terminals[:] = terminated
        self.truncations[:] = truncated
        told = self._episodes.add(rewards, terminated | truncated)
        infos = []
        if told:
            _, returns, lengths = zip(*told, strict=True)
            means = {"episode_return": np.mean(returns), "episode_length": np.mean(lengths)}
            infos = [{name: float(mean) for name, mean in means.items()}]
        return self.observations, self.rewards, self.terminals, self.truncations, infos

    def close(self) -> None:
        """Closes the batch."""
        self.vec.close()
