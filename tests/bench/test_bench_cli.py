"""`headrace bench`: arguments, output, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.bench import stepping, training
from headrace.bench.results import Result
from headrace.bench.spread import Spread
from headrace.cli import main


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The arguments of the benchmark, which is replaced by a ready-made result."""
    seen: dict[str, Any] = {}

    def run(**arguments: Any) -> list[Result]:
        seen.update(arguments)
        spread = Spread.of([2e6, 1e6, 3e6])
        return [Result.measured("vecenv-8", "headrace", "cartpole", 1, spread, "steps/s")]

    for benchmark in (stepping, training):
        monkeypatch.setattr(benchmark, "run", run)
        monkeypatch.setattr(
            benchmark, "ratios", lambda found: [("times as fast", Spread.of([2.0]))]
        )
    monkeypatch.setattr(stepping, "_swept", lambda *_: [])
    return seen


@pytest.mark.parametrize("benchmark", ["env", "train"])
def test_json_is_the_one_document_on_stdout(
    benchmark: str, asked: dict[str, Any], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "results" / "out.json"
    assert main(["bench", benchmark, "--json", "--out", str(out)]) == 0
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert list(document) == ["machine", "results"]
    assert document["results"][0]["value"] == 2e6
    assert document["machine"]["command"] == f"headrace bench {benchmark} --json --out {out}"
    assert json.loads(out.read_text()) == document
    assert "times as fast" in captured.err


def test_tables_go_to_stderr(asked: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "env"]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "2.00 M" in captured.err


def test_quick_is_shorter(asked: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "env", "--quick", "--repeats", "5"]) == 0
    assert asked["rounds"] == 5
    assert asked["seconds"] == stepping.QUICK_SECONDS < stepping.FULL_SECONDS
    assert main(["bench", "train", "--seeds", "2", "--quick"]) == 0
    assert asked["seeds"] == 2


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["envs"], "unknown benchmark 'envs'; did you mean env?"),
        (["env", "--seeds", "3"], "unknown flag --seeds"),
        (["env", "--repeats", "3"], "--repeats must be a whole number from 5 to 1000, not 3"),
        (["train", "--seed", "3"], "unknown flag --seed; did you mean --seeds?"),
    ],
)
def test_mistakes_are_one_sentence(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"headrace: {complaint}")
    assert captured.err.count("\n") == 1


def test_help_names_the_benchmarks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--help"]) == 0
    assert "bench" in capsys.readouterr().out
    assert main(["bench"]) == 2
