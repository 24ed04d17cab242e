"""The JSON document of a benchmark and how figures are shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.bench import machine, results
from headrace.bench.results import Result, ResultsError, shown
from headrace.bench.spread import Spread

KEYS = [
    "name",
    "impl",
    "env",
    "threads",
    "value",
    "unit",
    "min",
    "median",
    "max",
    "repeats",
    "note",
    "samples",
]


def test_document_has_the_shape_that_is_promised(tmp_path: Path) -> None:
    measured = Result.measured(
        "kernel-4096",
        "headrace kernel",
        "cartpole",
        2,
        Spread.of([3.0, 1.0, 9.0, 4.0, 2.0]),
        "steps/s",
    )
    missing = Result.missing("vecenv", "EnvPool", "cartpole", "steps/s", "not installed")
    contents = results.document({"cpu": "any"}, [measured, missing])
    results.save(tmp_path / "new" / "out.json", contents)
    read = json.loads((tmp_path / "new" / "out.json").read_text())
    assert read["machine"] == {"cpu": "any"}
    assert [list(each) for each in read["results"]] == [KEYS, KEYS]
    assert read["results"][0]["value"] == read["results"][0]["median"] == 3.0
    assert read["results"][1]["value"] is None
    assert read["results"][1]["note"] == "not installed"


def test_a_file_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError, match=r"--out .*out\.json cannot be written: "):
        results.save(tmp_path / "file" / "out.json", {})


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "steps/s", "-"),
        (123_456_789.0, "steps/s", "123 M"),
        (5_570_000.0, "steps/s", "5.57 M"),
        (1_337e6, "rows/s", "1.34 G"),
        (55_300.0, "steps/s", "55.3 k"),
        (4.321, "us/call", "4.32"),
        (-107.23, "return", "-107"),
        (0.1534, "s", "0.153"),
        (0.4567, "share", "45.7 %"),
    ],
)
def test_figures_for_people(value: float | None, unit: str, text: str) -> None:
    assert shown(value, unit) == text


def test_report_names_machine_command_and_figures(capsys: pytest.CaptureFixture[str]) -> None:
    here = machine.describe(["env", "--out", "a b.json"])
    spread = Spread.of([2e6, 1e6, 3e6])
    measured = Result.measured("vecenv-4096", "headrace VecEnv", "cartpole", 1, spread, "steps/s")
    results.print_report("Title", here, [measured], [("times as fast", Spread.of([21.5, 20, 23]))])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "headrace bench env --out 'a b.json'" in captured.err
    assert "2.00 M" in captured.err
    assert "21.5 × (20.0 … 23.0)     times as fast" in captured.err


def test_machine_is_described() -> None:
    here = machine.describe(["env"])
    assert here["cores"] >= 1
    assert {"headrace", "numpy", "gymnasium"} <= set(here["versions"])
    assert here["cpu"]
    json.dumps(here, allow_nan=False)


def test_the_gpu_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine.shutil, "which", lambda _: "/usr/bin/nvidia-smi")
    monkeypatch.setattr(machine, "_output", lambda _: "NVIDIA H100\nNVIDIA H100\n")
    assert machine.gpu() == "NVIDIA H100, NVIDIA H100"
    monkeypatch.setattr(machine, "_output", lambda _: "")  # a driver that does not answer
    assert machine.gpu() == "none"
    monkeypatch.setattr(machine.shutil, "which", lambda _: None)
    monkeypatch.setattr(machine, "NVIDIA", tmp_path)
    assert machine.gpu() == "none"
    (tmp_path / "0000:01:00.0").mkdir()
    (tmp_path / "0000:01:00.0" / "information").write_text("Model: \t NVIDIA L4\nIRQ: 3\n")
    assert machine.gpu() == "NVIDIA L4"
