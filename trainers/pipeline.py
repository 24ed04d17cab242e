"""Collecting and learning at the same time: actors, rollouts under way, and how old they may be.

Rollouts are numbered; the learner takes them in order. An *actor* fills its share of rollout
after rollout: for native environments and policies some blocks of 64 worlds, as a job of the
pool of threads on which the learner works too, so that no core idles while the other waits;
else all environments, in a thread of Python.

An actor may begin rollout j only when the learner has made all but `max_lag` of the j updates
before it: weights that act are never older than that when their rows are learned from, and
there are never more than max_lag + 1 rollouts. Nothing is dropped: an actor that is ahead
waits, and what was collected is learned from, or is saved with the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Protocol

import numpy as np

from ..engine._core import crash_stack
from ..engine.errors import ArgumentError
from . import _native
from .collector import FusedCollector
from .rollout import Rollout, SteppedRollout, Stopped

MAX_LAG = 64  # updates; each is a rollout of memory


class Source(Protocol):
    """Where a run's rollouts come from and go to."""

    def take(self) -> Any:
        """The next rollout, to be learned from before the one after it is taken."""
        ...

    def learn(self, rollout: Any, *, lr: float, ent_coef: float) -> Any:
        """One update, published to the actors; the learner's statistics."""
        ...

    def settle(self) -> None:
        """Returns once no environment moves."""
        ...

    def abandon(self) -> None:
        """Drops what is under way, once collecting was broken off."""
        ...

    def close(self) -> None:
        """Waits for what is under way and ends what it started."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Everything that `load_state_dict` needs, once settled."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues where `state_dict` was taken."""
        ...


class InTurn:
    """Collects, then learns, then collects: synchronous training."""

    def __init__(self, collector: Any, learner: Any) -> None:
        self._collector, self._learner = collector, learner

    def take(self) -> Any:
        """See Source."""
        return self._collector.collect(self._learner.weights)

    def learn(self, rollout: Any, *, lr: float, ent_coef: float) -> Any:
        """See Source."""
        return self._learner.learn(rollout, lr=lr, ent_coef=ent_coef)

    def settle(self) -> None:
        """See Source."""

    def abandon(self) -> None:
        """See Source."""

    def close(self) -> None:
        """See Source."""

    def state_dict(self) -> dict[str, Any]:
        """See Source."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See Source."""


class Pipeline:
    """Collects ahead while the learner learns: asynchronous training.

    Attributes:
        learned: rollouts that the learner has taken and updated from.
        steps_collected, steps_learned: environment steps in rollouts that are whole, and in
            those that were learned from.
    """

    def __init__(
        self,
        collector: Any,
        learner: Any,
        *,
        max_lag: int = 1,
        replicas: int = 1,
        inflight: bool = True,
        deterministic: bool = False,
    ) -> None:
        """Arguments:

        collector: FusedCollector or SteppedCollector; nobody else may use it meanwhile.
        learner: whose weights act.
        max_lag: bound of updates between weights that act and those that learn from it.
        replicas: actors, each with a share of the environments; more than one only with a
            FusedCollector.
        inflight: actors take new weights as soon as they are there: before each block of 64
            worlds, or before each step. Else at the beginning of each rollout.
        deterministic: a fixed schedule: rollout j is collected by the weights after j - max_lag
            updates, whatever takes how long; nothing is taken up in flight.

        Raises:
            ArgumentError: more replicas than can be had, a lag out of bounds.
        """
        if not 0 <= max_lag <= MAX_LAG:
            raise ArgumentError(f"max_lag is {max_lag}: expected 0 to {MAX_LAG}")
        self._collector, self._learner = collector, learner
        self._max_lag, self._deterministic = max_lag, deterministic
        self._inflight = inflight and not deterministic
        self._rollouts: list[Any] = []  # number k is in place k % (max_lag + 1)
        self.learned = 0
        self._whole = 0  # rollouts that were finished
        self.steps_collected = self.steps_learned = 0
        self._slots: Any = None
        if isinstance(collector, FusedCollector):
            shares = collector.split(replicas)
            if self._inflight:
                self._slots = _native.Slots(learner.weights, collector.threads + 1)
            self._actors: list[Any] = [
                _Blocks(collector, share, learner, self._slots) for share in shares
            ]
        else:
            if replicas != 1:
                raise ArgumentError(
                    f"replicas is {replicas}: several actors need a native environment and a "
                    "native policy; elsewhere there is one"
                )
            self._actors = [_Thread(collector, learner, self._inflight)]

    # ---- what the learner sees ---------------------------------------------------------------

    def take(self) -> Any:
        """The next rollout, once it is whole; the actors go on meanwhile.

        Raises what collecting raises.
        """
        number = self.learned
        if self._deterministic:
            self._fill(number + self._max_lag)
        self._advance()
        for actor in self._actors:
            while actor.done <= number:
                actor.wait()
                self._advance()
        rollout = self._finish(number)
        self._advance()
        return rollout

    def learn(self, rollout: Any, *, lr: float, ent_coef: float) -> Any:
        """One update from the rollout that was taken; its weights are published at once."""
        stats = self._learner.learn(rollout, lr=lr, ent_coef=ent_coef)
        self.learned += 1
        self.steps_learned += rollout.steps
        if self._slots is not None:
            self._slots.publish(self._learner.weights)
        return stats

    @property
    def waiting(self) -> list[Any]:
        """Rollouts that are whole and not learned from, the oldest first. After `settle` there
        is no other."""
        return [self._place(k) for k in range(self.learned, self._whole)]

    # ---- schedule ----------------------------------------------------------------------------

    def _place(self, number: int) -> Any:
        """The rollout of this number, made when it is first needed."""
        at = number % (self._max_lag + 1)
        while len(self._rollouts) <= at:
            self._rollouts.append(self._collector.new_rollout())
        return self._rollouts[at]

    def _advance(self) -> None:
        """Starts every idle actor that is allowed to go on."""
        for actor in self._actors:
            if actor.busy and actor.ready():
                actor.wait()
            if not actor.busy and actor.done <= self.learned + self._max_lag:
                actor.start(self._place(actor.done))

    def _fill(self, number: int) -> None:
        """Starts all rollouts up to this number."""
        for actor in self._actors:
            while actor.started <= number:
                actor.wait()
                actor.start(self._place(actor.done))

    def _finish(self, number: int) -> Any:
        """The rollout of this number, whose shares are all there, made whole."""
        rollout = self._place(number)
        if number == self._whole:
            if isinstance(self._collector, FusedCollector):
                self._collector.finish(rollout, actors_ahead=self._actors[0].done - number)
            self._whole += 1
            self.steps_collected += rollout.steps
        return rollout

    def settle(self) -> None:
        """Waits until all actors stand at the end of the same rollout, and makes those whole
        that are not learned from yet."""
        last = max(actor.started for actor in self._actors)
        for actor in self._actors:
            actor.wait()
            while actor.done < last:
                actor.start(self._place(actor.done))
                actor.wait()
        for number in range(self._whole, last):
            self._finish(number)

    def abandon(self) -> None:
        """Waits for the actors, which were told to stop, and drops the rollouts that they had
        not filled; those that are whole stay."""
        started = max(actor.started for actor in self._actors)
        for actor in self._actors:
            with suppress(Stopped):
                actor.wait()
        with suppress(Stopped):
            for number in range(self._whole, min(actor.done for actor in self._actors)):
                self._finish(number)
        if isinstance(self._collector, FusedCollector):
            self._collector.advance(started - self._actors[0].started)
        for actor in self._actors:
            actor.done = actor.started = self._whole

    def close(self) -> None:
        """Waits for the actors and ends their threads; what they met is not raised."""
        for actor in self._actors:
            actor.close()

    # ---- saving ------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The rollouts that wait, once settled."""
        return {str(k): save_rollout(rollout) for k, rollout in enumerate(self.waiting)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on with saved rollouts; before the first is taken."""
        for number in range(len(state)):
            rollout = self._place(number)
            load_rollout(rollout, state[str(number)])
            self.steps_collected += rollout.steps
        self._whole = len(state)
        for actor in self._actors:
            actor.done = actor.started = len(state)
        if self._slots is not None:
            self._slots.publish(self._learner.weights)


class _Actor:
    """Fills its share of one rollout after the other."""

    def __init__(self) -> None:
        self.started = 0  # rollouts begun
        self.done = 0  # rollouts filled

    @property
    def busy(self) -> bool:
        """Whether a rollout was begun and has not been waited for."""
        return self.started > self.done

    def start(self, rollout: Any) -> None:
        """Begins to fill the next rollout."""
        self._start(rollout)
        self.started += 1

    def wait(self) -> None:
        """Returns once what was begun is filled; helps where that is possible."""
        if self.busy:
            self._wait()
            self.done += 1

    def ready(self) -> bool:
        """Whether `wait` would return at once."""
        raise NotImplementedError

    def close(self) -> None:
        """Waits, and ends what was started."""
        raise NotImplementedError

    def _start(self, rollout: Any) -> None:
        raise NotImplementedError

    def _wait(self) -> None:
        raise NotImplementedError


class _Blocks(_Actor):
    """Some blocks of a FusedCollector, as jobs of its pool: no thread, no Python."""

    def __init__(self, collector: FusedCollector, share: Any, learner: Any, slots: Any) -> None:
        """slots: weights to pick up in flight; None: those at the start of each rollout."""
        super().__init__()
        self._collector = collector
        self._share, self._learner, self._slots = share, learner, slots

    def _start(self, rollout: Any) -> None:
        weights = self._learner.weights if self._slots is None else None
        self._collector.begin()
        try:
            self._share.start(rollout, weights, self._slots)
        except BaseException:
            self._collector.end()
            raise

    def ready(self) -> bool:
        return bool(self._share.done())

    def _wait(self) -> None:
        self._share.wait()
        self._collector.end()

    def close(self) -> None:
        self.wait()


class _Thread(_Actor):
    """A whole collector in a thread of its own."""

    def __init__(self, collector: Any, learner: Any, inflight: bool) -> None:
        super().__init__()
        self._collector, self._learner, self._inflight = collector, learner, inflight
        self._executor = ThreadPoolExecutor(1, "headrace-actor", initializer=crash_stack)
        self._future: Future[Any] | None = None

    def _start(self, rollout: Any) -> None:
        learner = self._learner
        # An attribute that is read and replaced whole: a version is published by one store
        weights = (lambda: learner.weights) if self._inflight else learner.weights
        self._future = self._executor.submit(self._collector.collect, weights, rollout)

    def ready(self) -> bool:
        return self._future is None or self._future.done()

    def _wait(self) -> None:
        if self._future is not None:
            self._future.result()

    def close(self) -> None:
        self._executor.shutdown(wait=True)


# ---- rollouts on disk ----------------------------------------------------------------------------

_ARRAYS = (
    "obs", "actions", "mask", "logp", "value", "reward", "done", "bootstrap", "valid", "advantage",
    "ret", "states", "last", "block_versions", "obs_sums", "obs_centres", "reward_sums",
    "reward_centres",
)  # fmt: skip
_STEPPED = ("raw", "versions")
_EPISODES = ("episode_steps", "episode_rows", "episode_returns", "episode_lengths")


def _names(rollout: Rollout) -> tuple[str, ...]:
    own = _STEPPED if isinstance(rollout, SteppedRollout) else ()
    return tuple(name for name in (*_ARRAYS, *own) if getattr(rollout, name) is not None)


def save_rollout(rollout: Rollout) -> dict[str, Any]:
    """Copies of everything in a rollout."""
    state = {name: getattr(rollout, name).copy() for name in _names(rollout)}
    episodes = (getattr(rollout, name).view(np.int32) for name in _EPISODES)
    state["episodes"] = np.stack(list(episodes), axis=1)
    return {**state, "moments": rollout.moments.copy(), "version": rollout.version}


def load_rollout(rollout: Rollout, state: Mapping[str, Any]) -> None:
    """Fills a rollout of the same shape with what `save_rollout` gave."""
    for name in _names(rollout):
        getattr(rollout, name)[...] = state[name]
    rollout.set_episodes(state["episodes"])
    rollout.count_rows()
    rollout.moments[...] = state["moments"]  # to the last bit
    rollout.version = int(state["version"])
