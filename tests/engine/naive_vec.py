"""The step of a batch in plain Python, one world and one row at a time: the twin of
engine/core/vec.c, over the environment of tests/engine/core/drift.c."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

NEXT_STEP, SAME_STEP, DISABLED = range(3)
_64, _32 = 2**64 - 1, 2**32 - 1


def splitmix_key(seed: int) -> int:
    """The first output of SplitMix64 started at `seed`."""
    z = (seed + 0x9E3779B97F4A7C15) & _64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _64
    return z ^ (z >> 31)


@dataclass
class Drift:
    """One world of drift.c."""

    agents: int
    leaving: bool
    rare: int
    key: int
    counter: int = 0
    value: int = 0
    clock: int = 0

    def draw(self) -> int:
        number = ((self.key ^ (self.counter * 0x9E3779B97F4A7C15) & _64) >> 13) & _32
        self.counter += 1
        return number

    def reset(self) -> None:
        self.value, self.clock = self.draw(), 0
        self.value ^= (self.draw() << 7) & _32

    def step(self, actions: list[int]) -> list[tuple[float, bool, bool]]:
        """(reward, terminated, truncated) of each agent."""
        value = self.value * 1664525 + 1013904223 + self.draw()
        value += sum(action * (k + 1) for k, action in enumerate(actions))
        self.value, self.clock = value & _32, self.clock + 1
        return [
            (
                ((self.value >> k) & 7) - 3.0,
                (self.value >> (5 + 2 * k)) & (2**self.rare - 1) == 0,
                (self.value >> (7 + 3 * k)) & (2 * 2**self.rare - 1) == 1,
            )
            for k in range(self.agents)
        ]

    def present(self, k: int) -> bool:
        return not self.leaving or (self.value >> (11 + k)) & 3 != 0

    def observe(self, k: int) -> tuple[int, int]:
        seen = self.value ^ k
        return (seen - 2**32 if seen >= 2**31 else seen), self.clock

    def mask(self, k: int) -> list[bool]:
        return [bool((self.value >> (j + k)) & 1) for j in range(3)]

    def metrics(self) -> tuple[float, float]:
        return float(self.clock), float(self.value & 255)


@dataclass
class Row:
    """What the engine keeps for one agent; outcomes of the last step included."""

    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    acted: bool = False
    ended: bool = False
    present: bool = True
    episode_return: np.float32 = field(default_factory=lambda: np.float32(0))
    episode_length: int = 0
    carried: float = 0.0  # rewards that wait for the next transition or the end
    last_return: np.float32 = field(default_factory=lambda: np.float32(0))
    last_length: int = 0
    final_obs: tuple[int, int] | None = None  # of the last step, None where nothing ended

    def start_episode(self) -> None:
        self.ended, self.episode_return, self.episode_length = False, np.float32(0), 0
        self.carried = 0.0

    def clear_outcome(self) -> None:
        self.reward, self.terminated, self.truncated, self.acted = 0.0, False, False, False
        self.final_obs = None

    @property
    def ends(self) -> bool:
        return self.terminated or self.truncated

    def deliver(self) -> None:
        self.reward, self.carried = self.carried, 0.0
        self.episode_return += np.float32(self.reward)

    def keep_results(self) -> None:
        self.last_return, self.last_length = self.episode_return, self.episode_length


class World:
    """One world under the rules of a vector environment."""

    def __init__(self, env: Drift, mode: int, max_steps: int) -> None:
        self.env, self.mode, self.max_steps = env, mode, max_steps
        self.rows = [Row() for _ in range(env.agents)]
        self.elapsed, self.pending, self.over = 0, False, False
        self.last_metrics = (0.0, 0.0)

    def reset(self) -> None:
        """What a caller's reset does."""
        for row in self.rows:
            row.clear_outcome()
        self.over = False
        self._start()

    def step(self, actions: list[int]) -> None:
        if self.mode == NEXT_STEP and self.pending:
            self.reset()
            return
        acting = [row.present for row in self.rows]
        self.elapsed += 1
        timeout = self.max_steps > 0 and self.elapsed >= self.max_steps
        outcomes = self.env.step(actions)
        for row, acts, (reward, terminated, truncated) in zip(
            self.rows, acting, outcomes, strict=True
        ):
            row.clear_outcome()
            row.acted = acts
            if row.ended:
                continue
            row.carried += reward
            row.episode_length += acts
            row.terminated, row.truncated = terminated, truncated
        self._end_rows(timeout)
        for k, row in enumerate(self.rows):
            if row.ends:
                row.final_obs = self.env.observe(k)
        if self.over and self.mode == SAME_STEP:
            self._start()

    def _end_rows(self, timeout: bool) -> None:
        for k, row in enumerate(self.rows):
            row.present = not (row.ended or row.ends) and self.env.present(k)
        self.over = timeout or not any(row.present for row in self.rows)
        for row in self.rows:
            begun = row.episode_length > 0 or row.carried != 0.0
            cut = begun and not (row.ended or row.ends)
            if (timeout and row.ends) or (self.over and cut):
                row.truncated = True  # cut, together with its world
            if row.acted or row.ends:
                row.deliver()
            if row.ends:
                row.ended = True
                row.keep_results()
        if self.over:
            self.last_metrics = self.env.metrics()
            self.pending = self.mode != SAME_STEP
            for row in self.rows:
                row.ended, row.present, row.carried = True, False, 0.0

    def _start(self) -> None:
        self.env.reset()
        self.elapsed, self.pending = 0, False
        for k, row in enumerate(self.rows):
            row.start_episode()
            row.present = self.env.present(k)


class NaiveVec:
    """A batch of worlds; `arrays` gives what the native batch must hold."""

    def __init__(
        self,
        seeds: list[int],
        *,
        agents: int = 1,
        leaving: bool = False,
        rare: int = 4,
        mode: int = NEXT_STEP,
        max_steps: int = 0,
    ) -> None:
        envs = [Drift(agents, leaving, rare, splitmix_key(seed)) for seed in seeds]
        self.agents = agents
        self.worlds = [World(env, mode, max_steps) for env in envs]
        self.reset(range(len(seeds)))

    def reset(self, worlds: range | list[int]) -> None:
        for world in worlds:
            self.worlds[world].reset()

    def step(self, actions: np.ndarray) -> None:
        """actions: int [rows]."""
        shares = actions.reshape(len(self.worlds), self.agents).tolist()
        for world, share in zip(self.worlds, shares, strict=True):
            world.step(share)

    def arrays(self) -> dict[str, np.ndarray]:
        """By the names of Buffers.arrays; `obs` is int [rows, 2]."""
        rows = [row for world in self.worlds for row in world.rows]
        each = [(world, k) for world in self.worlds for k in range(self.agents)]
        found = {
            "rewards": [row.reward for row in rows],
            "rng": [(world.env.key, world.env.counter) for world in self.worlds],
            "elapsed": [world.elapsed for world in self.worlds],
            "pending": [world.pending for world in self.worlds],
            "world_over": [world.over for world in self.worlds],
            "last_metrics": [world.last_metrics for world in self.worlds],
            "obs": [world.env.observe(k) for world, k in each],
            "mask": [world.env.mask(k) for world, k in each],
        }
        for name in ("terminated", "truncated", "acted", "ended", "present", "episode_return",
                     "episode_length", "carried", "last_return", "last_length"):  # fmt: skip
            found[name] = [getattr(row, name) for row in rows]
        dtypes = {"rng": np.uint64}
        return {name: np.array(values, dtypes.get(name)) for name, values in found.items()}

    def final_obs(self) -> tuple[np.ndarray, np.ndarray]:
        """(rows that ended in the last step, their final observations [ended, 2])."""
        rows = [row.final_obs for world in self.worlds for row in world.rows]
        ended = [i for i, final in enumerate(rows) if final is not None]
        return np.array(ended, np.int64), np.array([rows[i] for i in ended]).reshape(-1, 2)
