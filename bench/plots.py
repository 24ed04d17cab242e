"""Charts of results: PNG files, one for each kind of figure."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..engine.errors import ArgumentError
from .results import Result, ResultsError

MOST_BARS = 40  # of one chart
LEAST_POINTS = 3  # sizes from which on a line is drawn


def check_plots() -> None:
    """ArgumentError in one sentence where matplotlib is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ArgumentError("--plots needs matplotlib: pip install 'headrace[plots]'")


def draw(folder: Path, title: str, results: Sequence[Result]) -> list[Path]:
    """Writes the charts; their files. ResultsError where they cannot be written.

    Figures whose names end in a size (`kernel-4096`), with several of them, become lines by
    size, the others bars; whiskers and bands go from the least to the greatest repeat.
    """
    written = []
    for name, series in curves(results).items():
        written.append(chart(folder / f"{name}.png", f"{title}: {name}", series))
    for name, rows in bars(results).items():
        figure, axes = _figure(f"{title}: {name}", height=1.0 + 0.25 * len(rows))
        _bars(axes, rows)
        written.append(_save(figure, folder / f"{name}.png"))
    return written


def chart(
    path: Path, title: str, series: Series, metadata: Mapping[str, str] | None = None
) -> Path:
    """Writes one chart of lines; metadata goes into the PNG. ResultsError as `draw`."""
    figure, axes = _figure(title)
    _lines(axes, series)
    return _save(figure, path, metadata)


Series = Mapping[str, Sequence[tuple[int, Result]]]  # label: (size, figure)


def curves(results: Sequence[Result], least: int = LEAST_POINTS) -> dict[str, Series]:
    """Charts of lines: by what was measured and threads, then by whose and which environment."""
    found: dict[str, dict[str, list[tuple[int, Result]]]] = {}
    for each in results:
        stem, _, size = each.name.rpartition("-")
        if each.value is None or not size.isdigit() or not stem:
            continue
        several = f"-{each.threads}-threads" if each.threads != 1 else ""
        label = ", ".join(part for part in (each.env, each.impl) if part)
        found.setdefault(_file_name(stem) + several, {}).setdefault(label, []).append(
            (int(size), each)
        )
    kept: dict[str, Series] = {}
    for name, series in found.items():
        long = {k: sorted(v, key=lambda p: p[0]) for k, v in series.items() if len(v) >= least}
        if long:
            kept[name] = long
    return kept


def bars(results: Sequence[Result]) -> dict[str, list[Result]]:
    """Charts of bars: by unit, those that are in no line, in pages of 40."""
    in_lines = {
        id(each)
        for series in curves(results).values()
        for points in series.values()
        for _, each in points
    }
    by_unit: dict[str, list[Result]] = {}
    for each in results:
        if each.value is not None and id(each) not in in_lines:
            by_unit.setdefault(_file_name(each.unit), []).append(each)
    return {
        unit + (f"-{page + 1}" if len(rows) > MOST_BARS else ""): chunk
        for unit, rows in by_unit.items()
        for page, chunk in enumerate(_pages(rows))
    }


def _pages(rows: list[Result]) -> Iterator[list[Result]]:
    for at in range(0, len(rows), MOST_BARS):
        yield rows[at : at + MOST_BARS]


def _file_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-")


def _figure(title: str, height: float = 4.5) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, max(2.0, height)), layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, loc="left", fontsize=10)
    axes.grid(alpha=0.3)
    return figure, axes


def _lines(axes: Any, series: Series) -> None:
    styles = ("-", "--", ":", "-.")
    for number, (label, points) in enumerate(series.items()):
        sizes = [size for size, _ in points]
        low, middle, high = ([getattr(e, k) for _, e in points] for k in ("min", "median", "max"))
        (line,) = axes.plot(
            sizes, middle, styles[number // 10 % 4], marker="o", markersize=3, label=label
        )
        axes.fill_between(sizes, low, high, alpha=0.15, color=line.get_color())
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("rows")
    axes.set_ylabel(next(iter(series.values()))[0][1].unit)
    axes.legend(fontsize=7, ncols=2 if len(series) > 8 else 1)


def _bars(axes: Any, rows: Sequence[Result]) -> None:
    medians = [each.median or 0.0 for each in rows]
    low = [m - (each.min or 0.0) for m, each in zip(medians, rows, strict=True)]
    high = [(each.max or 0.0) - m for m, each in zip(medians, rows, strict=True)]
    labels = [
        ", ".join(part for part in (each.name, each.impl, each.env) if part) + f", {each.threads}"
        for each in rows
    ]
    places = range(len(rows))
    axes.barh(places, medians, xerr=[low, high], height=0.7, error_kw={"lw": 1})
    axes.set_yticks(places, labels, fontsize=7)
    axes.invert_yaxis()
    positive = [median for median in medians if median > 0]
    if positive and max(positive) > 30 * min(positive) and len(positive) == len(medians):
        axes.set_xscale("log")
    axes.set_xlabel(rows[0].unit)


def _save(figure: Any, path: Path, metadata: Mapping[str, str] | None = None) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=110, metadata=metadata)
    except OSError as error:
        raise ResultsError(f"--plots {path.parent} cannot be written: {error.strerror}") from error
    return path
