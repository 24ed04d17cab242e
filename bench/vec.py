"""`headrace bench vec`: Python environments in worker processes, and what people use today.

64 of Gymnasium's CartPole, in Python: bare loops in as many processes as there are cores are
the limit. Then environments whose steps take a heavy-tailed time, in continuous batches.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

from ..engine.cpus import available_cpus
from ..trainers.settings import setting
from . import tails
from .bare import BareLoops
from .batches import Batch, NotInstalled, stepper, transitions_per_row
from .benchmark import Announce, Benchmark, RepeatFlags, Report
from .check import CheckFailed, check_cartpole
from .peers.drivers.protocol import VEC_ENVS
from .peers.installing import tell
from .peers.vectorised import multiprocessing, remote_loop
from .python_batches import (
    NAME,
    cartpole,
    gymnasium_vector,
    halves_loop,
    headrace_caller,
    headrace_halves,
    headrace_step,
    sb3_subproc,
)
from .results import Ratio, Result
from .spread import Spread
from .timing import Case, measure

ENVS = VEC_ENVS
STEPS = "steps/s"
LIMIT = "bare loops"


def batches(num_envs: int, workers: int, install: bool) -> list[tuple[Callable[[], Batch], Any]]:
    """What is compared, and the loop of each; made when asked for: a peer may not be there.

    install: peers that want a virtual environment of their own into one, once.
    """
    puffer = partial(
        multiprocessing, "PufferLib Multiprocessing", "pufferlib", install=install, tell=tell
    )
    return [
        (partial(headrace_step, num_envs, workers, copy=False), stepper),
        (partial(headrace_step, num_envs, workers, copy=True), stepper),
        (partial(headrace_halves, num_envs, workers), halves_loop),
        (partial(headrace_caller, num_envs, workers, halves=False), stepper),
        (partial(headrace_caller, num_envs, workers, halves=True), halves_loop),
        (partial(gymnasium_vector, "Sync", num_envs), stepper),
        (partial(gymnasium_vector, "Async", num_envs), stepper),
        (partial(sb3_subproc, num_envs), stepper),
        (puffer, remote_loop),
    ]


def run(
    *, rounds: int, seconds: float, tail_seconds: float, announce: Announce, num_envs: int = ENVS,
    install: bool = False,
) -> list[Result]:  # fmt: skip
    """Checks, then measures all in interleaved rounds; the heavy-tailed ones afterwards.

    tail_seconds: wall time of one run of the heavy-tailed environments; 0: none.
    """
    workers = available_cpus()
    tail_rounds = rounds if tail_seconds else 0
    with ExitStack() as stack:
        bare = stack.enter_context(closing(BareLoops(cartpole, num_envs, workers)))
        cases = [Case(LIMIT, bare.run, float(num_envs))]
        about: dict[str, Batch] = {}
        missing: list[Result] = []
        for make, loop in batches(num_envs, workers, install):
            try:
                batch = make()
            except NotInstalled as error:
                missing.append(Result.missing("step", error.impl, NAME, STEPS, str(error)))
                continue
            env = stack.enter_context(closing(batch.make()))
            try:
                check_cartpole(env, batch)
            except CheckFailed as error:
                if batch.ours:
                    raise
                missing.append(Result.missing("step", batch.impl, NAME, STEPS, str(error)))
                continue
            share = transitions_per_row(env, batch, steps=100)
            key = f"{batch.name}/{batch.impl}"
            cases.append(Case(key, loop(env, batch), share * num_envs, batch.rest))
            about[key] = batch
        timed = rounds * len(cases)
        total = timed + 2 * tail_rounds
        spreads = measure(
            cases, rounds=rounds, seconds=seconds, announce=lambda done: announce(done, total)
        )
    found = [_limit(spreads.pop(LIMIT), workers)]
    found += [_result(about[key], spread) for key, spread in spreads.items()]
    if tail_rounds:
        found += tails.run(
            rounds=tail_rounds,
            seconds=tail_seconds,
            announce=lambda done: announce(timed + done, total),
        )
    return found + missing


def _limit(spread: Spread, processes: int) -> Result:
    note = "processes that step their share in a loop: what the environments themselves allow"
    return Result.measured("limit", LIMIT, NAME, processes, spread, STEPS, note)


def _result(batch: Batch, spread: Spread) -> Result:
    return Result.measured(batch.name, batch.impl, NAME, batch.threads, spread, STEPS, batch.note)


def ratios(results: list[Result]) -> list[Ratio]:
    """headrace against its peers and against the limit."""
    ours = [r for r in results if r.impl.startswith("headrace") and r.env == NAME]
    others = [r for r in results if r not in ours and r.env == NAME and r.value]
    found = [
        (f"{own.impl}, {own.name}: {other.impl}", own.over(other))
        for own in ours
        for other in others
        if own.value and other.value
    ]
    tail = {r.name: r for r in results if r.env == tails.ENV}
    if "tail-lockstep" in tail:
        gain = tail["tail-continuous"].over(tail["tail-lockstep"])
        found.append(("heavy-tailed environments, continuous batches: lockstep", gain))
    return found


@dataclasses.dataclass(frozen=True)
class VecFlags(RepeatFlags):
    """The flags of `headrace bench vec`."""

    repeats: int = setting(5, "how often everything is measured", low=5, high=1000)


def report(flags: VecFlags, announce: Announce) -> Report:
    """As the command line asks for it."""
    found = run(
        rounds=flags.repeats,
        seconds=0.1 if flags.quick else 0.5,
        tail_seconds=0.0 if flags.quick else 6.0,  # 160 processes to start
        announce=announce,
        install=not flags.quick,
    )
    return Report(f"Python environments, {ENVS} of them", found, ratios(found))


BENCHMARK = Benchmark(
    "vec",
    "Measures how fast Python environments are stepped in worker processes: CartPole beside bare "
    "loops, Gymnasium's Sync and Async, Stable-Baselines3 and PufferLib where they are installed; "
    "then, but with --quick, environments of a heavy-tailed step time, in continuous batches and "
    "in lockstep.",
    VecFlags,
    "headrace bench vec --out bench/results/vec.json",
    report,
)
