"""README and docs: every measured figure comes from a file in bench/results."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from headrace import cli_scale
from headrace.bench.cli import benchmark_named
from headrace.flags import Verb

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import benchmark_tables  # noqa: E402
import measured_pages  # noqa: E402

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TABLE = re.compile(r"<!-- [^>]*: written by .*?-->.*?<!-- end of [^>]*-->", re.DOTALL)
CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
# What reads like a measurement. Counts, settings and shares of settings do not.
MEASURED = re.compile(
    r"\d[\d.,]*\s?[kMG]?\s?(?:steps|rows|transitions)(?:/s\b| a second| per second)"
    r"|\d[\d.]*\s?×(?!\s?\d)|\d[\d.]* times (?:as fast|faster|slower|the speed)"
    r"|\d[\d.,]*\s?(?:GB/s|GFLOP/s|us/call|µs\b)"
    r"|\b(?:twice|half) (?:as fast|the speed)"
)


def outside_tables(text: str) -> str:
    """The text without generated tables and code, its lines where they were."""
    for pattern in (TABLE, CODE):
        text = pattern.sub(lambda match: "\n" * match[0].count("\n"), text)
    return text


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_figures_stand_in_generated_tables(path: Path) -> None:
    lines = outside_tables(path.read_text()).splitlines()
    stray = [f"{n}: {line}" for n, line in enumerate(lines, 1) if MEASURED.search(line)]
    assert stray == []


@pytest.mark.parametrize(
    "text",
    ["It does 5.6 M steps/s.", "1.5× that", "20 times as fast", "at 12 GB/s", "twice as fast"],
)
def test_stray_figures_are_found(text: str) -> None:
    assert MEASURED.search(outside_tables(text))


def test_tables_and_charts_are_current() -> None:
    """Where not: python tools/measured_pages.py."""
    assert measured_pages.main(["--check"]) == 0


def test_results_that_changed_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in measured_pages.RESULTS.glob("*.json"):
        document = json.loads(path.read_text())
        for each in document["results"]:
            for key in ("median", "min", "max"):
                each[key] = each[key] and 1.5 * each[key]
        (tmp_path / path.name).write_text(json.dumps(document))
    for module in (measured_pages, benchmark_tables, measured_pages.readme_table):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    assert measured_pages.main(["--check"]) == 1
    told = capsys.readouterr().err
    for name in ("README.md", "benchmarks.md", "async.md", *measured_pages.CHARTS):
        assert name in told


def test_every_result_names_its_command() -> None:
    for path in measured_pages.RESULTS.glob("*.json"):
        document = json.loads(path.read_text())
        assert document["machine"]["command"].startswith("headrace "), path.name
        assert document["machine"]["cpu"]
        for each in document["results"]:
            assert each["value"] is None or each["min"] <= each["median"] <= each["max"], each


def figure(name: str, impl: str, value: float, **more: Any) -> dict[str, Any]:
    return {
        "name": name, "impl": impl, "env": "", "threads": 2, "value": value, "unit": "rows/s",
        "min": 0.9 * value, "median": value, "max": 1.1 * value, "repeats": 5, "note": "", **more,
    }  # fmt: skip


def listed() -> dict[str, list[str]]:
    """The commands of bench/results/README.md, by the file that each writes."""
    text = (measured_pages.RESULTS / "README.md").read_text()
    commands = re.findall(r"^headrace (.* --out bench/results/(\S+))$", text, re.MULTILINE)
    return {file: shlex.split(command) for command, file in commands}


def test_every_result_has_a_command_that_can_be_typed() -> None:
    assert {path.name for path in measured_pages.RESULTS.glob("*.json")} <= listed().keys()
    for verb, *words in listed().values():
        if verb == "scale":
            flags: Any = cli_scale.ScaleFlags(**cli_scale.VERB.parse(words))
        else:
            benchmark = benchmark_named(words.pop(0))
            known = Verb(verb, benchmark.summary, benchmark.flags, benchmark.example)
            flags = benchmark.flags(**known.parse(words))
        assert flags.out


def test_kernels_table() -> None:
    machine = {"cpu": "A CPU", "cores": 2, "command": "headrace bench kernels"}
    results = [
        figure("learn-1x64-16384", "headrace native", 50e6),
        figure("learn-1x64-16384", "torch eager", 5e6),
        figure("compile-learn-1x64-16384", "torch.compile", 3.0, unit="s", threads=1),
    ]
    lines = benchmark_tables.kernels({"machine": machine, "results": results}).splitlines()
    assert lines[0].startswith("| A CPU, 2 cores | native | eager |")
    row = "| 1×64 | 50 (45 … 55) | 5 (4.5 … 5.5) | - | 10 (8.18 … 12.2) | - | 3 (2.7 … 3.3) | - |"
    assert lines[2] == row
    assert lines[-1] == "`headrace bench kernels`"


def test_peers_are_compared_within_their_group() -> None:
    machine = {"cpu": "A CPU", "cores": 2, "command": "headrace bench peers"}
    results = [
        figure("step", "headrace kernel", 9e6, unit="steps/s"),
        figure("step", "headrace VecEnv.step", 8e6, unit="steps/s"),
        figure("step", "Peer", 2e6, unit="steps/s", samples=[2e6] * 5),
        figure("train-128", "Peer", 4e5, unit="steps/s"),
        figure("solve", "headrace", 0.5, unit="s"),
        figure("solve", "Peer", 20.0, unit="s"),
    ]
    found = benchmark_tables.peers({"machine": machine, "results": results}).splitlines()
    cells = [line.split(" | ") for line in found[2:8]]
    assert [each[5] for each in cells] == [
        "-", "-", "4 (3.27 … 4.89)", "-", "-", "40 (32.7 … 48.9)",
    ]  # fmt: skip
    assert cells[3][3:5] == ["400,000 (360,000 … 440,000)", "steps/s"]


def test_a_benchmark_that_is_not_on_record_says_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark_tables, "RESULTS", tmp_path)
    told = benchmark_tables.table("vec")
    assert told == "Not on record: `headrace bench vec --out bench/results/vec.json`."
