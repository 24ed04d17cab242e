"""Measures the agent of a run: the returns of whole episodes, chosen before they are played."""

from __future__ import annotations

import dataclasses
import time
from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine._core import MAX_THREADS
from ..engine.errors import HeadraceError
from ..engine.vector import VecEnv
from ._native import StopFlag
from .agent import AgentConfig, load_agent, objects_in
from .environments import AnyVecEnv, name_of
from .rollout import Stopped
from .seeds import EVALUATION, world_seeds
from .settings import setting

Returns = NDArray[np.float64]

MAX_ENVS = 256  # rows that play at once
MAX_STEPS = 100_000  # longest episode that is waited for


@dataclasses.dataclass(frozen=True)
class EvalConfig(AgentConfig):
    """Whose agent is measured, and how."""

    episodes: int = setting(100, "how many episodes are played", low=1)
    seed: int = setting(
        0,
        "seed of the episodes; they differ from those of training whatever it is",
        low=0,
        high=2**63 - 1,
    )
    sample: bool = setting(False, "draw actions from the policy instead of taking the likeliest")
    threads: int | None = setting(
        None, "threads that step (default: every usable CPU)", low=1, high=MAX_THREADS
    )


@dataclasses.dataclass(frozen=True)
class EvalResult:
    """The returns of an agent over whole episodes."""

    env: str
    run: str
    checkpoint: int  # step after which the policy was saved
    episodes: int  # fewer than asked for where agents took no part in some
    sample: bool  # False: the likeliest action each time
    seed: int
    return_mean: float
    return_std: float  # standard deviation between episodes
    return_min: float
    return_max: float
    length_mean: float  # steps
    return_target: float | None  # the run's
    seconds: float  # wall time


def evaluate(run: str, **given: Any) -> EvalResult:
    """Plays whole episodes with the agent of the run in folder `run`.

    Every environment plays its first k episodes, k being the same for all: an agent that often
    fails early does not look worse, nor one that fails late better, because of which episodes
    happened to finish first.

    Args:
        run: the folder of the run.
        **given: fields of `EvalConfig`. `policy` and `env` may also be the objects of Python with
            which the run was trained.

    Raises:
        ConfigError: a setting that does not exist or does not fit.
        RunError: no run there, no such checkpoint, or a damaged one.
        HeadraceError: episodes that do not end.
    """
    started = time.perf_counter()
    module, source = objects_in(given)
    config = EvalConfig(run=str(run), **given)
    rows = min(config.episodes, MAX_ENVS)
    agent = load_agent(config, rows, config.seed, config.threads, module=module, source=source)
    with closing(agent.vec):
        returns, lengths = play(
            agent.vec, agent.player, config.episodes, config.seed, sample=config.sample
        )
    trained = agent.trained
    return EvalResult(
        env=trained.env,
        run=config.run,
        checkpoint=agent.checkpoint,
        episodes=len(returns),
        sample=config.sample,
        seed=config.seed,
        return_mean=float(returns.mean()),
        return_std=float(returns.std()),
        return_min=float(returns.min()),
        return_max=float(returns.max()),
        length_mean=float(lengths.mean()),
        return_target=trained.target,
        seconds=time.perf_counter() - started,
    )


def play(
    vec: AnyVecEnv,
    player: Any,
    episodes: int,
    seed: int,
    *,
    sample: bool = False,
    stop: StopFlag | None = None,
) -> tuple[Returns, Returns]:
    """Returns and lengths, float64 [episodes] each: the first episode of every row, then the
    second of every row, and so on; without those in which a row took no part.

    vec: just reset; player: see Agent; stop: breaks off once it is requested, with Stopped; the
    others: see EvalConfig.
    """
    tally = _Tally(vec, quota=-(-episodes // vec.num_envs))
    arrays = vec.buffers.arrays
    key = int(world_seeds(seed, 1, EVALUATION)[0])
    step = 0
    while tally.played.min() < tally.quota:
        if stop is not None and stop.requested:
            raise Stopped
        there = np.array(arrays.get("present", True), np.bool_)
        actions = player.act_in(vec, greedy=not sample, seed=key, step=step)
        _, rewards, terminated, truncated, _ = vec.step(actions)
        _check_rewards(vec, rewards, step)
        step += 1
        done = terminated | truncated
        tally.add(there, rewards, done)
        player.ended(done)
        if tally.longest() >= MAX_STEPS:
            native = isinstance(vec, VecEnv)
            how = ".max_steps" if native else "--params max_steps=N, or the wrapper TimeLimit(N)"
            raise HeadraceError(
                f"{int((tally.played < tally.quota).sum())} of {vec.num_envs} episodes had not "
                f"ended after {MAX_STEPS} steps; give the environment a time limit ({how})"
            )
    there = ~np.isnan(tally.lengths.ravel())
    if not there.any():
        raise HeadraceError(f"no agent of environment {name_of(vec)!r} took part in any episode")
    returns, lengths = tally.returns.ravel()[there], tally.lengths.ravel()[there]
    return returns[:episodes], lengths[:episodes]


class _Tally:
    """The first `quota` episodes of every row.

    Attributes:
        returns, lengths: float64 [quota, rows]; NaN where a row took no part in an episode of its
            world.
        played: episodes that each row has had, int64 [rows].
    """

    def __init__(self, vec: AnyVecEnv, quota: int) -> None:
        rows = vec.num_envs
        self.quota = quota
        self.returns, self.lengths = (np.zeros((quota, rows)) for _ in range(2))
        self.played = np.zeros(rows, np.int64)
        self._rows, self._agents = np.arange(rows), vec.agents
        self._world_over = vec.buffers.arrays.get("world_over")
        self._total, self._length = np.zeros(rows), np.zeros(rows, np.int64)
        self._waited = np.zeros(rows, np.int64)  # steps since the row's last end
        self._had = np.zeros(rows, np.bool_)  # an end since its world began

    def add(self, there: NDArray[np.bool_], rewards: NDArray[Any], done: NDArray[np.bool_]) -> None:
        """One step: who took part, and what came of it, [rows] each."""
        self._total += rewards
        self._length += there
        self._waited += 1
        self._had |= done
        self._end(done, self._total, self._length)
        if self._world_over is not None:
            over = np.repeat(self._world_over, self._agents)
            nothing = np.full(len(over), np.nan)
            self._end(over & ~self._had, nothing, nothing)
            self._had &= ~over

    def _end(self, rows: NDArray[np.bool_], totals: NDArray[Any], lengths: NDArray[Any]) -> None:
        ended = self._rows[rows & (self.played < self.quota)]
        self.returns[self.played[ended], ended] = totals[ended]
        self.lengths[self.played[ended], ended] = lengths[ended]
        self.played[ended] += 1
        self._total[rows], self._length[rows], self._waited[rows] = 0.0, 0, 0

    def longest(self) -> int:
        """Steps of the longest episode that is waited for."""
        return int(self._waited[self.played < self.quota].max(initial=0))


def _check_rewards(vec: AnyVecEnv, rewards: NDArray[Any], step: int) -> None:
    """HeadraceError for the first reward that is not finite."""
    bad = ~np.isfinite(rewards)
    if bad.any():
        row = int(bad.argmax())
        raise HeadraceError(
            f"environment {name_of(vec)!r}: the reward of row {row} is {rewards[row]} at step "
            f"{step}"
        )
