"""Charts of curves: a picture by matplotlib, or text."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .curves import AXES, Curve
from .figures import count

SUFFIXES = (".png", ".svg", ".pdf")
_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])  # of a Braille letter
_BRAILLE = 0x2800  # the letter without dots
_SCALE = 10  # columns of the numbers at the left


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def draw(curves: Sequence[Curve], metric: str, file: Path) -> None:
    """Writes a picture of the curves along steps and along seconds, in the suffix's format."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    figure = Figure(figsize=(10, 4), layout="constrained", dpi=150)
    axes = figure.subplots(1, len(AXES), sharey=True)
    targets = {curve.target for curve in curves} - {None}
    for ax, (axis, name) in zip(axes, AXES.items(), strict=True):
        for curve in curves:
            dot = "o" if len(curve.values) == 1 else None
            ax.plot(curve.along(axis), curve.values, label=curve.label, linewidth=1.5, marker=dot)
        for target in targets:
            ax.axhline(target, color="0.5", linestyle="--", linewidth=1)
        ax.set_xlabel(name)
        ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: count(x)))
        ax.set_xlim(left=0)
        ax.grid(alpha=0.3)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel(metric)
    axes[0].legend(frameon=False, fontsize="small")
    figure.savefig(file, metadata=_undated(file.suffix))


def _undated(suffix: str) -> dict[str, Any]:
    """So that equal curves are equal files."""
    return {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(suffix, {})


def text_chart(curves: Sequence[Curve], metric: str, width: int, height: int = 8) -> list[str]:
    """The curves along steps, one below the other on the same scales, in lines of at most
    `width` columns; `height` of them for each."""
    values = np.concatenate([curve.values for curve in curves])
    low, high = float(values.min()), float(values.max())
    end = max(float(curve.steps[-1]) for curve in curves)
    columns = max(8, width - _SCALE - 1)
    lines = []
    for curve in curves:
        cells = _braille(curve, columns, height, end, (low, high))
        rows = ["".join(map(chr, row)) for row in cells]
        lines.append(f"{curve.label}: {metric} {curve.values[-1]:.4g}"[:width])
        for at, row in enumerate(rows):
            number = {0: f"{high:.4g}", height - 1: f"{low:.4g}"}.get(at, "")
            lines.append(f"{number:>{_SCALE - 1}} ┤{row}".rstrip("⠀ "))
        lines.append(" " * _SCALE + "└" + "─" * columns)
    steps = f"{count(end)} steps"
    return [*lines, " " * _SCALE + "0" + steps.rjust(columns)]


def _braille(
    curve: Curve, columns: int, rows: int, end: float, span: tuple[float, float]
) -> NDArray[np.int64]:
    """Letters [rows, columns] whose dots are the curve from 0 to `end`."""
    wide, tall = 2 * columns, 4 * rows
    at = np.arange(wide) * end / (wide - 1)
    inside = (at >= curve.steps[0]) & (at <= curve.steps[-1])
    if not inside.any():  # a single line, between two columns
        inside = np.arange(wide) == np.abs(at - curve.steps[-1]).argmin()
    height = np.interp(at, curve.steps, curve.values)
    low, high = span
    share = (height - low) / (high - low) if high > low else np.full(wide, 0.5)
    y = np.clip(np.round((1.0 - share) * (tall - 1)), 0, tall - 1).astype(np.int64)
    cells = np.full((rows, columns), _BRAILLE)
    x = np.flatnonzero(inside)
    before = y[np.maximum(x - 1, x[0])]
    tops, bottoms = np.minimum(y[x], before), np.maximum(y[x], before)
    for column, top, bottom in zip(x, tops, bottoms, strict=True):
        for dot in range(top, bottom + 1):
            cells[dot // 4, column // 2] |= _DOTS[dot % 4, column % 2]
    return cells
