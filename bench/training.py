"""`headrace bench train`: how fast CartPole is learnt at several widths, and where time goes."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable
from contextlib import closing
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
from .runs import trained
from .shipped import HELP, chosen
from .timing import Case, Spread, iterations_for

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
    total = rounds * (len(WIDTHS) + 1) + SOLVED_TIMES * seeds * (len(WIDTHS) + 1)
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1
        announce(done, total)

    found = _throughput(rounds, steps, threads, tick) + _time_to_solve(seeds, threads, tick)
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


def _throughput(rounds: int, steps: int, threads: int, tick: Callable[[], None]) -> list[Result]:
    """Training without a target at each width, and Gymnasium merely stepping, in turn."""
    batch = gymnasium_numpy(YARDSTICK_ENVS)
    rates: dict[int, list[float]] = {width: [] for width in WIDTHS}
    stepping: list[float] = []
    with closing(batch.make()) as env:
        check_cartpole(env, batch)
        work = batch.num_envs * transitions_per_row(env, batch)
        loop = stepper(env, batch)
        count = iterations_for(Case("yardstick", loop), YARDSTICK_SECONDS)
        trained(ENV, steps=1, target=None, seed=0)  # warm-up
        for number in range(rounds):
            for width in WIDTHS:
                settings = {"hidden": (width,), "steps": steps, "target": None, "seed": number}
                rates[width].append(trained(ENV, **settings).sps)
                tick()
            started = time.perf_counter()
            loop(count)
            stepping.append(count * work / (time.perf_counter() - started))
            tick()
    found = [
        Result.measured(
            f"train-{width}",
            HEADRACE,
            ENV,
            threads,
            Spread.of(rates[width]),
            "steps/s",
            f"a 1×{width} policy, {steps:,} steps, the preset otherwise",
        )
        for width in WIDTHS
    ]
    note = f"{YARDSTICK_ENVS} environments, merely stepping"
    return [
        *found,
        Result.measured(batch.name, YARDSTICK, ENV, 1, Spread.of(stepping), "steps/s", note),
    ]


def _time_to_solve(seeds: int, threads: int, tick: Callable[[], None]) -> list[Result]:
    """Seconds of training until the preset's target is reached, over seeds 1 .. seeds; of each
    seed the median of some trainings, all policies in turn."""
    policies: dict[str, dict[str, Any]] = {"solve-preset": {}}
    policies |= {f"solve-{width}": {"hidden": (width,)} for width in WIDTHS}
    runs: dict[tuple[str, int], list[TrainResult]] = {}
    for _ in range(SOLVED_TIMES):
        for seed in range(1, seeds + 1):
            for name, settings in policies.items():
                runs.setdefault((name, seed), []).append(trained(ENV, seed=seed, **settings))
                tick()
    found = []
    for name in policies:
        found.append(_solution(name, [runs[name, s] for s in range(1, seeds + 1)], threads))
    return found


def _solution(name: str, runs: list[list[TrainResult]], threads: int) -> Result:
    """runs: the trainings of each seed, which are the same but for the clock."""
    seconds = []
    for same in runs:
        times = [run.solved_seconds for run in same if run.solved_seconds is not None]
        if times:
            seconds.append(statistics.median(times))
    note = f"return {runs[0][0].return_target:g}, {len(seconds)} of {len(runs)} seeds solved"
    if not seconds:
        return Result.missing(name, HEADRACE, ENV, "s", note)
    return Result.measured(name, HEADRACE, ENV, threads, Spread.of(seconds), "s", note)


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
