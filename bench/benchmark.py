"""What a benchmark is: flags, and a function that measures and reports.

A module of bench/ that measures something ends in `BENCHMARK = Benchmark(...)` and has a line in
the table of cli.py; flags, help, progress, tables, --json and --out come from there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from ..trainers.settings import setting
from .results import Ratio, Result

Announce = Callable[[int, int], None]  # (measurements done, measurements in all)


@dataclasses.dataclass(frozen=True)
class Flags:
    """The flags that every benchmark has; each adds its own in a subclass."""

    json: bool = setting(False, "print the results as one JSON document on stdout")
    quick: bool = setting(False, "shorter runs: rougher figures in some seconds")
    out: str | None = setting(None, "also write the JSON document to this file")
    plots: str | None = setting(
        None, "also draw the figures, as PNG charts in this folder (needs matplotlib)"
    )


@dataclasses.dataclass(frozen=True)
class RepeatFlags(Flags):
    """Those of a benchmark whose repeats can be chosen."""

    repeats: int = setting(7, "how often everything is measured", low=5, high=1000)


@dataclasses.dataclass(frozen=True)
class Report:
    """What a benchmark found: `ratios` are the comparisons that matter."""

    title: str
    results: Sequence[Result]
    ratios: Sequence[Ratio] = ()


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """One `headrace bench NAME`."""

    name: str
    summary: str  # of its --help
    flags: type[Any]  # a subclass of Flags
    example: str
    report: Callable[[Any, Announce], Report]  # given the flags; checks before it times
