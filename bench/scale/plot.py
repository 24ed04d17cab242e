"""The Pareto front and the fitted law as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..results import ResultsError
from .report import Findings


def plot(found: Findings, title: str, path: Path) -> None:
    """Writes a PNG: speed against cost, and speed against replicas with what is predicted."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    _front(left, found)
    _law(right, found)
    figure.suptitle(title)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=120)
    except OSError as error:
        raise ResultsError(f"--plots {path} cannot be written: {error.strerror}") from error


def _front(axes: Any, found: Findings) -> None:
    points = [each.point for each in found.measured]
    axes.scatter([p.speed for p in points], [p.cost for p in points], color="tab:gray", s=18)
    axes.plot(
        [step.point.speed for step in found.front],
        [step.point.cost for step in found.front],
        "o-", color="tab:blue", label="Pareto front",
    )  # fmt: skip
    for point in points:
        axes.annotate(
            f"{point.replicas}×{point.envs}", (point.speed, point.cost), fontsize=7,
            textcoords="offset points", xytext=(4, 4),
        )  # fmt: skip
    chosen = found.advice.chosen.point
    axes.plot([chosen.speed], [chosen.cost], "*", color="tab:red", ms=14, label="recommended")
    axes.set(xlabel="steps/s", ylabel="core-seconds per million steps")
    axes.set_ylim(bottom=0)
    axes.legend()


def _law(axes: Any, found: Findings) -> None:
    counts, speeds = list(found.fitted), list(found.fitted.values())
    axes.plot(counts, speeds, "o", color="tab:blue", label="measured")
    predictions = found.predictions()
    last = predictions[-1][0] if predictions else max(counts)
    line = [1 + (last - 1) * at / 200 for at in range(201)]
    axes.plot(line, [found.law.speed(n) for n in line], "-", color="tab:blue", lw=1, label="law")
    if predictions:
        axes.plot(*zip(*predictions, strict=True), "o", mfc="none", color="tab:orange",
                  label="predicted, not measured")  # fmt: skip
    axes.set(xlabel="replicas, each with what it needs", ylabel="steps/s")
    axes.set_xscale("log", base=2)
    axes.legend()
