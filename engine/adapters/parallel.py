"""One world of a native environment as PettingZoo has it: a parallel environment."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from ..errors import ArgumentError
from ..make import make_vec
from ..resolve import resolve
from ..vector import VecEnv
from .endings import row_of


class HeadraceParallelEnv(ParallelEnv):
    """All agents of one world: "agent_0", "agent_1", ...

    An agent leaves `agents` when its episode ends. One that is not there, or whose turn it is
    not, stays: its action is ignored, and `infos[agent]["present"]` is False.
    """

    metadata = {"name": "headrace", "render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, env: Any, *, render_mode: str | None = None, **params: Any) -> None:
        """env, params: as `make_vec` takes them, for a native environment."""
        sizes = {name: value for name, value in params.items() if name.isupper()}
        agents = resolve(env, defines=sizes).spec.agents
        vec = make_vec(
            env,
            agents,
            executor="serial",
            autoreset_mode="Disabled",
            render_mode=render_mode,
            **params,
        )
        if not isinstance(vec, VecEnv):
            raise ArgumentError(f"env {env!r} is written in Python: it needs no adapter")
        self._vec = vec
        self.render_mode = render_mode
        self.possible_agents = [f"agent_{k}" for k in range(agents)]
        self.agents: list[str] = []
        self.observation_spaces = dict.fromkeys(self.possible_agents, vec.single_observation_space)
        self.action_spaces = dict.fromkeys(self.possible_agents, vec.single_action_space)
        self._ended = np.zeros(agents, np.bool_)

    def observation_space(self, agent: str) -> spaces.Space:
        """The agent's observation space."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space:
        """The agent's action space."""
        return self.action_spaces[agent]

    def reset(
        self,
        seed: int | None = None,
        options: dict[str, Any] | None = None,  # noqa: ARG002 (as PettingZoo calls it)
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """(observations, infos) by name. Native environments know no options."""
        obs, infos = self._vec.reset(seed=seed)
        self._ended[:] = False
        self.agents = list(self.possible_agents)
        return self._named(obs, self.agents), self._infos(infos, self.agents)

    def step(self, actions: dict[str, Any]) -> tuple[dict[str, Any], ...]:
        """(observations, rewards, terminations, truncations, infos) of the agents that acted,
        by name."""
        acting = self.agents
        batch = np.zeros(self._vec.action_space.shape, self._vec.action_space.dtype)
        for agent, action in actions.items():
            batch[self.possible_agents.index(agent)] = action
        obs, rewards, terminated, truncated, infos = self._vec.step(batch)
        self._ended |= terminated | truncated
        over = self._ended | bool(self._vec.buffers.arrays["world_over"][0])
        self.agents = [
            agent for agent, ended in zip(self.possible_agents, over, strict=True) if not ended
        ]
        told = [
            {agent: kind(array[self.possible_agents.index(agent)]) for agent in acting}
            for array, kind in ((rewards, float), (terminated, bool), (truncated, bool))
        ]
        return self._named(obs, acting), *told, self._infos(infos, acting)

    def render(self) -> np.ndarray:
        """An RGB frame, uint8 [height, width, 3]."""
        return self._vec.render()[0]

    def close(self) -> None:
        """Frees the world."""
        self._vec.close()

    def _named(self, obs: Any, agents: list[str]) -> dict[str, Any]:
        return {agent: row_of(obs, self.possible_agents.index(agent)) for agent in agents}

    def _infos(self, infos: dict[str, Any], agents: list[str]) -> dict[str, Any]:
        told: dict[str, Any] = {agent: {} for agent in agents}
        for agent in agents:
            row = self.possible_agents.index(agent)
            if "action_mask" in infos:
                told[agent]["action_mask"] = infos["action_mask"][row]
            if "present" in infos:
                told[agent]["present"] = bool(infos["present"][row])
        return told
