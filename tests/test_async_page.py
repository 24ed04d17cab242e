"""docs/async.md: it names every switch, and its tables are what was measured."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

from headrace.flags import flag
from headrace.trainers.config import ASYNC_ONLY, TrainConfig
from headrace.trainers.metrics import METRICS

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "async.md").read_text()
sys.path.insert(0, str(ROOT / "tools"))

import async_tables  # noqa: E402

MACHINE = {"cpu": "A CPU", "cores": 2}


def result(name: str, env: str, value: float | None, unit: str, note: str) -> dict[str, Any]:
    low, high = (None, None) if value is None else (value - 1, value + 1)
    return {
        "name": name, "impl": "headrace", "env": env, "threads": 2, "value": value, "unit": unit,
        "min": low, "median": value, "max": high, "repeats": 5, "note": note,
    }  # fmt: skip


def test_every_switch_is_explained() -> None:
    for name in ("async_", *ASYNC_ONLY):
        assert f"`{flag(name)}" in PAGE, name
    fields = {field.name: field for field in dataclasses.fields(TrainConfig)}
    for choice in fields["correction"].metadata["rule"].choices:
        assert f"| `{choice}` |" in PAGE
    for name in METRICS:
        assert not name.startswith("async/") or f"`{name}`" in PAGE


def test_the_tables_have_their_places() -> None:
    for name in async_tables.TABLES:
        begin, end = async_tables.marks(name)
        assert PAGE.index(begin) < PAGE.index(end)


def test_staleness_table() -> None:
    results = [
        result(f"pole-lag{lag}-{c}", "pole", 100.0 - lag, "return", "mean after 9 steps; once")
        for lag in (0, 4)
        for c in async_tables.CORRECTIONS
    ]
    lines = async_tables.staleness_table({"machine": MACHINE, "results": results}).splitlines()
    assert lines[0] == "| A CPU, 2 cores | lag | none | clip | vtrace | decoupled |"
    cell = "96 (95 … 97)"
    assert lines[3] == f"| pole | 4 | {cell} | {cell} | {cell} | {cell} |"
    assert lines[-1] == "pole: mean after 9 steps."
    assert len(lines) == 6


def test_ladder_table() -> None:
    results = [
        result("lockstep", "pole", 100.0, "steps/s", "all wait"),
        result("lockstep-return", "pole", None, "return", "none"),
        result("batching", "pole", 250.0, "steps/s", "who is ready"),
        result("batching-return", "pole", 30.0, "return", ""),
        result("concurrent", "pole", 300.0, "steps/s", "at once"),
        result("concurrent-return", "pole", 40.0, "return", ""),
    ]
    lines = async_tables.ladder_table({"machine": MACHINE, "results": results}).splitlines()
    assert lines[2] == "| lockstep: all wait | 100 (99 … 101) |  |  | - |"
    gains = "1.2 (1.19 … 1.21) | 3 (2.96 … 3.04)"
    assert lines[4] == f"| concurrent: at once | 300 (299 … 301) | {gains} | 40 (39 … 41) |"
