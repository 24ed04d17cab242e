"""`headrace bench NAME`: the flags of each benchmark, its tables and its document."""

from __future__ import annotations

import dataclasses
import difflib
import shutil
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..flags import UsageError, Verb
from ..output import print_json
from ..trainers.settings import setting
from . import machine, results
from .results import Result


@dataclasses.dataclass(frozen=True)
class EnvFlags:
    """The flags of `headrace bench env`."""

    json: bool = setting(False, "print the results as one JSON document on stdout")
    quick: bool = setting(False, "shorter runs: rougher figures in some seconds")
    repeats: int = setting(7, "how often everything is measured", low=5, high=1000)
    out: str | None = setting(None, "also write the JSON document to this file")


@dataclasses.dataclass(frozen=True)
class TrainFlags(EnvFlags):
    """The flags of `headrace bench train`."""

    seeds: int = setting(10, "how many seeds the time to solve is taken over", low=1, high=1000)


@dataclasses.dataclass(frozen=True)
class StalenessFlags:
    """The flags of `headrace bench staleness`."""

    json: bool = setting(False, "print the results as one JSON document on stdout")
    quick: bool = setting(False, "a tenth of the steps and one seed: no figures, a trial")
    seeds: int = setting(5, "how many seeds each cell is taken over", low=1, high=1000)
    out: str | None = setting(None, "also write the JSON document to this file")


@dataclasses.dataclass(frozen=True)
class LadderFlags(EnvFlags):
    """The flags of `headrace bench ladder`."""

    repeats: int = setting(5, "how often every rung is climbed", low=5, high=1000)
    seconds: float = setting(12.0, "wall time of one run", above=0)


BENCHMARKS = {
    "staleness": Verb(
        "bench staleness",
        "Measures what old weights cost: return at equal samples for lags of 0, 1, 4 and 16 "
        "updates and each correction, on CartPole and Acrobot.",
        StalenessFlags,
        "headrace bench staleness --out bench/results/staleness.json",
    ),
    "ladder": Verb(
        "bench ladder",
        "Measures what asynchrony gains where environments take a heavy-tailed time to step: "
        "from a lockstep trainer, one switch at a time.",
        LadderFlags,
        "headrace bench ladder --out bench/results/ladder.json",
    ),
    "env": Verb(
        "bench env",
        "Measures how fast CartPole steps: the kernel alone, VecEnv.step, and what people use "
        "today (Gymnasium; EnvPool and PufferLib where they are installed), in one run.",
        EnvFlags,
        "headrace bench env --out bench/results/env.json",
    ),
    "train": Verb(
        "bench train",
        "Measures how fast headrace trains on CartPole at several widths, where the time goes, "
        "and how long it takes to solve it, beside Gymnasium's mere stepping.",
        TrainFlags,
        "headrace bench train --seeds 20 --out bench/results/train.json",
    ),
}
QUICK_SECONDS, FULL_SECONDS = 0.03, 0.2  # of one repeat


def main(argv: list[str]) -> int:
    """Runs one benchmark: tables on stderr, with --json one document on stdout."""
    if not argv or argv[0] in ("-h", "--help"):
        print(_usage(), file=sys.stdout if argv else sys.stderr)
        return 0 if argv else 2
    if argv[0] not in BENCHMARKS:
        near = difflib.get_close_matches(argv[0], BENCHMARKS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(BENCHMARKS)}"
        raise UsageError(f"unknown benchmark {argv[0]!r}; {hint}")
    given = BENCHMARKS[argv[0]].parse(argv[1:])
    flags = BENCHMARKS[argv[0]].settings(**given)
    here = machine.describe(argv)
    found, ratios, title = RUNNERS[argv[0]](flags)
    results.print_report(title, here, found, ratios)
    contents = results.document(here, found)
    if flags.out is not None:
        results.save(Path(flags.out), contents)
    if flags.json:
        print_json(contents)
    return 0


Report = tuple[list[Result], list[tuple[str, float]], str]


def _env(flags: EnvFlags) -> Report:
    from . import stepping

    with _Progress() as progress:
        found = stepping.run(
            rounds=flags.repeats,
            seconds=QUICK_SECONDS if flags.quick else FULL_SECONDS,
            announce=progress.show,
        )
    return found, stepping.ratios(found), "Stepping CartPole (transitions per second)"


def _train(flags: TrainFlags) -> Report:
    from . import training

    with _Progress() as progress:
        found = training.run(
            rounds=flags.repeats,
            steps=400_000 if flags.quick else 2_000_000,
            seeds=min(flags.seeds, 3) if flags.quick else flags.seeds,
            announce=progress.show,
        )
    return found, training.ratios(found), "Training on CartPole"


def _staleness(flags: StalenessFlags) -> Report:
    from . import staleness

    with _Progress() as progress:
        found = staleness.run(
            seeds=1 if flags.quick else flags.seeds,
            share=0.1 if flags.quick else 1.0,
            announce=progress.show,
        )
    return found, staleness.ratios(found), "Return by lag and correction"


def _ladder(flags: LadderFlags) -> Report:
    from . import ladder

    with _Progress() as progress:
        found = ladder.run(
            rounds=1 if flags.quick else flags.repeats,
            seconds=2.0 if flags.quick else flags.seconds,
            announce=progress.show,
        )
    return found, ladder.ratios(found), "From lockstep to asynchronous, 64 environments"


RUNNERS: dict[str, Callable[[Any], Report]] = {
    "env": _env,
    "train": _train,
    "staleness": _staleness,
    "ladder": _ladder,
}


class _Progress:
    """One line on a terminal's stderr that is gone when the benchmark ends."""

    def __init__(self) -> None:
        self.visible = sys.stderr.isatty()

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self.visible:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def show(self, done: int, total: int) -> None:
        """Shows that `done` of `total` measurements have been taken."""
        if self.visible:
            print(f"\rmeasuring {done}/{total}", end="", file=sys.stderr, flush=True)


def _usage() -> str:
    width = min(shutil.get_terminal_size().columns, 100)
    lines = [
        textwrap.fill(f"  {name:<11}{verb.summary}", width, subsequent_indent=" " * 13)
        for name, verb in BENCHMARKS.items()
    ]
    return "\n".join(["usage: headrace bench NAME [flags]", "", *lines])
