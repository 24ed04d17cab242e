"""One world in a worker: a Gymnasium environment, or a parallel one of PettingZoo."""

from __future__ import annotations

from typing import Any, Protocol

import gymnasium
from gymnasium import spaces

from ..errors import ArgumentError, ArgumentTypeError, kind_of
from .description import Description
from .fitting import flag, number
from .frames import frame_skip
from .leaves import reader, writer
from .memory import Memory
from .signatures import call_reset, five_of

Infos = dict[int, dict[str, Any]]  # by row


class World(Protocol):
    """What a Share steps. Rows are numbered in the batch."""

    env: Any
    agents: int
    description: Description
    rows: Any  # index of its rows: a number or a slice
    row_numbers: range

    def attach(self, memory: Memory, observation: spaces.Space, number: int) -> None:
        """Gives it its rows of the batch's memory; `number` is the world's in the batch."""

    def reset(self, seed: int | None, options: Any) -> Infos:
        """Starts an episode: writes the observations, returns the infos."""

    def last_observation(self, row: int) -> Any:
        """What the environment last gave as the row's observation, as it gave it."""

    def read_observation(self, row: int) -> Any:
        """The row's observation in memory."""

    def get(self, name: str) -> Any:
        """An attribute, of the environment or of what it wraps."""

    def set(self, name: str, value: Any) -> None:
        """Sets an attribute likewise."""


def as_world(env: Any) -> World:
    """Wraps what a user's function made.

    Raises:
        ArgumentTypeError: it is neither a Gymnasium nor a parallel PettingZoo environment.
    """
    if isinstance(env, gymnasium.Env):
        return GymnasiumWorld(env)
    if hasattr(env, "possible_agents") and hasattr(env, "step"):
        if hasattr(env, "agent_iter"):
            raise ArgumentTypeError(
                f"the environment {type(env).__name__} steps one agent after the other: turn it "
                "into a parallel one with pettingzoo.utils.conversions.aec_to_parallel"
            )
        return ParallelWorld(env)
    raise ArgumentTypeError(
        f"the function of an environment returned {kind_of(env)}: expected a "
        "gymnasium.Env or a parallel environment of PettingZoo"
    )


class GymnasiumWorld:
    """A gymnasium.Env: one row, which a RowStepper steps."""

    agents = 1

    def __init__(self, env: gymnasium.Env) -> None:
        self.env = env
        self.description = Description(
            env.observation_space,
            env.action_space,
            1,
            False,
            dict(env.metadata),
            env.render_mode,
            frame_skip(env),
        )
        self._last: Any = None

    def attach(self, memory: Memory, observation: spaces.Space, number: int) -> None:
        self.rows = number
        self.row_numbers = range(number, number + 1)
        self._write = writer(observation, memory.obs)
        self._read_obs = reader(observation, memory.obs)

    def reset(self, seed: int | None, options: Any) -> Infos:
        obs, info = call_reset(self.env, seed, options)
        self._write(self.rows, obs)
        return {self.rows: info} if info else {}

    def keep(self, obs: Any) -> None:
        """What `last_observation` is to give."""
        self._last = obs

    def last_observation(self, row: int) -> Any:  # noqa: ARG002 (it has one)
        return self._last

    def read_observation(self, row: int) -> Any:
        return self._read_obs(row)

    def get(self, name: str) -> Any:
        return self.env.get_wrapper_attr(name)

    def set(self, name: str, value: Any) -> None:
        self.env.set_wrapper_attr(name, value)


class ParallelWorld:
    """A parallel environment of PettingZoo: a row for each of its possible agents.

    An agent that is not there has observation, reward and flags of zero. The episode of the
    world is over when no agent is left.
    """

    def __init__(self, env: Any) -> None:
        self.env = env
        self._names = list(env.possible_agents)
        self.agents = len(self._names)
        if not self._names:
            raise ArgumentError(f"the environment {type(env).__name__} has no possible_agents")
        observations = [env.observation_space(agent) for agent in self._names]
        actions = [env.action_space(agent) for agent in self._names]
        for what, found in (("observation", observations), ("action", actions)):
            for name, space in zip(self._names, found, strict=True):
                if space != found[0]:
                    raise ArgumentError(
                        f"agent {name!r} has the {what} space {space}, agent "
                        f"{self._names[0]!r} has {found[0]}: rows of a batch share one space (see "
                        "the wrappers of SuperSuit that pad them)"
                    )
        self.description = Description(
            observations[0],
            actions[0],
            self.agents,
            True,
            dict(getattr(env, "metadata", {})),
            getattr(env, "render_mode", None),
        )

    def attach(self, memory: Memory, observation: spaces.Space, number: int) -> None:
        first = number * self.agents
        self.row_numbers = range(first, first + self.agents)
        self.rows = slice(first, first + self.agents)
        self._row_of = dict(zip(self._names, self.row_numbers, strict=True))
        self._memory = memory.obs
        self._write = writer(observation, memory.obs)
        self._read = reader(self.description.action_space, memory.actions)
        self._read_obs = reader(observation, memory.obs)
        arrays = memory.arrays
        self._rewards, self._present = arrays["rewards"], arrays["present"]
        self._terminated, self._truncated = arrays["terminated"], arrays["truncated"]
        self._last: dict[int, Any] = {}

    def reset(self, seed: int | None, options: Any) -> Infos:
        obs, infos = call_reset(self.env, seed, options)
        self._show(obs)
        return self._by_row(infos)

    def step(self) -> tuple[bool, Infos]:
        """Takes the actions from memory and writes what comes of them; whether the episode is
        over, and the infos."""
        read, row_of = self._read, self._row_of
        actions = {agent: read(row_of[agent]) for agent in self.env.agents}
        given = self.env.step(actions)
        if type(given) is not tuple or len(given) != 5:
            given = five_of(self.env.step, given)
        obs, rewards, terminated, truncated, infos = given
        self._rewards[self.rows] = 0.0
        self._terminated[self.rows] = False
        self._truncated[self.rows] = False
        for agent in actions:
            row = row_of[agent]
            self._rewards[row] = number(rewards.get(agent, 0.0), f"the reward of agent {agent!r}")
            for told, of, name in (
                (self._terminated, terminated, "terminated"),
                (self._truncated, truncated, "truncated"),
            ):
                told[row] = flag(of.get(agent, False), f"{name} of agent {agent!r}")
        self._show(obs)
        return not self.env.agents, self._by_row(infos)

    def _show(self, obs: dict[str, Any]) -> None:
        self._last = {}
        for agent, row in self._row_of.items():
            if agent in obs:
                self._write(row, obs[agent])
                self._last[row] = obs[agent]
            else:
                for array in self._memory:
                    array[row] = 0
        self._present[self.rows] = [agent in self.env.agents for agent in self._names]

    def _by_row(self, infos: dict[str, dict[str, Any]]) -> Infos:
        return {self._row_of[agent]: info for agent, info in infos.items() if agent in self._row_of}

    def last_observation(self, row: int) -> Any:
        return self._last.get(row)

    def read_observation(self, row: int) -> Any:
        return self._read_obs(row)

    def get(self, name: str) -> Any:
        return getattr(self.env, name)

    def set(self, name: str, value: Any) -> None:
        setattr(self.env, name, value)
