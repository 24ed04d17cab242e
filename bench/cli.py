"""`headrace bench NAME`: finds the benchmark, runs it, prints its tables and its document."""

from __future__ import annotations

import difflib
import importlib
import shutil
import sys
import textwrap
from pathlib import Path
from typing import Any

from ..flags import UsageError, Verb
from ..output import print_json
from . import machine, plots, results
from .benchmark import Benchmark, Flags, Report
from .distance import Distance
from .given import Given, watching
from .interference import Interference, forewarn, told

# name: (module that holds its BENCHMARK, what it measures)
BENCHMARKS = {
    "env": (
        "stepping",
        "how fast environments step, CartPole beside Gymnasium, EnvPool, PufferLib",
    ),
    "train": ("training", "how fast CartPole is learnt, where the time goes, seconds to solve"),
    "torch": ("torch_ceiling", "a torch policy's training against torch alone"),
    "kernels": ("kernels", "the trainer's kernels against torch, eager and compiled"),
    "ladder": ("ladder", "what asynchrony gains where steps take a heavy-tailed time"),
    "overlap": ("overlap", "what asynchrony costs where nothing waits"),
    "peers": ("peers.benchmark", "headrace beside what people use today, each in its own venv"),
    "vec": ("vec", "Python environments in worker processes, beside bare loops and peers"),
    "staleness": ("staleness", "what old weights cost, by lag and correction"),
}
# name: (module that holds its `main(argv) -> int`, what it does)
COMMANDS = {
    "all": ("everything", "all of them; with --quick those of less than two minutes together"),
    "compare": ("compare", "two runs of a benchmark: what moved beyond the noise"),
}


def main(argv: list[str]) -> int:
    """Runs one benchmark: tables on stderr, with --json one document on stdout."""
    if not argv or argv[0] in ("-h", "--help"):
        print(_usage(), file=sys.stdout if argv else sys.stderr)
        return 0 if argv else 2
    if argv[0] in COMMANDS:
        return int(_module(COMMANDS[argv[0]][0]).main(argv[1:]))
    benchmark = benchmark_named(argv[0])
    verb = Verb(f"bench {benchmark.name}", benchmark.summary, benchmark.flags, benchmark.example)
    flags = benchmark.flags(**verb.parse(argv[1:]))
    checked_plots(flags)
    here = machine.describe(argv)
    finish(flags, here, run(benchmark, flags, here))
    return 0


def run(
    benchmark: Benchmark, flags: Any, here: dict[str, Any], distance: Distance | None = None
) -> Report:
    """Measures, and prints the tables on stderr; `here` is told of other work meanwhile.

    distance: of the cores, with what other benchmarks of this process found of it.
    """
    forewarn()
    watch = Interference()
    looks = Given(again=not flags.quick, distance=distance)
    with watching(looks) as given, _Progress() as progress:
        report = benchmark.report(flags, progress.show)
    here |= told(watch, given)
    results.print_report(report.title, here, report.results, report.ratios)
    return report


def checked_plots(flags: Flags) -> None:
    """Says that charts cannot be drawn before anything is measured."""
    if flags.plots is not None:
        plots.check_plots()


def finish(flags: Flags, here: dict[str, Any], report: Report) -> None:
    """The document, where it was asked for: a file, charts, stdout."""
    contents = results.document(here, report.results)
    if flags.out is not None:
        results.save(Path(flags.out), contents)
    if flags.plots is not None:
        plots.draw(Path(flags.plots), report.title, report.results)
    if flags.json:
        print_json(contents)


def benchmark_named(name: str) -> Benchmark:
    """The benchmark of that name; its module is imported only now."""
    if name not in BENCHMARKS:
        known = [*BENCHMARKS, *COMMANDS]
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        raise UsageError(f"unknown benchmark {name!r}; {hint}")
    found: Benchmark = _module(BENCHMARKS[name][0]).BENCHMARK
    return found


def _module(name: str) -> Any:
    return importlib.import_module(f".{name}", __package__)


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
            print(f"\rmeasuring {min(done, total)}/{total}", end="", file=sys.stderr, flush=True)


def _usage() -> str:
    width = min(shutil.get_terminal_size().columns, 100)
    lines = [
        textwrap.fill(f"  {name:<11}{summary}", width, subsequent_indent=" " * 13)
        for name, (_, summary) in {**BENCHMARKS, **COMMANDS}.items()
    ]
    return "\n".join(["usage: headrace bench NAME [flags]", "", *lines])
