"""How metrics of runs went, as numbers: what `headrace plot` draws."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .trainers.run import Run, RunError
from .trainers.settings import unknown

AXES = {"steps": "steps", "seconds": "seconds of training"}  # what a curve goes along, by name


@dataclasses.dataclass(frozen=True)
class Curve:
    """One metric of one run: arrays of equal length, in the order of time."""

    label: str
    steps: NDArray[np.float64]
    seconds: NDArray[np.float64]
    values: NDArray[np.float64]
    target: float | None  # of the run, where the metric is its return

    def along(self, axis: str) -> NDArray[np.float64]:
        """The positions on an axis of AXES."""
        return self.steps if axis == "steps" else self.seconds


def curves(runs: Sequence[str], metric: str) -> list[Curve]:
    """The curves of a metric, one for each run.

    Raises:
        RunError: a folder is no run, or holds no number of that metric yet.
        ConfigError: no line of a run has a metric of this name.
    """
    return [
        _curve(Run.open(path), label, metric)
        for path, label in zip(runs, _labels(runs), strict=True)
    ]


def _curve(run: Run, label: str, metric: str) -> Curve:
    lines = read_lines(run.path / "metrics.jsonl")
    if not lines:
        raise RunError(f"run {run.path} has logged nothing yet")
    names = {name for line in lines for name, value in line.items() if not isinstance(value, str)}
    if metric not in names:
        raise unknown(metric, sorted(names), f"metric in {run.path}:", listed=True)
    points = [
        (line["steps"], line["seconds"], line[metric])
        for line in lines
        if line.get(metric) is not None
    ]
    if not points:
        raise RunError(f"run {run.path} has no {metric} yet")
    steps, seconds, values = np.array(points, np.float64).T
    config, _ = run.read_config()
    return Curve(label, steps, seconds, values, config.target if "return" in metric else None)


def read_lines(file: Path) -> list[dict[str, Any]]:
    """The lines of a metrics.jsonl; one that is being written is left out."""
    found = []
    for line in file.read_text().splitlines() if file.is_file() else ():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def _labels(runs: Sequence[str]) -> list[str]:
    """The names of the folders; the paths where two are the same."""
    names = [Path(run).resolve().name for run in runs]
    return names if len(set(names)) == len(names) else list(runs)
