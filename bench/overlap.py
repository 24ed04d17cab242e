"""`headrace bench overlap`: what asynchrony costs where environments never wait.

Native environments and policies: collecting and learning share one pool of threads either way,
so that there is little to win; here is what is lost or won, in steps per second and in the time
that a preset takes to its target. Presets are chosen by the latter: which way each picks, and
whether it was the better one, is told.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial

from ..engine.cpus import available_cpus
from ..trainers.begin import preset_of
from ..trainers.config import configure
from .benchmark import Announce, Benchmark, RepeatFlags, Report
from .ranks import chance_above
from .results import Ratio, Result
from .rounds import repeated
from .runs import trained
from .solving import NEVER, Time, never, solution
from .spread import Spread

ENVS = ("cartpole", "pong")
WAYS = {"sync": False, "async": True}
HEADRACE = "headrace"
LEVEL = 0.05  # of the test of which way is the better one, both directions together
SEEDS = 3  # trainings to the target for each repeat: their times differ more than speeds do


@dataclasses.dataclass(frozen=True)
class OverlapFlags(RepeatFlags):
    """The flags of `headrace bench overlap`."""


def run(*, rounds: int, steps: int, seeds: int, announce: Announce) -> list[Result]:
    """Every preset both ways, in turn: `rounds` times for `steps` steps without a target, and
    `seeds` times to its target."""
    ways = [(env, way) for env in ENVS for way in WAYS]
    total, warm = (rounds + 1 + seeds) * len(ways), len(ways)
    for at, (env, way) in enumerate(ways):
        _speed(env, steps, 0, WAYS[way])  # which only warms up
        announce(at + 1, total)
    speeds = repeated(
        [partial(_speed_of_round, *each, steps) for each in ways],
        rounds,
        lambda done: announce(warm + done, total),
    )
    trained_to = repeated(
        [partial(_time_of_round, *each) for each in ways],
        seeds,
        lambda done: announce(warm + rounds * len(ways) + done, total),
    )
    note = f"{steps:,} steps of the preset, 1 update of lag at most where asynchronous"
    threads = available_cpus()
    results = [
        Result.measured(f"{env}-{way}", HEADRACE, env, threads, found.spread(), "steps/s", note)
        for (env, way), found in zip(ways, speeds, strict=True)
    ]
    if not seeds:
        return results
    times = dict(zip(ways, trained_to, strict=True))
    results += [
        solution(f"{env}-{way}-solve", HEADRACE, env, threads, found, "s", "{solved}")
        for (env, way), found in times.items()
    ]
    lists = {key: found.values for key, found in times.items()}
    return [*results, *(verdict(env, picked(env), lists, threads) for env in ENVS)]


def picked(env: str) -> str:
    """The way that the preset trains."""
    config = configure(env, preset_of(env), {})
    return next(way for way, asynchronous in WAYS.items() if asynchronous == config.async_)


def verdict(
    env: str, pick: str, times: Mapping[tuple[str, str], Sequence[Time]], threads: int
) -> Result:
    """Whether the preset's way was the better one: how many times its own time to the target the
    other way takes. Seeds that never reached it count as later than all others."""
    other = next(way for way in WAYS if way != pick)
    own, others = ([never(time) for time in times[env, way]] for way in (pick, other))
    slower, faster = chance_above(own, others), chance_above(others, own)
    if slower < LEVEL / 2:
        said = "the better one"
    elif faster < LEVEL / 2:
        said = f"not the better one: {other} is"
    else:
        said = f"as good as {other}, as far as these times tell"
    name = f"{env}-preset"
    note = f"time to the target {other} / {pick}: the preset picks {pick}, {said}"
    ratios = [b / a for a, b in zip(own, others, strict=True) if max(a, b) < NEVER]
    if not ratios:
        return Result.missing(name, HEADRACE, env, "ratio", note)
    return Result.measured(name, HEADRACE, env, threads, Spread.of(ratios), "ratio", note)


def _speed_of_round(env: str, way: str, steps: int, number: int) -> float:
    return _speed(env, steps, number + 1, WAYS[way])


def _speed(env: str, steps: int, seed: int, asynchronous: bool) -> float:
    return float(trained(env, seed=seed, steps=steps, target=None, async_=asynchronous).sps)


def _time_of_round(env: str, way: str, number: int) -> Time:
    return _time(env, number + 1, WAYS[way])


def _time(env: str, seed: int, asynchronous: bool) -> Time:
    """Seconds to the preset's target; None where it was not reached in the preset's steps."""
    return trained(env, seed=seed, async_=asynchronous).solved_seconds


def ratios(results: list[Result]) -> list[Ratio]:
    """Asynchronous against synchronous."""
    figure = {each.name: each for each in results}
    return [
        (
            f"{env}: the synchronous speed, by --async",
            figure[f"{env}-async"].over(figure[f"{env}-sync"]),
        )
        for env in ENVS
    ]


def report(flags: OverlapFlags, announce: Announce) -> Report:
    """As the command line asks for it."""
    steps, seeds = (400_000, flags.repeats) if flags.quick else (4_000_000, SEEDS * flags.repeats)
    found = run(rounds=flags.repeats, steps=steps, seeds=seeds, announce=announce)
    return Report("Asynchronous training where nothing waits", found, ratios(found))


BENCHMARK = Benchmark(
    "overlap",
    "Measures what asynchrony costs where environments never wait: CartPole and pong with native "
    "policies, synchronous and asynchronous, in turn; and whether their presets pick the better "
    "way.",
    OverlapFlags,
    "headrace bench overlap --out bench/results/overlap.json",
    report,
)
