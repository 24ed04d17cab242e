"""The part of `headrace bench train` that goes through presets: `--envs NAMES`, or all; of
Python environments too ("gymnasium:LunarLander-v3"), which nothing here can check.

For each: steps per second while training, where the time goes, and where the preset has a
target, how long it takes to reach it, how many steps that is, and what the agent then returns
over 100 episodes in environments it has not trained in: choosing the likeliest action
(`greedy`), and drawing its actions as it did while it was trained (`sampled`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

from ..engine.cpus import available_cpus
from ..engine.processes.sources import is_python
from ..engine.resolve import resolve
from ..trainers.begin import preset_of
from ..trainers.config import configure
from ..trainers.evaluate import evaluate
from . import stages
from .results import Result
from .rounds import Repeats, repeated
from .runs import run_of
from .solving import Time, solution
from .sweep import kernel, make, rows_for
from .trajectory import WORLDS, check_trajectory

EPISODES = 100  # of an evaluation
PROFILES = 5  # how often the stages are timed
HEADRACE = "headrace"


@dataclass(frozen=True)
class Trained:
    """One training of a preset, and the evaluation of its agent."""

    speed: float  # steps per second while training
    seconds: Time  # until the target
    steps: Time  # likewise
    greedy: float  # mean return
    sampled: float  # mean return


def check(env: str) -> None:
    """CheckFailed unless the environment, one that ships, does what is on record."""
    with closing(make(env, rows_for(resolve(env).spec, WORLDS), 1)) as vec:
        check_trajectory("headrace", vec, kernel(vec))


def trained(env: str, seed: int) -> Trained:
    """Trains by the preset in a folder that is gone afterwards, and evaluates."""
    with run_of(env, seed=seed) as (done, run):
        greedy, sampled = (
            evaluate(run, episodes=EPISODES, sample=sample).return_mean for sample in (False, True)
        )
    steps = float(done.steps) if done.solved else None
    return Trained(done.sps, done.solved_seconds, steps, greedy, sampled)


def run(names: Sequence[str], seeds: int, announce: Callable[[int, int], object]) -> list[Result]:
    """The figures of these presets; seeds take turns, so that no environment has one minute."""
    native = [name for name in names if not is_python(name)]
    for name in native:
        check(name)
    total = len(names) * (seeds + 1)
    jobs = [partial(_of_round, name) for name in names]
    runs = repeated(jobs, seeds, lambda done: announce(done, total))
    found: list[Result] = []
    for at, name in enumerate(names):
        found += results(name, runs[at])
        if name in native:
            found += shares(name)
        announce(seeds * len(names) + at + 1, total)
    return found


def _of_round(env: str, number: int) -> Trained:
    return trained(env, number + 1)


def results(env: str, runs: Repeats[Trained]) -> Iterator[Result]:
    """Speed, time to target and returns over the seeds."""
    target, threads = configure(env, preset_of(env), {}).target, available_cpus()
    times = runs.map(attrgetter("seconds"))
    note, said = "no target: all the steps of the preset", ""
    if target is not None:
        said = f"return {target:g}, {{solved}}"
        solve = solution("solve", HEADRACE, env, threads, times, "s", said)
        note = solve.note
    for name, unit, what in (
        ("train", "steps/s", "speed"),
        ("greedy", "return", "greedy"),
        ("sampled", "return", "sampled"),
    ):
        spread = runs.spread(attrgetter(what))
        yield Result.measured(name, HEADRACE, env, threads, spread, unit, note)
    if target is not None:
        yield solve
        taken = runs.map(attrgetter("steps"))
        yield solution("solve-steps", HEADRACE, env, threads, taken, "steps", said)


def shares(env: str) -> Iterator[Result]:
    """Where the time of training goes, of all threads' time."""
    threads = available_cpus()
    steps = stages.steps_of(env)
    (profiles,) = repeated([lambda _: stages.profile(env, {}, steps, threads)], PROFILES)
    for group in profiles.values[0].shares():
        spread = profiles.spread(partial(stages.share_of, group))
        yield Result.measured(
            f"stage-{group.replace(' ', '-')}", HEADRACE, env, threads, spread, "share",
            stages.STAGE_NOTE,
        )  # fmt: skip
