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

from ..engine.cpus import available_cpus
from ..engine.processes.sources import is_python
from ..engine.resolve import resolve
from ..trainers.begin import preset_of
from ..trainers.config import configure
from ..trainers.evaluate import evaluate
from . import stages
from .results import Result
from .runs import run_of
from .sweep import kernel, make, rows_for
from .timing import Spread
from .trajectory import WORLDS, check_trajectory

EPISODES = 100  # of an evaluation
PROFILES = 5  # how often the stages are timed
HEADRACE = "headrace"


@dataclass(frozen=True)
class Trained:
    """One training of a preset, and the evaluation of its agent."""

    seconds: float  # until the target, or of the whole training
    steps: int  # likewise
    speed: float  # steps per second while training
    solved: bool
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
    seconds = done.seconds if done.solved_seconds is None else done.solved_seconds
    return Trained(seconds, done.steps, done.sps, done.solved, greedy, sampled)


def run(names: Sequence[str], seeds: int, announce: Callable[[int, int], object]) -> list[Result]:
    """The figures of these presets; seeds take turns, so that no environment has one minute."""
    native = [name for name in names if not is_python(name)]
    for name in native:
        check(name)
    runs: dict[str, list[Trained]] = {name: [] for name in names}
    total = len(names) * (seeds + 1)
    for seed in range(1, seeds + 1):
        for at, name in enumerate(names):
            runs[name].append(trained(name, seed))
            announce((seed - 1) * len(names) + at + 1, total)
    found: list[Result] = []
    for at, name in enumerate(names):
        found += results(name, runs[name])
        if name in native:
            found += shares(name)
        announce(seeds * len(names) + at + 1, total)
    return found


def results(env: str, runs: Sequence[Trained]) -> Iterator[Result]:
    """Speed, time to target and returns over the seeds."""
    target = configure(env, preset_of(env), {}).target
    solved = [each for each in runs if each.solved]
    figures = {
        "train": ("steps/s", [each.speed for each in runs]),
        "greedy": ("return", [each.greedy for each in runs]),
        "sampled": ("return", [each.sampled for each in runs]),
    }
    note = "no target: all the steps of the preset"
    if target is not None:
        note = f"return {target:g}, {len(solved)} of {len(runs)} seeds solved"
        if not solved:
            yield Result.missing("solve", HEADRACE, env, "s", note)
    if solved:
        figures["solve"] = ("s", [each.seconds for each in solved])
        figures["solve-steps"] = ("steps", [float(each.steps) for each in solved])
    for name, (unit, values) in figures.items():
        threads, spread = available_cpus(), Spread.of(values)
        yield Result.measured(name, HEADRACE, env, threads, spread, unit, note)


def shares(env: str) -> Iterator[Result]:
    """Where the time of training goes, of all threads' time."""
    threads = available_cpus()
    profiles = [stages.profile(env, {}, stages.steps_of(env), threads) for _ in range(PROFILES)]
    found = [each.shares() for each in profiles]
    for group in found[0]:
        spread = Spread.of([share[group] for share in found])
        yield Result.measured(
            f"stage-{group.replace(' ', '-')}", HEADRACE, env, threads, spread, "share",
            stages.STAGE_NOTE,
        )  # fmt: skip
