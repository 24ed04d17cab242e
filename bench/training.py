"""`headrace bench train`: how fast CartPole is learnt at several widths, and where time goes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from typing import Any

from ..engine.cpus import available_cpus
from ..trainers.settings import setting
from ..trainers.train import TrainResult
from . import presets, stages
from .batches import gymnasium_numpy, stepper, transitions_per_row
from .benchmark import Announce, Benchmark, RepeatFlags, Report
from .check import check_cartpole
from .kernel_check import Oracle
from .kernel_data import Minibatch
from .native_kernels import NativeKernels
from .results import Ratio, Result
from .rounds import Repeats, merged, repeated
from .runs import trained
from .shipped import HELP, chosen
from .solving import middle, solution
from .timing import Case, iterations_for, rate

ENV = "cartpole"
CHECKED = 1024  # rows with which the kernels are checked
WIDTHS = (32, 64, 128)  # of the policy's one hidden layer
# Of a training whose rate is taken: long enough that starting it does not matter.
QUICK_STEPS, FULL_STEPS = 3_000_000, 10_000_000
SOLVED_TIMES = 3  # how often each seed is trained to the target: some hundredths of a second each
QUICK_SEEDS = 5
YARDSTICK_ENVS = 1024
YARDSTICK_SECONDS = 0.2  # of one repeat
HEADRACE, YARDSTICK = "headrace", "Gymnasium CartPoleVectorEnv"


@dataclasses.dataclass(frozen=True)
class TrainFlags(RepeatFlags):
    """The flags of `headrace bench train`."""

    seeds: int = setting(10, "how many seeds the time to solve is taken over", low=1, high=1000)
    envs: str | None = setting(
        None, f"instead of CartPole at several widths, the presets of: {HELP}; gymnasium:ID too"
    )


def run(*, rounds: int, steps: int, seeds: int, announce: Announce) -> list[Result]:
    """Checks, then measures: throughput, time to solve, stages, the share of the peak.

    rounds: repeats of everything that is a rate; steps: of one training whose rate is taken;
    seeds: 1 .. seeds, each trained to the target.
    """
    check_learning()
    threads = available_cpus()
    first, second = (count * (len(WIDTHS) + 1) for count in (rounds, SOLVED_TIMES * seeds))
    found = _throughput(rounds, steps, threads, lambda done: announce(done, first + second))
    found += _time_to_solve(seeds, threads, lambda done: announce(first + done, first + second))
    return found + stages.results(WIDTHS, steps, rounds, threads)


def check_learning() -> None:
    """CheckFailed unless the environment, forward pass and gradient are what they should be."""
    presets.check(ENV)
    for width in WIDTHS:
        data = Minibatch((width,), CHECKED)
        oracle = Oracle(data)
        with closing(NativeKernels(data, available_cpus())) as kernels:
            oracle.check_forward(HEADRACE, kernels.forward())
            oracle.check_gradient(HEADRACE, kernels.learn())


def _throughput(rounds: int, steps: int, threads: int, tick: Callable[[int], None]) -> list[Result]:
    """Training without a target at each width, and Gymnasium merely stepping, in turn."""
    batch = gymnasium_numpy(YARDSTICK_ENVS)
    with closing(batch.make()) as env:
        check_cartpole(env, batch)
        work = batch.num_envs * transitions_per_row(env, batch)
        case = Case("yardstick", stepper(env, batch), work)
        count = iterations_for(case, YARDSTICK_SECONDS)
        trained(ENV, steps=1, target=None, seed=0)  # warm-up
        jobs: list[Callable[[int], float]] = [partial(_speed, width, steps) for width in WIDTHS]
        *rates, stepping = repeated([*jobs, lambda _: rate(case, count)], rounds, tick)
    found = [
        Result.measured(
            f"train-{width}",
            HEADRACE,
            ENV,
            threads,
            speeds.spread(),
            "steps/s",
            f"a 1×{width} policy, {steps:,} steps, the preset otherwise",
        )
        for width, speeds in zip(WIDTHS, rates, strict=True)
    ]
    note = f"{YARDSTICK_ENVS} environments, merely stepping"
    return [
        *found,
        Result.measured(batch.name, YARDSTICK, ENV, 1, stepping.spread(), "steps/s", note),
    ]


def _speed(width: int, steps: int, seed: int) -> float:
    """Steps per second of one training without a target."""
    return float(trained(ENV, hidden=(width,), steps=steps, target=None, seed=seed).sps)


def _time_to_solve(seeds: int, threads: int, tick: Callable[[int], None]) -> list[Result]:
    """Seconds of training until the preset's target is reached, over seeds 1 .. seeds; of each
    seed the median of some trainings, all policies in turn."""
    policies: dict[str, dict[str, Any]] = {"solve-preset": {}}
    policies |= {f"solve-{width}": {"hidden": (width,)} for width in WIDTHS}
    jobs = [
        partial(_solve, seed, settings)
        for seed in range(1, seeds + 1)
        for settings in policies.values()
    ]
    runs = repeated(jobs, SOLVED_TIMES, tick)
    return [_solution(name, runs[at :: len(policies)], threads) for at, name in enumerate(policies)]


def _solve(seed: int, settings: dict[str, Any], _: int) -> TrainResult:
    return trained(ENV, seed=seed, **settings)


def _solution(name: str, runs: Sequence[Repeats[TrainResult]], threads: int) -> Result:
    """runs: the trainings of each seed, which are the same but for the clock."""
    times = merged(runs, lambda same: middle([each.solved_seconds for each in same]))
    note = f"return {runs[0].values[0].return_target:g}, {{solved}}"
    return solution(name, HEADRACE, ENV, threads, times, "s", note)


def ratios(results: list[Result]) -> list[Ratio]:
    """Training against Gymnasium's mere stepping."""
    figure = {each.name: each for each in results if each.value}
    yardstick = figure[f"vecenv-{YARDSTICK_ENVS}"]
    return [
        (
            f"training a 1×{width} policy: the speed at which {YARDSTICK} merely steps "
            f"{YARDSTICK_ENVS} environments",
            figure[f"train-{width}"].over(yardstick),
        )
        for width in WIDTHS
    ]


def report(flags: TrainFlags, announce: Announce) -> Report:
    """As the command line asks for it."""
    if flags.envs is not None:
        seeds = min(flags.seeds, 3) if flags.quick else flags.seeds
        found = presets.run(chosen(flags.envs, python=True), seeds, announce)
        return Report("Training by preset", found)
    found = run(
        rounds=flags.repeats,
        steps=QUICK_STEPS if flags.quick else FULL_STEPS,
        seeds=min(flags.seeds, QUICK_SEEDS) if flags.quick else flags.seeds,
        announce=announce,
    )
    return Report("Training on CartPole", found, ratios(found))


BENCHMARK = Benchmark(
    "train",
    "Measures how fast headrace trains on CartPole at several widths, where the time goes, "
    "and how long it takes to solve it, beside Gymnasium's mere stepping; with --envs the same of "
    "other presets, with steps and returns.",
    TrainFlags,
    "headrace bench train --seeds 20 --out bench/results/train.json",
    report,
)
