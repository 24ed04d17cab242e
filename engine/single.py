"""SingleEnv: one world of a native environment as a gymnasium.Env."""

from __future__ import annotations

import operator
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import seeding

from .errors import ArgumentError
from .infos import map_arrays
from .make import make_vec
from .vector import VecEnv


class SingleEnv(gymnasium.Env):
    """One world of a native environment; what `gymnasium.make("headrace/...")` gives.

    The world with seed s is world i of a VecEnv that was reset with seed s - i. Infos hold
    `action_mask` (int8) while the episode runs, where the environment has masks, and `metrics`
    (floats by name) at the step that ended it, where it has metrics.

    time_limit: the step at which Gymnasium's TimeLimit cuts the episode, from outside; the
    info of that step holds the metrics too.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 50}  # noqa: RUF012 (Gymnasium's)

    def __init__(
        self, env: Any, *, render_mode: str | None = None, time_limit: int = 0, **kwargs: Any
    ) -> None:
        """Arguments are those of `make_vec` for one world; errors likewise."""
        vec = make_vec(
            env,
            1,
            executor="serial",
            autoreset_mode="Disabled",
            render_mode=render_mode,
            **kwargs,
        )
        if not isinstance(vec, VecEnv):
            vec.close()
            raise ArgumentError(f"env {env!r} is written in Python: make it with gymnasium.make")
        self._vec = vec
        self._time_limit = time_limit if vec.spec_.metric_names else 0
        self._elapsed = vec.buffers.arrays["elapsed"]
        self.observation_space = self._vec.single_observation_space
        self.action_space = self._vec.single_action_space
        self.render_mode = render_mode
        self.metadata = {**self.metadata, "render_modes": self._vec.metadata["render_modes"]}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts a new episode: (observation, info). `seed` starts a new random stream."""
        if options and "reset_mask" in options:
            raise ArgumentError("options has a reset_mask, which only a vector environment takes")
        obs, infos = self._vec.reset(seed=seed, options=options)
        if seed is not None:
            self._np_random, self._np_random_seed = seeding.np_random(operator.index(seed))
        return self._first(obs), self._info(infos)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Takes one action: (observation, reward, terminated, truncated, info)."""
        obs, rewards, terminated, truncated, infos = self._vec.step(self._batched(action))
        info = self._info(infos)
        if self._elapsed[0] == self._time_limit and "metrics" not in info:
            values = self._vec.core.metrics(0).tolist()
            info["metrics"] = dict(zip(self._vec.spec_.metric_names, values, strict=True))
        return self._first(obs), float(rewards[0]), bool(terminated[0]), bool(truncated[0]), info

    def render(self) -> np.ndarray:
        """An RGB frame, uint8 [height, width, 3]; needs render_mode="rgb_array"."""
        return self._vec.render()[0]

    def close(self) -> None:
        """Frees the world; may be called more than once."""
        self._vec.close()

    @property
    def params(self) -> dict[str, Any]:
        """Parameters by name."""
        return self._vec.params

    @property
    def state(self) -> np.ndarray:
        """The bytes of the State, uint8 [sizeof(State)]: a view that can be written."""
        return self._vec.state[0]

    def set_params(self, **values: Any) -> None:
        """Sets parameters by name, from the next step on."""
        self._vec.set_params(**values)

    def _batched(self, action: Any) -> Any:
        if isinstance(action, dict):
            return {name: np.asarray(part)[None] for name, part in action.items()}
        return np.asarray(action)[None]

    @staticmethod
    def _first(obs: Any) -> Any:
        # obs is this call's own (copy=True); a discrete observation is an int, as in Gymnasium
        return map_arrays(lambda array: array[0] if array.ndim > 1 else int(array[0]), obs)

    @staticmethod
    def _info(infos: dict[str, Any]) -> dict[str, Any]:
        info: dict[str, Any] = {}
        if "action_mask" in infos and infos["_action_mask"][0]:
            info["action_mask"] = infos["action_mask"][0]
        if "metrics" in infos:
            info["metrics"] = {
                name: float(values[0])
                for name, values in infos["metrics"].items()
                if not name.startswith("_")
            }
        return info
