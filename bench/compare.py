"""`headrace bench compare A.json B.json`: what moved between two runs, beyond the noise.

A figure has moved when the Mann-Whitney test (ranks.py) rejects, at 5 %, that its repeats in the
two runs lie no further apart than a margin. The margin is what two runs of the same may differ
by, since the repeats of one run share its minutes of the machine: 5 % of the figure, or where the
other figures say more, 2.5 robust standard deviations of all figures' factors about their
median; never more than 9 %, so that a change of 10 % with little noise of its own is always
seen. Where other work disturbed a run, the margin is no less than the share of the machine that
it took; for a figure that was measured while the CPUs gave less than they have, no less than what
was missing. Medians further apart than the margin without that proof are called unclear. With fewer
than four repeats the proof is that the ranges lie apart; one repeat alone has none.

What cores that lie apart (distance.py) cost depends on the figure. So there is no proof for one of
which disturbed repeats stand in a run whose cores lay apart at times, nor for one of several
threads where they lay further apart in one run than in the other.
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from ..engine.errors import HeadraceError
from ..flags import Verb
from ..output import print_json
from ..trainers.settings import required, setting
from .distance import APART, were_apart
from .ranks import chance_above
from .results import shown

LEAST, MOST = 0.05, 0.09  # the margin: of a median, what two runs of the same may differ by
FIGURES = 10  # from which on their factors say something of the margin
DEVIATIONS = 2.5  # robust standard deviations of them that two runs of the same stay within
LEVEL = 0.05  # of the test, both directions together
RANKED = 4  # repeats that the test needs to reject anything; with fewer, ranges must lie apart
LESS_IS_BETTER = ("s", "us/call", "core-s/M", "GPU-s/M", "share off", "environments")
# What a machine is told of and is not.
PASSING = (
    "load", "other_work", "disturbed", "cores_given", "round_trip_ns", "retaken", "short",
)  # fmt: skip
NEUTRAL = ("steps", "cores")  # neither more nor less is better
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
    "(a Mann-Whitney test of their repeats, with a margin of 5 % or more for what differs between "
    "any two runs).",
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
    margin: float  # a share of the first that they may differ by
    chance: float  # of repeats as far apart, were it no more than the margin; 1 within it
    verdict: str  # same: within the margin; unclear; moved
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


def key_of(figure: Figure) -> tuple[str, str, str, int, str]:
    """What two figures that can be compared have in common."""
    return figure["name"], figure["impl"], figure["env"], figure["threads"], figure["unit"]


def margin_of(pairs: Sequence[tuple[Figure, Figure]]) -> float:
    """What two runs of the same may differ by, as a share, to judge by all their figures."""
    factors = [
        math.log(after["median"] / before["median"])
        for before, after in pairs
        if before["median"] * after["median"] > 0 and after["repeats"] >= RANKED
    ]
    if len(factors) < FIGURES:
        return LEAST
    middle = median(factors)
    deviation = 1.4826 * median([abs(factor - middle) for factor in factors])  # of a normal one
    return min(max(LEAST, DEVIATIONS * deviation), MOST)


def taken(machine: Mapping[str, Any]) -> float:
    """Share of the machine that other work took while it was measured, where it disturbed."""
    if not machine.get("disturbed"):
        return 0.0
    return float((machine["other_work"] or 0.0) / machine["cores"])


def withheld(figure: Figure, machine: Mapping[str, Any]) -> float:
    """Share of the machine that its CPUs did not give at worst, where repeats of the figure were
    taken while they gave less."""
    given = machine.get("cores_given")
    if not figure.get("short") or not given:
        return 0.0
    return float(1.0 - given["least"] / machine["cores"])


def hidden(figure: Figure, machine: Mapping[str, Any]) -> bool:
    """Whether repeats of the figure stand that were disturbed, on a machine whose cores lay apart
    at times."""
    return bool(figure.get("short")) and were_apart(machine.get("round_trip_ns"))


def unlike(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[float, float] | None:
    """ns, the medians of both machines' round trips between cores where one lay apart beside the
    other; None: alike, or not known."""
    told = before.get("round_trip_ns"), after.get("round_trip_ns")
    if not (told[0] and told[1]):
        return None
    trips = float(told[0]["median"]), float(told[1]["median"])
    return trips if max(trips) > APART * min(trips) else None


def compared(
    before: Figure, after: Figure, margin: float = LEAST, provable: bool = True
) -> Comparison:
    """Two measurements of the same; both have a value. margin: as a share of the first;
    provable: whether they can have moved at all."""
    a, b = before["median"], after["median"]
    allowed = margin * abs(a)
    apart = abs(b - a) > allowed
    chance = _chance(before, after, math.copysign(allowed, b - a)) if apart else 1.0
    verdict = SAME if not apart else MOVED if provable and chance <= LEVEL else UNCLEAR
    better = None
    if verdict == MOVED and before["unit"] not in NEUTRAL:
        better = (b < a) == (before["unit"] in LESS_IS_BETTER)
    factor = b / a if a else float(b == a)
    return Comparison(*key_of(before), a, b, factor, margin, chance, verdict, better)


def _chance(before: Figure, after: Figure, allowed: float) -> float:
    """How likely the repeats of figures that are `allowed` apart lie at least as far apart; with
    too few for a test 0 where their ranges lie apart, else 1."""
    first, second = (_samples(each) for each in (before, after))
    if min(len(first), len(second)) < RANKED:
        one_alone = min(before["repeats"], after["repeats"]) < 2  # whose range is not known
        lie_apart = before["max"] < after["min"] or after["max"] < before["min"]
        return float(one_alone or not lie_apart)
    shifted = [sample + allowed for sample in first]
    rose = after["median"] > before["median"]  # allowed may be 0
    below, above = (shifted, second) if rose else (second, shifted)
    return min(1.0, 2 * chance_above(below, above))


def _samples(figure: Figure) -> list[float]:
    """The repeats; seeds that missed a target took longer than all others."""
    return [*(figure.get("samples") or ()), *[math.inf] * figure.get("missed", 0)]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """All figures of two runs."""

    differences: dict[str, tuple[Any, Any]]  # of machine and command
    margin: float  # a share that two runs of the same may differ by
    disturbed: Sequence[str]  # before, after: which of them other work disturbed
    short: dict[str, int]  # before, after: figures with repeats while the CPUs gave less
    hidden: dict[str, int]  # of these, those of a run whose cores lay apart at times
    unlike: tuple[float, float] | None  # ns between cores, where one run's lay apart
    comparisons: Sequence[Comparison]
    only_before: Sequence[str]
    only_after: Sequence[str]

    def count(self, verdict: str) -> int:
        return sum(each.verdict == verdict for each in self.comparisons)

    def document(self) -> dict[str, Any]:
        """For JSON; `equal`: nothing moved."""
        return {
            "equal": self.count(MOVED) == 0,
            "margin": self.margin,
            "disturbed": list(self.disturbed),
            "short": self.short,
            "hidden": self.hidden,
            "unlike": None if self.unlike is None else list(self.unlike),
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
    pairs = [(old[key], new[key]) for key in old if key in new]
    machines = before["machine"], after["machine"]
    margin = max(margin_of(pairs), *(taken(machine) for machine in machines))
    trips = unlike(*machines)
    behind = [[*map(hidden, pair, machines)] for pair in pairs]
    return Outcome(
        _differences(before["machine"], after["machine"]),
        margin,
        [
            which
            for which, machine in zip(("before", "after"), machines, strict=True)
            if machine.get("disturbed")
        ],
        {
            "before": sum(bool(before.get("short")) for before, _ in pairs),
            "after": sum(bool(after.get("short")) for _, after in pairs),
        },
        {"before": sum(each[0] for each in behind), "after": sum(each[1] for each in behind)},
        trips,
        [
            compared(
                *pair,
                margin=max(margin, *map(withheld, pair, machines)),
                provable=not (any(each) or (trips is not None and pair[0]["threads"] > 1)),
            )
            for pair, each in zip(pairs, behind, strict=True)
        ],
        [_label(*key) for key in old if key not in new],
        [_label(*key) for key in new if key not in old],
    )


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What was not the same about machine and command, but for other work and where it wrote."""
    found: dict[str, tuple[Any, Any]] = {}
    for name in sorted({*before, *after} - {*PASSING, "command"}):
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


def _label(name: str, impl: str, env: str, threads: int, unit: str = "") -> str:
    where, what = (f", {each}" if each else "" for each in (env, unit))
    return f"{name} ({impl}{where}, {threads} thread{'s' * (threads != 1)}{what})"


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
    for which in outcome.disturbed:
        console.print(f"[yellow]{which}: other work disturbed these figures; measure again[/]")
    for which, count in outcome.short.items():
        if outcome.hidden[which]:
            console.print(
                f"[yellow]{which}: {count} figures were disturbed, and the cores lay apart at "
                "times; nothing proves that these moved: measure again[/]"
            )
        elif count:
            console.print(
                f"[yellow]{which}: the CPUs gave less than they have while {count} figures were "
                "measured; their margin is what was missing then[/]"
            )
    if outcome.unlike is not None:
        trips = " | ".join(f"{trip:.0f} ns" for trip in outcome.unlike)
        console.print(
            f"[yellow]a cache line's way between cores and back differs:[/] {trips}; [yellow]"
            "nothing proves that figures of several threads moved: measure again when the cores "
            "lie alike[/]"
        )
    for name, (before, after) in outcome.differences.items():
        console.print(f"[yellow]{name} differs:[/] {escape(f'{before} | {after}')}")
    told = [each for each in outcome.comparisons if each.verdict != SAME]
    if told:
        table = Table(box=None, pad_edge=False)
        for header in ("what", "before", "after", "unit", "×", "chance", ""):
            right = header in ("before", "after", "×", "chance")
            table.add_column(header, justify="right" if right else "left", no_wrap=True)
        for each in sorted(told, key=lambda each: each.verdict):
            table.add_row(
                escape(_label(each.name, each.impl, each.env, each.threads)),
                shown(each.before, each.unit),
                shown(each.after, each.unit),
                each.unit,
                f"{each.factor:.3f}",
                f"{each.chance:.2g}",
                _verdict(each),
            )
        console.width = max(console.width, 140)
        console.print(table)
    for which, names in (("before", outcome.only_before), ("after", outcome.only_after)):
        if names:
            console.print(escape(f"only {which}: {', '.join(names)}"))
    console.print(
        f"{len(outcome.comparisons)} figures: {outcome.count(SAME)} within "
        f"{_margin(outcome)}, {outcome.count(UNCLEAR)} unclear, {outcome.count(MOVED)} moved"
    )


def _margin(outcome: Outcome) -> str:
    widest = max((each.margin for each in outcome.comparisons), default=outcome.margin)
    told = f"{100 * outcome.margin:.1f} %"
    if widest > outcome.margin:
        told += f" (up to {100 * widest:.1f} % where the CPUs gave less)"
    return told


def _verdict(each: Comparison) -> str:
    if each.verdict != MOVED or each.better is None:
        return each.verdict
    return "[green]better[/]" if each.better else "[red]worse[/]"
