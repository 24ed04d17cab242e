"""Where the time of a run goes, and what holds it up.

A run has workers, whose time is shared out without remainder among five parts:

environment   stepping environments, or waiting for their processes
inference     the policy that acts: encoding, forward pass, sampling
learn         updates of the policy
wait          for one another: threads without a task, an actor for the learner, the learner for
              a rollout
rest          recording, advantages, logs, checkpoints and Python in between

Who the workers are depends on the kind of run. Collecting and learning *in turn* is one worker.
Asynchronous native training is the threads of its one *pool*. An asynchronous actor in a thread
of its own and the learner are two workers *side by side*.

What holds a run up, its bottleneck, is the part that takes most of that time, the rest left out;
side by side, where the two workers' times overlap, it is what the worker does that waits less
for the other, and the queue between them where both wait for more than `QUEUE_SHARE` of the time.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from . import _native
from .collector import FusedCollector

ENVIRONMENT, INFERENCE, LEARNER, QUEUE = "environment", "inference", "learner", "queue"
BOTTLENECKS = (ENVIRONMENT, INFERENCE, LEARNER, QUEUE)
QUEUE_SHARE = 0.3  # of the time that actor and learner both wait before the queue is to blame

Reading = tuple[NDArray[np.float64], ...]  # seconds so far, by stage


class Passed(NamedTuple):
    """Seconds between two readings, as the run's loop counts them."""

    wall: float
    collect: float  # taking rollouts
    learn: float  # learning from them


class Shares(NamedTuple):
    """What the workers did: shares of their time, which add up to 1, and what holds them up."""

    environment: float
    inference: float
    learn: float
    wait: float
    rest: float
    bottleneck: str  # one of BOTTLENECKS


class Stopwatch(Protocol):
    """Reads the clocks of one run's stages."""

    def read(self) -> Reading:
        """The clocks now."""
        ...

    def shares(self, before: Reading, after: Reading, passed: Passed) -> Shares:
        """What became of the time between two readings."""
        ...


def stopwatch(collector: Any, learner: Any, *, asynchronous: bool) -> Stopwatch:
    """The stopwatch for this kind of run."""
    fused = isinstance(collector, FusedCollector)
    stages = _Fused(collector) if fused else _Stepped(collector)
    if not asynchronous:
        return InTurn(stages)
    return OnOnePool(stages, learner, collector.threads) if fused else SideBySide(stages)


class Collecting(NamedTuple):
    """Seconds of collecting by stage: of threads, or of one where there is one."""

    environment: float
    inference: float
    other: float

    def share_out(self, seconds: float) -> Collecting:
        """So many seconds, in these proportions."""
        total = sum(self)
        scale = seconds / total if total > 0 else 0.0
        return Collecting(*(scale * part for part in self))


class _Fused:
    """Native collection times some steps of each block, and each block as a whole."""

    def __init__(self, collector: FusedCollector) -> None:
        self._collector = collector
        self._proportions = Collecting(0.0, 0.0, 0.0)

    def read(self) -> NDArray[np.float64]:
        """[threads, stages]"""
        return self._collector.stage_seconds.copy()

    def collecting(self, spent: NDArray[np.float64]) -> Collecting:
        """What threads did while they collected; proportions seen before, where no step of
        these was timed."""
        of = dict(zip(_native.STAGES, spent.sum(0).tolist(), strict=True))
        acting = of["encode"] + of["forward"] + of["sample"]
        timed = Collecting(of["env"], acting, of["record"])
        if sum(timed) > 0:
            self._proportions = timed
        steps = self._proportions.share_out(max(0.0, of["collect_task"] - of["advantage"]))
        return steps._replace(other=steps.other + of["advantage"])


class _Stepped:
    """Stepped collection times everything."""

    def __init__(self, collector: Any) -> None:
        self._collector = collector

    def read(self) -> NDArray[np.float64]:
        """[stages]"""
        return np.array(list(self._collector.profile().values()))

    def collecting(self, spent: NDArray[np.float64]) -> Collecting:
        """What the collecting thread did."""
        of = dict(zip(self._collector.profile(), spent.tolist(), strict=True))
        return Collecting(of["env"], of["act"], of["record"] + of["finish"])


class InTurn:
    """Collects, then learns, then collects."""

    def __init__(self, stages: _Fused | _Stepped) -> None:
        self._stages = stages

    def read(self) -> Reading:
        """See Stopwatch."""
        return (self._stages.read(),)

    def shares(self, before: Reading, after: Reading, passed: Passed) -> Shares:
        """See Stopwatch."""
        spent = self._stages.collecting(after[0] - before[0]).share_out(passed.collect)
        parts = _parts(passed.wall, spent.environment, spent.inference, passed.learn, 0.0)
        return Shares(*parts, _largest(parts))


class OnOnePool:
    """Blocks of environments and parts of updates are tasks of the same threads."""

    def __init__(self, stages: _Fused | _Stepped, learner: Any, threads: int) -> None:
        self._stages, self._learner, self._threads = stages, learner, threads

    def read(self) -> Reading:
        """See Stopwatch."""
        return self._stages.read(), self._learner.stage_seconds.copy()

    def shares(self, before: Reading, after: Reading, passed: Passed) -> Shares:
        """See Stopwatch."""
        spent = self._stages.collecting(after[0] - before[0])
        helped = (after[1] - before[1])[1:, _native.STAGES.index("learn_task")].sum()
        learn = passed.learn + float(helped)  # thread 0 is the one that learns
        loop = max(0.0, passed.wall - passed.collect - passed.learn)
        total = self._threads * passed.wall
        wait = total - sum(spent) - learn - loop
        parts = _parts(total, spent.environment, spent.inference, learn, max(0.0, wait))
        return Shares(*parts, _largest(parts))


class SideBySide:
    """An actor in a thread of its own, and the learner."""

    def __init__(self, stages: _Fused | _Stepped) -> None:
        self._stages = stages

    def read(self) -> Reading:
        """See Stopwatch."""
        return (self._stages.read(),)

    def shares(self, before: Reading, after: Reading, passed: Passed) -> Shares:
        """See Stopwatch."""
        spent = self._stages.collecting(after[0] - before[0])
        actor_waits, learner_waits = max(0.0, passed.wall - sum(spent)), passed.collect
        wait = actor_waits + learner_waits
        parts = _parts(2 * passed.wall, spent.environment, spent.inference, passed.learn, wait)
        if min(actor_waits, learner_waits) > QUEUE_SHARE * passed.wall:
            return Shares(*parts, QUEUE)
        if learner_waits < actor_waits:
            return Shares(*parts, LEARNER)
        slower = ENVIRONMENT if spent.environment >= spent.inference else INFERENCE
        return Shares(*parts, slower)


Parts = tuple[float, float, float, float, float]


def _parts(total: float, *seconds: float) -> Parts:
    """Shares of `total` seconds, the rest last. What was under way when the clocks were read may
    make the parts larger than the whole: they are then shares of their sum."""
    whole = max(total, sum(seconds))
    if whole <= 0:
        return 0.0, 0.0, 0.0, 0.0, 1.0
    environment, inference, learn, wait = (part / whole for part in seconds)
    return environment, inference, learn, wait, max(0.0, 1.0 - sum(seconds) / whole)


def _largest(parts: Parts) -> str:
    return BOTTLENECKS[int(np.argmax(parts[:4]))]
