"""`headrace bench ladder`: from a synchronous lockstep trainer to an asynchronous one, one rung
at a time, where environments take a heavy-tailed time to step.

The environments sleep (heavy_tail.py), 64 of them on 16 workers, so that the machine's cores
are not what is measured; everything else is the real thing: processes, policy, learner.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from operator import attrgetter
from typing import Any

from ..engine.cpus import available_cpus
from ..engine.make import make_vec
from ..trainers.config import TrainConfig
from ..trainers.episodes import EpisodeWindow
from ..trainers.parts import make_parts, make_source
from ..trainers.settings import setting
from .benchmark import Announce, Benchmark, Flags, Report
from .heavy_tail import HeavyTail
from .results import Ratio, Result
from .rounds import repeated
from .spread import Spread

ENVS, WORKERS = 64, 16
ENV, HEADRACE = "heavy-tailed cartpole", "headrace"

BASE = TrainConfig(
    env="heavy-tail", num_envs=ENVS, hidden=(64,), horizon=16, minibatches=4, epochs=4, lr=3e-3,
    lr_schedule="constant", normalize_obs=False, normalize_reward=False, batch_size=ENVS,
)  # fmt: skip
CONTINUOUS: dict[str, Any] = {"batch_size": 4, "fill": 0.5}
CONCURRENT: dict[str, Any] = {**CONTINUOUS, "async_": True, "inflight": False}
# name: (what is switched on, settings)
RUNGS: dict[str, tuple[str, dict[str, Any]]] = {
    "lockstep": ("every step waits for all environments", {}),
    "continuous-batching": (
        "the policy acts for whichever 4 rows are ready; segments close early", CONTINUOUS,
    ),
    "concurrent": ("actor and learner at the same time, at most one update apart", CONCURRENT),
    "in-flight": (
        "weights change within a rollout, at every step", {**CONCURRENT, "inflight": True},
    ),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class LadderFlags(Flags):
    """The flags of `headrace bench ladder`."""

    repeats: int = setting(5, "how often every rung is climbed", low=5, high=1000)
    seconds: float = setting(12.0, "wall time of one run", above=0)


@dataclasses.dataclass(frozen=True)
class Climb:
    """One run of one rung."""

    sps: float
    return_mean: float | None  # of the last 100 episodes when time was up; None: none was over
    learning: float  # share of the time in which nothing but learning happened


def run(*, rounds: int, seconds: float, announce: Announce) -> list[Result]:
    """Every rung `rounds` times for `seconds` each, in turn."""
    jobs = [partial(_of_round, changes, seconds) for _, changes in RUNGS.values()]
    total = rounds * len(RUNGS)
    climbs = repeated(jobs, rounds, lambda done: announce(done, total))
    found = []
    below: Sequence[Climb] = []
    for (name, (meaning, _)), rung in zip(RUNGS.items(), climbs, strict=True):
        note = meaning + _reason(rung.values, below)
        speed = rung.spread(attrgetter("sps"))
        found.append(Result.measured(name, HEADRACE, ENV, WORKERS, speed, "steps/s", note))
        found.append(_score(f"{name}-return", rung.values, seconds))
        below = rung.values
    return found


def _of_round(changes: Mapping[str, Any], seconds: float, number: int) -> Climb:
    return _climb(BASE.replace(seed=number + 1, **changes), seconds)


def _score(name: str, climbs: Sequence[Climb], seconds: float) -> Result:
    note = f"mean return of the last 100 episodes after {seconds:g} s"
    scores = [climb.return_mean for climb in climbs if climb.return_mean is not None]
    if not scores:
        return Result.missing(name, HEADRACE, ENV, "return", f"{note}: none had finished")
    return Result.measured(name, HEADRACE, ENV, WORKERS, Spread.of(scores), "return", note)


def _reason(climbs: Sequence[Climb], below: Sequence[Climb]) -> str:
    """Why a rung gained nothing over the one below, where it did not."""
    if not below:
        return ""
    speed, before = (Spread.of([climb.sps for climb in rung]).median for rung in (climbs, below))
    if speed > 1.02 * before:
        return ""
    share = Spread.of([100 * climb.learning for climb in below])
    extremes = f"({share.min:.1f} … {share.max:.1f})"
    return (
        f"; gains no speed here: below, learning by itself took {share.median:.1f} % {extremes} of "
        "the time"
    )


def _climb(config: TrainConfig, seconds: float) -> Climb:
    """Trains for `seconds` of wall time."""
    vec = make_vec(
        HeavyTail,
        ENVS,
        executor="processes",
        workers=WORKERS,
        autoreset_mode="SameStep",
        batch_size=config.batch_size,
        copy=False,
    )
    with closing(vec):
        vec.reset(seed=config.seed * 1000)
        _, collector, learner, pool = make_parts(
            config.replace(threads=min(2, available_cpus())), vec
        )
        source = make_source(config, collector, learner)
        try:
            return _train(config, source, seconds)
        finally:
            source.close()
            if pool is not None:
                pool.close()


def _train(config: TrainConfig, source: Any, seconds: float) -> Climb:
    episodes, steps, learning = EpisodeWindow(), 0, 0.0
    clock = time.perf_counter
    start = clock()
    while clock() - start < seconds:
        rollout = source.take()
        steps += rollout.steps
        episodes.add(rollout.episode_returns, rollout.episode_lengths)
        before = clock()
        source.learn(rollout, lr=config.lr, ent_coef=config.ent_coef)
        if not config.async_:
            learning += clock() - before
    passed = clock() - start
    return Climb(steps / passed, episodes.return_mean, learning / passed)


def ratios(results: list[Result]) -> list[Ratio]:
    """The gain of each rung over the one before, and of the whole ladder."""
    figure = {each.name: each for each in results}
    names = list(RUNGS)
    pairs = [*zip(names[1:], names, strict=False), (names[-1], names[0])]
    return [
        (f"{name}: steps/s of {before}", figure[name].over(figure[before]))
        for name, before in pairs
    ]


def report(flags: LadderFlags, announce: Announce) -> Report:
    """As the command line asks for it."""
    found = run(
        rounds=1 if flags.quick else flags.repeats,
        seconds=2.0 if flags.quick else flags.seconds,
        announce=announce,
    )
    return Report("From lockstep to asynchronous, 64 environments", found, ratios(found))


BENCHMARK = Benchmark(
    "ladder",
    "Measures what asynchrony gains where environments take a heavy-tailed time to step: "
    "from a lockstep trainer, one switch at a time.",
    LadderFlags,
    "headrace bench ladder --out bench/results/ladder.json",
    report,
)
