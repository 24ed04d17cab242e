"""`headrace bench env`: how fast CartPole steps, headrace's and its peers', in one run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

import numpy as np

from ..engine.cpus import available_cpus
from ..trainers.settings import setting
from . import sweep
from .batches import (
    ACTION_BATCHES,
    Batch,
    NotInstalled,
    envpool,
    gymnasium_numpy,
    gymnasium_sync,
    headrace_batch,
    pufferlib,
    stepper,
    transitions_per_row,
)
from .benchmark import Announce, Benchmark, RepeatFlags, Report
from .check import CheckFailed, check_cartpole
from .results import Ratio, Result
from .shipped import HELP, chosen
from .spread import Spread
from .timing import Case, measure_anew

ENV = "cartpole"
SMALL, LARGE = 4096, 65536  # worlds: a batch that fits the caches, and one to share
STEPS, MICROSECONDS = "steps/s", "us/call"
KERNEL = "headrace kernel"
YARDSTICK = "Gymnasium CartPoleVectorEnv"
QUICK_SECONDS, FULL_SECONDS = 0.03, 0.2  # of one repeat
SWEEP_SECONDS = 0.05  # of one repeat of the many figures


@dataclass
class Plan:
    """The cases to time, what each of them is, and the results that are known without timing."""

    cases: list[Case] = field(default_factory=list)
    about: dict[str, tuple[Batch, str]] = field(default_factory=dict)  # case: (batch, unit)
    missing: list[Result] = field(default_factory=list)
    checked: dict[str, float] = field(default_factory=dict)  # case: transitions of a row's step

    def transitions(self, env: Any, batch: Batch) -> float:
        """Of a row's step, once the environment has been checked; both only once."""
        name = _case_name(batch)
        if name not in self.checked:
            check_cartpole(env, batch)
            self.checked[name] = transitions_per_row(env, batch)
        else:
            _reset(env, batch)
        return self.checked[name]

    def add(self, batch: Batch, run: Callable[[int], object], work: float, unit: str) -> None:
        name = _case_name(batch)
        self.cases.append(Case(name, run, work))
        self.about[name] = (batch, unit)


def _case_name(batch: Batch) -> str:
    return f"{batch.name}/{batch.impl}/{batch.threads}"


def _reset(env: Any, batch: Batch) -> None:
    if batch.seedable:
        env.reset(seed=3)
    else:
        env.reset()


def thread_counts() -> list[int]:
    """1, 2 and all the usable cores."""
    return sorted({1, min(2, available_cpus()), available_cpus()})


def batches() -> Iterator[Callable[[], Batch]]:
    """What is compared, each made when asked for: a peer may not be installed."""
    many = thread_counts()[-1]
    for copy in (False, True):
        for threads in thread_counts():
            for num_envs in (SMALL, LARGE):
                yield partial(headrace_batch, num_envs, threads, copy)
    yield partial(gymnasium_numpy, 1024)
    yield partial(gymnasium_numpy, SMALL)
    yield partial(gymnasium_sync, 16)
    yield partial(envpool, 16 * many, many)
    yield partial(envpool, SMALL, many)
    yield partial(pufferlib, SMALL)


def run(*, rounds: int, seconds: float, announce: Announce) -> list[Result]:
    """Checks, then measures everything in interleaved rounds; results in the order of the table."""
    checked: dict[str, float] = {}
    plan = Plan()

    @contextmanager
    def cases() -> Iterator[list[Case]]:
        nonlocal plan
        with ExitStack() as stack:
            plan = Plan(checked=checked)
            for num_envs in (SMALL, LARGE):
                for threads in thread_counts():
                    _plan_kernel(plan, stack, num_envs, threads)
            for make in batches():
                _plan_batch(plan, stack, make)
            _plan_single(plan, stack)
            yield plan.cases

    (spreads,) = measure_anew([cases], rounds=rounds, seconds=seconds, announce=announce)
    return [_result(plan, name, spread) for name, spread in spreads.items()] + plan.missing


def _plan_kernel(plan: Plan, stack: ExitStack, num_envs: int, threads: int) -> None:
    """The engine's step without the Python of VecEnv.step.

    Same-step autoreset, so that every row of every step is a transition.
    """
    from ..engine.make import make_vec
    from ..engine.vector import VecEnv

    executor = "serial" if threads == 1 else "threads"
    made = make_vec(ENV, num_envs, executor=executor, threads=threads, autoreset_mode="SameStep")
    env = cast(VecEnv, stack.enter_context(closing(made)))  # native: never processes
    batch = Batch(
        f"kernel-{num_envs}",
        KERNEL,
        num_envs,
        threads,
        lambda: env,
        next_step=False,
        ours=True,
        action_dtype=np.int32,
        note="with time limit, resets and statistics; its threads check and copy in the actions",
    )
    plan.transitions(env, batch)
    actions, step = batch.actions(), sweep.kernel_step(env)

    def loop(count: int) -> None:
        for index in range(count):
            step(actions[index % ACTION_BATCHES])

    plan.add(batch, loop, float(num_envs), STEPS)


def _plan_batch(plan: Plan, stack: ExitStack, make: Callable[[], Batch]) -> None:
    """A vector environment, when it is there and does what CartPole does."""
    try:
        batch = make()
    except NotInstalled as error:
        missing = Result.missing("vecenv", error.impl, ENV, STEPS, str(error))
        if missing not in plan.missing:  # once for a peer of which several sizes are asked for
            plan.missing.append(missing)
        return
    env = stack.enter_context(closing(batch.make()))
    try:
        share = plan.transitions(env, batch)
    except CheckFailed as error:
        if batch.ours:
            raise
        plan.missing.append(Result.missing(batch.name, batch.impl, ENV, STEPS, str(error)))
        return
    plan.add(batch, stepper(env, batch), share * batch.num_envs, STEPS)


def _plan_single(plan: Plan, stack: ExitStack) -> None:
    """One environment: what a call costs."""
    for copy in (False, True):
        batch = headrace_batch(1, 1, copy)
        env = stack.enter_context(closing(batch.make()))
        env.reset(seed=0)
        plan.add(batch, stepper(env, batch), 1.0, MICROSECONDS)


def _result(plan: Plan, name: str, spread: Spread) -> Result:
    batch, unit = plan.about[name]
    if unit == MICROSECONDS:
        spread = spread.map(lambda rate: 1e6 / rate)
    return Result.measured(batch.name, batch.impl, ENV, batch.threads, spread, unit, batch.note)


def ratios(results: list[Result]) -> list[Ratio]:
    """The comparisons that matter."""
    figure = {(each.name, each.impl, each.threads): each for each in results if each.value}
    gymnasium = figure["vecenv-1024", YARDSTICK, 1]
    copying, views = "headrace VecEnv (copy=True)", "headrace VecEnv (copy=False)"
    against = f"the speed of {YARDSTICK} with 1024 environments"
    found = [
        (f"{KERNEL}, {SMALL} environments, one thread: {against}", f"kernel-{SMALL}", KERNEL),
        (f"VecEnv.step, copy=False, likewise: {against}", f"vecenv-{SMALL}", views),
        (f"VecEnv.step, copy=True, likewise: {against}", f"vecenv-copy-{SMALL}", copying),
    ]
    lines = [(text, figure[name, impl, 1].over(gymnasium)) for text, name, impl in found]
    if (f"kernel-{LARGE}", KERNEL, 2) in figure:
        for what, name, impl in (
            (KERNEL, f"kernel-{LARGE}", KERNEL),
            ("VecEnv.step, copy=False", f"vecenv-{LARGE}", views),
        ):
            factor = figure[name, impl, 2].over(figure[name, impl, 1])
            lines.append((f"{what}, {LARGE} environments: two threads against one", factor))
    return lines


@dataclass(frozen=True)
class EnvFlags(RepeatFlags):
    """The flags of `headrace bench env`."""

    repeats: int = setting(5, "how often everything is measured", low=5, high=1000)
    envs: str = setting("all", HELP)


def report(flags: EnvFlags, announce: Announce) -> Report:
    """As the command line asks for it: CartPole beside its peers, then environment by
    environment, then the machine's copy bandwidth."""
    names = chosen(flags.envs)
    seconds = QUICK_SECONDS if flags.quick else FULL_SECONDS
    found: list[Result] = []
    compared: list[Ratio] = []
    if ENV in names:
        found = run(rounds=flags.repeats, seconds=seconds, announce=announce)
        compared = ratios(found)
    found += _swept(names, found, flags, announce)
    return Report("Stepping (transitions per second)", found, compared)


def _swept(
    names: list[str], known: list[Result], flags: EnvFlags, announce: Announce
) -> list[Result]:
    """Every environment by rows and threads, but for what is known already."""
    plan = sweep.Sweep(flags.repeats, SWEEP_SECONDS, announce=announce)
    if flags.quick:
        plan = replace(plan, seconds=QUICK_SECONDS, sizes=(SMALL,), threads=(1,))
    found = sweep.run(names, plan)
    measured = [each for each in known if each.impl == KERNEL] + found
    here = {(each.name, each.impl, each.env, each.threads) for each in known}
    own = [each for each in found if (each.name, each.impl, each.env, each.threads) not in here]
    return [*own, *sweep.limits(list(_unique(measured)), plan)]


def _unique(found: list[Result]) -> Iterator[Result]:
    """The first of those that measure the same."""
    seen = set()
    for each in found:
        key = (each.name, each.impl, each.env, each.threads)
        if key not in seen:
            seen.add(key)
            yield each


BENCHMARK = Benchmark(
    "env",
    "Measures how fast the shipped environments step: the kernel alone, VecEnv.step and "
    "send/recv, from 1 to 1 M rows, against the machine's copy bandwidth; CartPole also beside "
    "what people use today (Gymnasium; EnvPool and PufferLib where they are installed).",
    EnvFlags,
    "headrace bench env --out bench/results/env.json",
    report,
)
