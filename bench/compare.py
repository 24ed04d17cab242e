"""`headrace bench compare A.json B.json`: what moved between two runs, beyond the noise.

A figure's noise is what its repeats say of it: it has moved when the medians lie further apart
than both runs' ranges (greatest - least) are wide together, and further than 5 %. Repeats of one
run share a minute of the machine, so that the next run differs by more than they do among
themselves: two ranges that merely do not touch are called unclear.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..engine.errors import HeadraceError
from ..flags import Verb
from ..output import print_json
from ..trainers.settings import required, setting
from .results import shown

FLOOR = 0.05  # of a median: smaller differences are never told from noise
LESS_IS_BETTER = ("s", "us/call")
NEUTRAL = ("steps",)  # neither more nor less is better
SAME, UNCLEAR, MOVED = "same", "unclear", "moved"
Figure = Mapping[str, Any]


class CompareError(HeadraceError):
    """A file that holds no results."""


@dataclasses.dataclass(frozen=True)
class CompareFlags:
    """The flags of `headrace bench compare`."""

    before: str = required("results, as `headrace bench NAME --out FILE` writes them")
    after: str = required("other results of the same benchmark")
    json: bool = setting(False, "print the comparison as one JSON document on stdout")


VERB = Verb(
    "bench compare",
    "Compares two runs of a benchmark: which figures moved, and whether that is beyond the noise "
    "(further apart than both runs' ranges are wide together, and than 5 %).",
    CompareFlags,
    "headrace bench compare before.json after.json",
)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One figure in two runs."""

    name: str
    impl: str
    env: str
    threads: int
    unit: str
    before: float  # median
    after: float
    factor: float  # after / before
    noise: float  # how far apart medians may lie, as a share of `before`
    verdict: str  # same: the ranges touch; unclear; moved
    better: bool | None  # whether a figure that moved did so for the better; None: neither


def load(path: str) -> dict[str, Any]:
    """The document in a file; CompareError when there is none."""
    try:
        contents: dict[str, Any] = json.loads(Path(path).read_text())
    except OSError as error:
        raise CompareError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise CompareError(f"{path} is not JSON: {error}") from None
    if not isinstance(contents, dict) or not {"machine", "results"} <= contents.keys():
        raise CompareError(
            f"{path} holds no results: expected what `headrace bench NAME --out FILE` writes"
        )
    return contents


def key_of(figure: Figure) -> tuple[str, str, str, int]:
    return figure["name"], figure["impl"], figure["env"], figure["threads"]


def compared(before: Figure, after: Figure) -> Comparison:
    """Two measurements of the same; both have a value."""
    a, b = before["median"], after["median"]
    ranges = sum(each["max"] - each["min"] for each in (before, after))
    noise = max(ranges, FLOOR * abs(a))
    if before["min"] <= after["max"] and after["min"] <= before["max"]:
        verdict = SAME
    else:
        verdict = MOVED if abs(b - a) > noise else UNCLEAR
    better = None
    if verdict == MOVED and before["unit"] not in NEUTRAL:
        better = (b < a) == (before["unit"] in LESS_IS_BETTER)
    factor = b / a if a else float(b == a)
    return Comparison(
        *key_of(before), before["unit"], a, b, factor, noise / abs(a) if a else 0.0, verdict, better
    )


@dataclasses.dataclass(frozen=True)
class Outcome:
    """All figures of two runs."""

    differences: dict[str, tuple[Any, Any]]  # of machine and command
    comparisons: Sequence[Comparison]
    only_before: Sequence[str]
    only_after: Sequence[str]

    def count(self, verdict: str) -> int:
        return sum(each.verdict == verdict for each in self.comparisons)

    def document(self) -> dict[str, Any]:
        """For JSON; `equal`: nothing moved."""
        return {
            "equal": self.count(MOVED) == 0,
            "differences": {name: list(pair) for name, pair in self.differences.items()},
            "only_before": list(self.only_before),
            "only_after": list(self.only_after),
            "results": [dataclasses.asdict(each) for each in self.comparisons],
        }


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> Outcome:
    """Two documents, figure by figure."""
    old, new = (
        {key_of(each): each for each in document["results"] if each["value"] is not None}
        for document in (before, after)
    )
    return Outcome(
        _differences(before["machine"], after["machine"]),
        [compared(old[key], new[key]) for key in old if key in new],
        [_label(*key) for key in old if key not in new],
        [_label(*key) for key in new if key not in old],
    )


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What was not the same about machine and command, but for other work and where it wrote."""
    found: dict[str, tuple[Any, Any]] = {}
    for name in sorted({*before, *after} - {"load", "other_work", "command"}):
        if before.get(name) != after.get(name):
            found[name] = (before.get(name), after.get(name))
    commands = [_measuring(machine.get("command", "")) for machine in (before, after)]
    if commands[0] != commands[1]:
        found["command"] = (commands[0], commands[1])
    return found


def _measuring(command: str) -> str:
    """The command without what does not change what is measured."""
    words, kept = iter(command.split()), []
    for word in words:
        if word in ("--out", "--plots"):
            next(words, None)
        elif word != "--json" and not word.startswith(("--out=", "--plots=")):
            kept.append(word)
    return " ".join(kept)


def _label(name: str, impl: str, env: str, threads: int) -> str:
    where = f", {env}" if env else ""
    return f"{name} ({impl}{where}, {threads} thread{'s' * (threads != 1)})"


# ---- for people ----------------------------------------------------------------------------


def main(argv: list[str]) -> int:
    """The table of what is not the same on stderr, with --json everything on stdout."""
    flags = CompareFlags(**VERB.parse(argv))
    outcome = compare(load(flags.before), load(flags.after))
    print_outcome(outcome)
    if flags.json:
        print_json(outcome.document())
    return 0


def print_outcome(outcome: Outcome) -> None:
    """What differs, and how many figures do not."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
    for name, (before, after) in outcome.differences.items():
        console.print(f"[yellow]{name} differs:[/] {escape(f'{before} | {after}')}")
    told = [each for each in outcome.comparisons if each.verdict != SAME]
    if told:
        table = Table(box=None, pad_edge=False)
        for header in ("what", "before", "after", "unit", "×", "noise", ""):
            right = header in ("before", "after", "×", "noise")
            table.add_column(header, justify="right" if right else "left", no_wrap=True)
        for each in sorted(told, key=lambda each: each.verdict):
            table.add_row(
                escape(_label(each.name, each.impl, each.env, each.threads)),
                shown(each.before, each.unit),
                shown(each.after, each.unit),
                each.unit,
                f"{each.factor:.3f}",
                f"±{100 * each.noise:.1f} %",
                _verdict(each),
            )
        console.width = max(console.width, 140)
        console.print(table)
    for which, names in (("before", outcome.only_before), ("after", outcome.only_after)):
        if names:
            console.print(escape(f"only {which}: {', '.join(names)}"))
    console.print(
        f"{len(outcome.comparisons)} figures: {outcome.count(SAME)} the same, "
        f"{outcome.count(UNCLEAR)} apart by less than the noise, {outcome.count(MOVED)} moved"
    )


def _verdict(each: Comparison) -> str:
    if each.verdict != MOVED or each.better is None:
        return each.verdict
    return "[green]better[/]" if each.better else "[red]worse[/]"
