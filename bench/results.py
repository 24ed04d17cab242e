"""Results of a benchmark: one JSON document, and tables for people."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..engine.errors import HeadraceError
from .interference import warning
from .spread import Spread

RARE = ("retaken", "short", "missed")  # fields that a document names where they are not 0
WIDTH = 150  # columns that the table needs; a narrower terminal wraps its lines


class ResultsError(HeadraceError, OSError):
    """Results that cannot be written."""


@dataclasses.dataclass(frozen=True)
class Result:
    """One figure. `value` is the median; None when it could not be measured (`note` says why)."""

    name: str  # what was measured, e.g. vecenv-4096
    impl: str  # whose: headrace, Gymnasium CartPoleVectorEnv, ...
    env: str
    threads: int
    value: float | None
    unit: str  # steps/s, us/call, s, share, GFLOP/s; compare.py knows which way is better
    min: float | None
    median: float | None
    max: float | None
    repeats: int
    note: str
    samples: tuple[float, ...] = ()  # the repeats, in the order in which they were taken
    retaken: int = 0  # others that were taken again, since the CPUs gave less or lay apart
    short: int = 0  # of the samples, taken although they did
    missed: int = 0  # seeds that never got there: the median counts them as later than all samples

    @classmethod
    def measured(
        cls,
        name: str,
        impl: str,
        env: str,
        threads: int,
        spread: Spread,
        unit: str,
        note: str = "",
    ) -> Result:
        """A result from repeated measurements."""
        return cls(
            name,
            impl,
            env,
            threads,
            spread.median,
            unit,
            spread.min,
            spread.median,
            spread.max,
            spread.repeats,
            note,
            tuple(float(f"{sample:.6g}") for sample in spread.samples),
            spread.retaken,
            spread.short,
        )

    @property
    def spread(self) -> Spread:
        """Its repeats."""
        return Spread(self.samples, self.retaken, self.short)

    def over(self, other: Result) -> Spread:
        """How many times the other figure this one is; infinitely many where only this one missed
        its target."""
        if not (self.missed or other.missed):
            return self.spread.over(other.spread)
        mine, theirs = ([*each.samples, *[math.inf] * each.missed] for each in (self, other))
        ratios = [a / b for a in mine for b in theirs if min(a, b) < math.inf]
        return Spread(tuple(ratios), self.retaken, self.short)

    @classmethod
    def missing(cls, name: str, impl: str, env: str, unit: str, note: str) -> Result:
        """A result that could not be had."""
        return cls(name, impl, env, 0, None, unit, None, None, None, 0, note)


Ratio = tuple[str, Spread]  # a sentence, and how many times what it names


def document(machine: dict[str, Any], results: Sequence[Result]) -> dict[str, Any]:
    """The JSON document of a benchmark: {machine, results: [...]}."""
    return {"machine": machine, "results": [_entry(result) for result in results]}


def _entry(result: Result) -> dict[str, Any]:
    """Its fields; what happened to no repeat is left out."""
    entry = dataclasses.asdict(result)
    return {key: value for key, value in entry.items() if value or key not in RARE}


def written(contents: dict[str, Any]) -> str:
    """The document as text: one result a line, so that two runs can be read side by side."""
    lines = ",\n".join("    " + json.dumps(each, allow_nan=False) for each in contents["results"])
    head = json.dumps({**contents, "results": []}, indent=2, allow_nan=False)
    return head.removesuffix("[]\n}") + f"[\n{lines}\n  ]\n}}\n"


def save(path: Path, contents: dict[str, Any]) -> None:
    """Writes the document to a file, making its folder; ResultsError when that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(written(contents))
    except OSError as error:
        raise ResultsError(f"--out {path} cannot be written: {error.strerror}") from error


def shown(value: float | None, unit: str) -> str:
    """A figure for people: three significant digits, thousands, millions and more as k, M, G."""
    if value is None:
        return "-"
    if unit in ("share", "share off"):
        return f"{100 * value:.1f} %"
    if value >= 1e9:
        return f"{_digits(value / 1e9)} G"
    if value >= 1e6:
        return f"{_digits(value / 1e6)} M"
    if value >= 1e4:
        return f"{_digits(value / 1e3)} k"
    return _digits(value)


def _digits(value: float) -> str:
    size = abs(value)
    decimals = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3
    return f"{value:,.{decimals}f}"


def remark(result: Result) -> str:
    """Its note, with how many of its repeats were taken while the CPUs gave less or lay
    apart."""
    if not result.short:
        return result.note
    during = f"during {result.short} of {result.repeats} repeats"
    told = f"disturbed: the CPUs gave less or lay further apart {during}"
    return "; ".join(filter(None, (result.note, told)))


def print_report(
    title: str,
    machine: dict[str, Any],
    results: Sequence[Result],
    ratios: Sequence[Ratio],
) -> None:
    """The machine, a table of results and the ratios between them, on stderr."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
    console.width = max(console.width, WIDTH)
    gpu = "" if machine["gpu"] == "none" else f"GPU {machine['gpu']}, "
    console.print(
        f"{machine['cpu']}, {machine['cores']} usable cores, {gpu}{machine['system']}, "
        f"Python {machine['python']}, {machine['compiler'] or 'no C compiler'}"
    )
    console.print(", ".join(f"{name} {number}" for name, number in machine["versions"].items()))
    console.print(f"$ {machine['command']}")
    disturbed = warning(machine)
    if disturbed is not None:
        console.print(f"[yellow]{disturbed}[/]")
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    several = len({each.env for each in results if each.env}) > 1
    headers = ("what", "whose", "threads", "median", "min", "max", "unit", "")
    for header in (*(("env",) if several else ()), *headers):
        right = header in ("threads", "median", "min", "max")
        table.add_column(header, justify="right" if right else "left", no_wrap=True)
    notes = list(dict.fromkeys(note for note in map(remark, results) if note))
    for each in results:
        figures = (shown(value, each.unit) for value in (each.median, each.min, each.max))
        note = remark(each)
        mark = f"[{notes.index(note) + 1}]" if note else ""
        threads = str(each.threads or "")
        env = (each.env,) if several else ()
        table.add_row(*env, each.name, each.impl, threads, *figures, each.unit, escape(mark))
    console.print(table)
    for number, note in enumerate(notes, 1):
        console.print(escape(f"[{number}] {note}"))
    for sentence, ratio in ratios:
        extremes = f"({_digits(ratio.min)} … {_digits(ratio.max)})"
        console.print(f"{_digits(ratio.median):>7} × {extremes:<17} {sentence}", markup=False)
