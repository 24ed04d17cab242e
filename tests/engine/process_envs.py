"""Environments for the tests of worker processes: plain Python, each with one way to behave."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

STRUCTURED = spaces.Dict(
    {
        "where": spaces.Tuple((spaces.Discrete(7, start=-3), spaces.MultiDiscrete([3, 4]))),
        "lamp": spaces.MultiBinary(5),
        "picture": spaces.Box(0, 255, (4, 3), np.uint8),
        "speed": spaces.Box(-1.0, 1.0, (), np.float64),
    }
)


class Counter(gymnasium.Env):
    """Counts its steps; ends after `length` of them, by truncation when `length` is odd."""

    def __init__(self, length: int = 3, infos: bool = False) -> None:
        self.observation_space = spaces.Box(-1.0, 1e6, (2,), np.float32)
        self.action_space = spaces.Discrete(4)
        self.length, self.infos = length, infos
        self.count = self.episode = 0

    def observe(self) -> np.ndarray:
        return np.array([self.count, self.episode], np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.count, self.episode = 0, self.episode + 1
        return self.observe(), {"options": options} if self.infos else {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.count += 1
        over = self.count >= self.length
        info = {"double": 2 * int(action), "at": {"count": self.count}} if self.infos else {}
        odd = bool(self.length % 2)
        return self.observe(), float(action), over and not odd, over and odd, info


class Faulty(Counter):
    """Does something bad at its `at`-th step, when it is world `world` of those told apart by
    their seed: "raise", "interrupt", "exit", "kill", "hang"; or never, "never"."""

    def __init__(self, what: str, seed: int = 1, at: int = 2) -> None:
        super().__init__(length=100)
        self.what, self.bad_seed, self.at = what, seed, at

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if self.np_random_seed == self.bad_seed and self.count + 1 == self.at:
            do_bad(self.what)
        return super().step(action)


class FaultyReset(Counter):
    """Does something bad in `reset` with the seed 1."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        if seed == 1:
            do_bad(self.what)
        return super().reset(seed=seed, options=options)


def do_bad(what: str) -> None:
    """Provokes a fault."""
    if what == "raise":
        raise ZeroDivisionError("the pole broke")
    if what == "interrupt":
        raise KeyboardInterrupt
    if what == "exit":
        os._exit(7)
    if what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "hang":
        time.sleep(1000)


class Structured(gymnasium.Env):
    """Observes and is told values of every kind of space; the observation follows the action."""

    def __init__(self) -> None:
        self.observation_space = self.action_space = STRUCTURED

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert action in self.action_space
        return action, 0.0, False, False, {}


class Napper(gymnasium.Env):
    """Sleeps for as many seconds as its action says."""

    observation_space = spaces.Box(0.0, 1e9, (), np.float64)
    action_space = spaces.Box(0.0, 10.0, (), np.float64)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.float64(0.0), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        time.sleep(float(action))
        return np.float64(action), float(action), False, False, {}


class Chatty(Counter):
    """Tells more than fits into shared memory, in every step."""

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, _ = super().step(action)
        return obs, reward, terminated, truncated, {"noise": np.full(300_000, int(action))}


class Duel:
    """A parallel environment: two agents count down from 3 and 5; the first leaves earlier."""

    metadata = {"name": "duel"}  # noqa: RUF012
    render_mode = None
    possible_agents = ["ann", "bob"]  # noqa: RUF012

    def __init__(self) -> None:
        self.agents: list[str] = []
        self.left = {"ann": 0, "bob": 0}

    def observation_space(self, agent: str) -> spaces.Space:
        return spaces.Box(0.0, 9.0, (1,), np.float32)

    def action_space(self, agent: str) -> spaces.Space:
        return spaces.Discrete(3)

    def observe(self, agent: str) -> np.ndarray:
        return np.array([self.left[agent]], np.float32)

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        self.agents = list(self.possible_agents)
        self.left = {"ann": 3, "bob": 5}
        return {a: self.observe(a) for a in self.agents}, {a: {} for a in self.agents}

    def step(self, actions: dict[str, Any]) -> tuple[Any, ...]:
        assert set(actions) == set(self.agents)
        for agent in self.agents:
            self.left[agent] -= 1
        acting = self.agents
        obs = {a: self.observe(a) for a in acting}
        rewards = {a: float(actions[a]) for a in acting}
        over = {a: self.left[a] == 0 for a in acting}
        self.agents = [a for a in acting if not over[a]]
        never = dict.fromkeys(acting, False)
        return obs, rewards, over, never, {a: {} for a in acting}

    def close(self) -> None:
        pass
