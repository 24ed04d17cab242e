"""The tables of docs/async.md; tools/measured_pages.py writes them."""

from __future__ import annotations

from typing import Any

from readme_table import ROOT, load, replaced

from headrace.bench.spread import Spread

PAGE = ROOT / "docs" / "async.md"
CORRECTIONS = ("none", "clip", "vtrace", "decoupled")


def marks(name: str) -> tuple[str, str]:
    """The comments between which a table stands."""
    return f"<!-- {name}: written by tools/measured_pages.py -->", f"<!-- end of {name} -->"


def machine_of(document: dict[str, Any]) -> str:
    """Where it was measured."""
    machine = document["machine"]
    return f"{machine['cpu']}, {machine['cores']} cores"


def number(value: float) -> str:
    """Four digits, never as a power of ten."""
    return f"{value:,.4g}" if abs(value) < 1e4 else f"{float(f'{value:.4g}'):,.0f}"


def figure(each: dict[str, Any]) -> str:
    """median (least … greatest); a dash for what could not be measured."""
    if each["median"] is None:
        return "-"
    low, middle, high = (number(each[k]) for k in ("min", "median", "max"))
    return f"{middle} ({low} … {high})"


def times(one: dict[str, Any], other: dict[str, Any]) -> str:
    """How many times the other, repeat by repeat where the repeats are on record."""
    if one.get("samples") and other.get("samples"):
        spread = Spread.of(one["samples"]).over(Spread.of(other["samples"]))
        found = spread.min, spread.median, spread.max
    else:
        pairs = (("min", "max"), ("median", "median"), ("max", "min"))
        found = tuple(one[mine] / other[theirs] for mine, theirs in pairs)
    low, middle, high = (f"{value:.3g}" for value in found)
    return f"{middle} ({low} … {high})"


def staleness_table(document: dict[str, Any]) -> str:
    """One environment and lag a line, corrections in columns."""
    cells = {each["name"]: each for each in document["results"]}
    rows: dict[str, None] = {}
    for name in cells:
        rows.setdefault(name.rpartition("-")[0])
    lines = [
        f"| {machine_of(document)} | lag | {' | '.join(CORRECTIONS)} |",
        "|---|--:" + "|--:" * 4 + "|",
    ]
    for row in rows:
        env, _, lag = row.rpartition("-lag")
        lines.append(
            f"| {env} | {lag} | "
            + " | ".join(figure(cells[f"{row}-{c}"]) for c in CORRECTIONS)
            + " |"
        )
    notes = dict.fromkeys(
        f"{each['env']}: {each['note'].split(';')[0]}" for each in document["results"]
    )
    return "\n".join([*lines, "", *(f"{note}." for note in notes)])


def ladder_table(document: dict[str, Any]) -> str:
    """One rung a line: speed, gain over the rung below and over the first, return."""
    cells = {each["name"]: each for each in document["results"]}
    rungs = [each for each in document["results"] if each["unit"] == "steps/s"]
    lines = [
        f"| {machine_of(document)} | steps/s | × rung below | × lockstep | return at equal time |",
        "|---|--:|--:|--:|--:|",
    ]
    for at, rung in enumerate(rungs):
        gains = [times(rung, base) for base in (rungs[max(0, at - 1)], rungs[0])]
        shown = " | ".join(gains) if at else " | "
        score = figure(cells[f"{rung['name']}-return"])
        lines.append(f"| {rung['name']}: {rung['note']} | {figure(rung)} | {shown} | {score} |")
    return "\n".join(lines)


def overlap_table(document: dict[str, Any]) -> str:
    """One environment a line: both speeds and their ratio; and which way the preset picks."""
    cells = {each["name"]: each for each in document["results"]}
    lines = [
        f"| {machine_of(document)} | in turn, M steps/s | `--async`, M steps/s | ratio |",
        "|---|--:|--:|--:|",
    ]
    for env in dict.fromkeys(each["env"] for each in document["results"]):
        turn, ahead = cells[f"{env}-sync"], cells[f"{env}-async"]
        shown = " | ".join(
            figure({k: each[k] / 1e6 for k in ("min", "median", "max")}) for each in (turn, ahead)
        )
        lines.append(f"| {env} | {shown} | {times(ahead, turn)} |")
    picks = [cells[name] for name in cells if name.endswith("-preset")]
    if not picks:
        return "\n".join(lines)
    lines += ["", "| | to the target in turn, s | `--async`, s | |", "|---|--:|--:|---|"]
    for pick in picks:
        env, said = pick["env"], pick["note"].partition(": ")[2]
        both = " | ".join(figure(cells[f"{env}-{way}-solve"]) for way in ("sync", "async"))
        lines.append(f"| {env} | {both} | {said} |")
    return "\n".join(lines)


TABLES = {"staleness": staleness_table, "ladder": ladder_table, "overlap": overlap_table}


def page(text: str) -> str:
    """docs/async.md with its tables made anew."""
    for name, table in TABLES.items():
        text = replaced(text, table(load(name)), *marks(name))
    return text
