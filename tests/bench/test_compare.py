"""`headrace bench compare`: what counts as moved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.bench import compare, results
from headrace.bench.results import Result
from headrace.bench.timing import Spread
from headrace.cli import main

MACHINE = {"cpu": "any", "cores": 2, "load": 0.1, "command": "headrace bench env --out a.json"}


def document(samples: dict[str, list[float]], unit: str = "steps/s", **machine: Any) -> Any:
    found = [
        Result.measured(name, "headrace", "cartpole", 1, Spread.of(values), unit)
        for name, values in samples.items()
    ]
    return json.loads(json.dumps(results.document({**MACHINE, **machine}, found)))


def verdict(before: list[float], after: list[float], unit: str = "steps/s") -> tuple[str, Any]:
    (each,) = compare.compare(
        document({"a": before}, unit), document({"a": after}, unit)
    ).comparisons
    return each.verdict, each.better


@pytest.mark.parametrize(
    ("before", "after", "unit", "expected"),
    [
        ([100, 101, 102, 103, 104], [103, 104, 105, 106, 107], "steps/s", ("same", None)),
        ([100, 101, 102, 103, 104], [105, 106, 107, 108, 109], "steps/s", ("unclear", None)),
        ([100, 101, 102, 103, 104], [111, 112, 113, 114, 115], "steps/s", ("moved", True)),
        ([111, 112, 113, 114, 115], [100, 101, 102, 103, 104], "steps/s", ("moved", False)),
        ([100, 101, 102, 103, 104], [111, 112, 113, 114, 115], "us/call", ("moved", False)),
        ([1.2, 1.2, 1.2, 1.2, 1.2], [1.0, 1.0, 1.0, 1.0, 1.0], "s", ("moved", True)),
        ([100.0] * 5, [104.9] * 5, "steps/s", ("unclear", None)),  # 5 % is the least
        ([100.0] * 5, [105.1] * 5, "steps/s", ("moved", True)),
        ([100.0] * 5, [200.0] * 5, "steps", ("moved", None)),
        ([-85.0] * 5, [-80.0] * 5, "return", ("moved", True)),
        ([0.0] * 5, [0.0] * 5, "return", ("same", None)),
    ],
)
def test_what_moved(before: Any, after: Any, unit: str, expected: Any) -> None:
    assert verdict(before, after, unit) == expected


def test_two_runs_of_the_same_are_equal() -> None:
    """2000 figures of 5 normal repeats each, and runs that differ by as much as repeats do."""
    rng = np.random.default_rng(0)
    draw = lambda: 100 + rng.normal(0, 1, (2000, 1)) + rng.normal(0, 1, (2000, 5))  # noqa: E731
    moved = 0
    for before, after in zip(draw(), draw(), strict=True):
        moved += verdict(list(before), list(after))[0] == "moved"
    assert moved <= 40


def test_other_machines_and_commands_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    before = document({"a": [1.0], "b": [1.0]})
    after = document(
        {"a": [1.0], "c": [1.0]}, cpu="other", command="headrace bench env --quick", load=3.0
    )
    outcome = compare.compare(before, after)
    assert outcome.differences == {
        "cpu": ("any", "other"),
        "command": ("headrace bench env", "headrace bench env --quick"),
    }
    compare.print_outcome(outcome)
    told = capsys.readouterr().err
    for part in ("cpu differs: any | other", "command differs", "only before: b", "only after: c"):
        assert part in told
    same = compare.compare(before, document({}, load=2.0, command="headrace bench env --json"))
    assert same.differences == {}


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = []
    for number, samples in enumerate(([100.0, 101.0, 102.0], [150.0, 151.0, 152.0])):
        paths.append(str(tmp_path / f"{number}.json"))
        results.save(Path(paths[-1]), document({"fast": samples, "missing": [1.0]}))
    assert main(["bench", "compare", *paths, "--json"]) == 0
    captured = capsys.readouterr()
    told = json.loads(captured.out)
    assert told["equal"] is False
    assert [each["verdict"] for each in told["results"]] == ["moved", "same"]
    assert "better" in captured.err
    assert "2 figures: 1 the same, 0 apart by less than the noise, 1 moved" in captured.err
    assert main(["bench", "compare", paths[0], paths[0], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["equal"] is True


@pytest.mark.parametrize(
    ("contents", "complaint"),
    [(None, "cannot be read"), ("{", "is not JSON"), ("[1]", "holds no results")],
)
def test_files_that_hold_no_results(
    contents: str | None, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.json"
    if contents is not None:
        path.write_text(contents)
    assert main(["bench", "compare", str(path), str(path)]) == 1
    told = capsys.readouterr().err
    assert complaint in told
    assert told.count("\n") == 1
    assert main(["bench", "compare", str(path)]) == 2
