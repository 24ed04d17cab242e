"""A batch as Stable-Baselines3 has it: `stable_baselines3.common.vec_env.VecEnv`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from stable_baselines3.common.vec_env import VecEnv as _VecEnv

from .endings import EpisodeCounter, require_same_step, row_of


class SB3VecEnv(_VecEnv):
    """`vec`, stepped by Stable-Baselines3.

    The infos of a row whose episode ended hold `terminal_observation`, `TimeLimit.truncated`,
    and `episode` (return "r", length "l", seconds since the start "t"), from which its logger
    takes `rollout/ep_rew_mean`: no VecMonitor is needed. Closing it closes `vec`.
    """

    def __init__(self, vec: VectorEnv) -> None:
        """vec: made with autoreset_mode="SameStep"."""
        require_same_step(vec, "Stable-Baselines3")
        self.vec = vec
        self._episodes = EpisodeCounter(vec.num_envs)
        self._start = time.monotonic()
        self._actions: Any = None
        super().__init__(vec.num_envs, vec.single_observation_space, vec.single_action_space)

    def reset(self) -> Any:
        """Observations of new episodes; seeds and options are those set before."""
        seeds = None if all(seed is None for seed in self._seeds) else list(self._seeds)
        world_seeds = None if seeds is None else seeds[:: getattr(self.vec, "agents", 1)]
        obs, infos = self.vec.reset(seed=world_seeds)  # type: ignore[arg-type]
        self.reset_infos = self._row_infos(infos)
        self._episodes.clear()
        self._reset_seeds()
        self._reset_options()
        return obs

    def step_async(self, actions: np.ndarray) -> None:
        """Keeps the actions for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> Any:
        """Observations, rewards float32 [n], dones bool [n], a list of n infos."""
        obs, rewards, terminated, truncated, infos = self.vec.step(self._actions)
        dones = terminated | truncated
        told = self._row_infos(infos)
        for row, total, length in self._episodes.add(rewards, dones):
            seconds = round(time.monotonic() - self._start, 6)
            told[row]["episode"] = {"r": total, "l": length, "t": seconds}
            told[row]["TimeLimit.truncated"] = bool(truncated[row] and not terminated[row])
            told[row]["terminal_observation"] = row_of(infos["final_obs"], row)
        return obs, rewards.astype(np.float32), dones, told

    def _row_infos(self, infos: dict[str, Any]) -> list[dict[str, Any]]:
        told: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for key, values in infos.items():
            if key.startswith(("_", "final_")) or isinstance(values, dict):
                continue
            mask = infos.get(f"_{key}")
            rows: Iterable[int] = range(self.num_envs) if mask is None else np.flatnonzero(mask)
            for row in rows:
                told[row][key] = values[row]
        return told

    def close(self) -> None:
        """Closes the batch."""
        self.vec.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """The attribute of the rows `indices`."""
        if attr_name == "render_mode":
            return [self.vec.render_mode] * len(self._rows(indices))
        values = self.vec.get_attr(attr_name)  # type: ignore[attr-defined]
        agents = self.num_envs // len(values)
        return [values[row // agents] for row in self._rows(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Sets the attribute of all rows."""
        if indices is not None and len(self._rows(indices)) != self.num_envs:
            raise NotImplementedError("attributes are set for all environments at once")
        self.vec.set_attr(attr_name, value)  # type: ignore[attr-defined]

    def env_method(
        self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any
    ) -> list[Any]:
        """What the method returns for the rows `indices`."""
        values = self.vec.call(  # type: ignore[attr-defined]
            method_name, *method_args, **method_kwargs
        )
        agents = self.num_envs // len(values)
        return [values[row // agents] for row in self._rows(indices)]

    def env_is_wrapped(
        self,
        wrapper_class: Any,  # noqa: ARG002 (as Stable-Baselines3 calls it)
        indices: Any = None,
    ) -> list[bool]:
        """False: wrappers are not told of here; episodes are counted without a Monitor."""
        return [False] * len(self._rows(indices))

    def get_images(self) -> Sequence[np.ndarray | None]:
        """A frame of each environment."""
        frames: Any = self.vec.render()
        return frames or ()

    def _rows(self, indices: Any) -> list[int]:
        if indices is None:
            return list(range(self.num_envs))
        return [indices] if isinstance(indices, int) else list(indices)
