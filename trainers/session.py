"""A run in memory: its environments, policy, collector, learner and counters; one update."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from ..engine.snapshot import Snapshot
from ..engine.vector import VecEnv
from ._native import StopFlag
from .bottleneck import Reading, stopwatch
from .build import build_table, hash_of
from .config import TrainConfig
from .encoding import Divisors
from .environments import AnyVecEnv, environment_metrics, frames_of
from .episodes import EpisodeWindow
from .evaluator import Evaluator
from .learner import LearnStats
from .parts import make_parts, make_source
from .rollout import NonFiniteError, Stopped
from .run import Run, Tensors

SLOW_SECONDS = 0.2  # an update that takes longer can be broken off


class Kept(NamedTuple):
    """A checkpoint before it is written."""

    steps: int
    tensors: Tensors  # the policy's
    state: dict[str, Any]  # everything else that the rest of the run depends on


class Update(NamedTuple):
    """One rollout and what was learned from it."""

    stats: LearnStats
    lr: float
    collect_seconds: float
    learn_seconds: float
    began: tuple[float, int, Reading]  # seconds, steps and the stages' clocks before it


class Clock:
    """Seconds of training: it stands still while somebody else has the word."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._since: float | None = None  # None: it stands

    def read(self) -> float:
        """Seconds so far."""
        running = 0.0 if self._since is None else time.perf_counter() - self._since
        return self._seconds + running

    def set(self, seconds: float) -> None:
        """Goes on from here."""
        self._seconds = seconds
        if self._since is not None:
            self._since = time.perf_counter()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Runs inside."""
        self._since = time.perf_counter()
        try:
            yield
        finally:
            self._seconds, self._since = self.read(), None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stands still inside."""
        self._seconds, self._since = self.read(), None
        try:
            yield
        finally:
            self._since = time.perf_counter()


class Session:
    """What a run trains with, and where it stands.

    Attributes:
        config, vec: of the run; its environments.
        policy, learner: what is trained, with what.
        evaluator: plays with the policy as it is.
        episodes, steps: the last episodes, actions that agents took.
        clock, seconds: of training; where it stood at the end of the last update.
        stopwatch: where that time goes.
        solved_seconds, solved_steps: when the target was reached; None: not yet.
        stop: leaves off what is under way, once it is requested.
        sound: whether the state may be saved: not in the middle of an update, or after an error.
    """

    run: Run  # the folder; set once everything else is there

    def __init__(
        self,
        config: TrainConfig,
        vec: AnyVecEnv,
        module: Any = None,
        source: Any = None,
        divisors: Divisors | None = None,
    ) -> None:
        """module, divisors: of `make_parts`; source: of `environments`."""
        self.config, self.vec = config, vec
        self.stop = StopFlag()
        self.policy, self.collector, self.learner, self._pool = make_parts(
            config, vec, module, self.stop, divisors
        )
        self._source = make_source(config, self.collector, self.learner)
        self.stopwatch = stopwatch(self.collector, self.learner, asynchronous=config.async_)
        self.evaluator = Evaluator(config, self.policy, source)
        self.episodes = EpisodeWindow()
        self.steps = 0
        self.clock, self.seconds = Clock(), 0.0
        self.solved_seconds: float | None = None
        self.solved_steps: int | None = None
        self.sound = True
        self._slow = True  # until an update has shown how long it takes
        self._kept: Kept | None = None  # what an update that is broken off goes back to; or
        self._before: tuple[Any, ...] | None = None  # steps, seconds, episodes, learner
        self._void = False  # the session stands in the middle of an update: only _kept counts

    def build_table(self) -> dict[str, str]:
        """What the run is made with, for its config.toml."""
        return build_table(
            hash_of(self.vec), self.policy.net.isa, torch=self.config.policy != "native"
        )

    def close(self) -> None:
        """Ends the environments and the threads."""
        self._source.close()
        self.evaluator.close()
        self.vec.close()
        if self._pool is not None:
            self._pool.close()

    @property
    def over(self) -> bool:
        """Whether the target was reached or the steps are used up."""
        return self.solved_steps is not None or self.steps >= self.config.steps

    # ---- one update ------------------------------------------------------------------------

    def update(self) -> Update | None:
        """Collects a rollout and learns from it; None where the rollout reached the target: the
        weights that did stay as they are.

        Raises:
            NonFiniteError: a NaN or an infinity; the session is not sound any more.
            Stopped: broken off; `state` is that before the update where that can be had.
        """
        self.sound = False
        clock = self.clock.read
        began = clock(), self.steps, self.stopwatch.read()
        lr, ent_coef = self._scheduled()
        try:
            self._keep()
            rollout = self._take()
            collected = clock()
            self.steps += rollout.steps
            self.episodes.add(rollout.episode_returns, rollout.episode_lengths)
            if self.episodes.reached(self.config.target):
                self.seconds = collected
                self.solved_seconds, self.solved_steps = collected, self.steps
                self.sound = True
                return None
            stats = self._source.learn(rollout, lr=lr, ent_coef=ent_coef)
        except Stopped:
            self._take_back()
            raise
        except NonFiniteError as error:
            raise self._advised(error) from None
        self.seconds = learned = clock()
        self._slow = learned - began[0] > SLOW_SECONDS
        self._before, self.sound = None, True
        return Update(stats, lr, collected - began[0], learned - collected, began)

    @property
    def _repeats(self) -> bool:
        """Whether a saved state goes on exactly as the session would."""
        config = self.config
        ordered = config.fill == 1 and (not config.async_ or config.deterministic)
        return isinstance(self.vec, VecEnv) and ordered

    def _keep(self) -> None:
        """Before an update that may be broken off: the state, which the session goes back to
        if it would repeat; else what the update changes of the learner and the counters."""
        if not self._slow:
            self._kept = self._before = None
        elif self._repeats:
            self.stop.arm(self._kept is not None)
            self._kept = self._snapshot()  # which waits for actors: they may be broken off
        else:
            learner = self.learner.state_dict()
            self._before = (self.steps, self.seconds, self.episodes.state_dict(), learner)

    def _take(self) -> Any:
        """The next rollout. It is broken off where that loses nothing but time."""
        self.stop.arm(self._slow or not (self._repeats or self.config.async_))
        try:
            return self._source.take()
        finally:
            self.stop.arm(self._slow)

    def _take_back(self) -> None:
        """All as it was before an update that was broken off."""
        self.sound = True
        if self._kept is not None:
            self._void = True
            state = self._kept.state
            self.steps, self.seconds = state["steps"], state["seconds"]
            self.episodes.load_state_dict(state["episodes"])
        else:
            if self._before is not None:
                self.steps, self.seconds, episodes, learner = self._before
                self.episodes.load_state_dict(episodes)
                self.learner.load_state_dict(learner)
            self._source.abandon()

    def _advised(self, error: NonFiniteError) -> NonFiniteError:
        """The error, with the way to find its cause where that lies in the environment."""
        if error.kind in ("observation", "reward") and isinstance(self.vec, VecEnv):
            where = f"headrace check {shlex.quote(self.config.env)} finds where"
            error.args = (f"{error} (the run's seed is {self.config.seed}); {where}",)
        return error

    def _scheduled(self) -> tuple[float, float]:
        """Learning rate and entropy coefficient of the next update, by the steps before its
        rollout."""
        config = self.config
        left = 1.0 - self.steps / config.steps
        falling = {
            "constant": 1.0,
            "linear": left,
            "cosine": 0.5 * (1.0 - math.cos(math.pi * left)),
        }
        final = config.ent_coef if config.ent_coef_final is None else config.ent_coef_final
        return config.lr * falling[config.lr_schedule], final + (config.ent_coef - final) * left

    @property
    def frames(self) -> int | None:
        """Frames of the game that the steps were, see `frames_of`."""
        return frames_of(self.vec, self.steps)

    def environment_metrics(self) -> dict[str, float]:
        """What the environments say of themselves."""
        return environment_metrics(self.vec)

    # ---- saving ----------------------------------------------------------------------------

    def state(self) -> Kept:
        """What a checkpoint holds."""
        if self._void:
            assert self._kept is not None
            return self._kept
        self.stop.arm(False)  # what is under way is waited for
        try:
            return self._snapshot()
        except Stopped:  # between two updates: actors had been broken off before
            self._take_back()
            return self.state()

    def _snapshot(self) -> Kept:
        self._source.settle()
        state = {
            "steps": self.steps,
            "seconds": self.seconds,
            "solved_seconds": self.solved_seconds,
            "solved_steps": self.solved_steps,
            "episodes": self.episodes.state_dict(),
            "collector": self.collector.state_dict(),
            "learner": self.learner.state_dict(),
            "waiting": self._source.state_dict(),
        }
        if isinstance(self.vec, VecEnv):  # Python environments cannot be saved
            state["environments"] = np.frombuffer(self.vec.snapshot().to_bytes(), np.uint8)
        return Kept(self.steps, self.policy.to_tensors(self.learner.weights), state)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continues from a saved state; Python environments begin new episodes."""
        self.steps, self.seconds = state["steps"], state["seconds"]
        self.clock.set(self.seconds)
        self.collector.load_state_dict(state["collector"])
        if isinstance(self.vec, VecEnv):
            self.vec.restore(Snapshot.from_bytes(state["environments"].tobytes()))
        else:
            self.collector.forget_episodes()
        self.learner.load_state_dict(state["learner"])
        self._source.load_state_dict(state.get("waiting", {}))
        self.episodes.load_state_dict(state["episodes"])
        if self.episodes.reached(self.config.target):
            self.solved_seconds = state["solved_seconds"]
            self.solved_steps = state["solved_steps"]
