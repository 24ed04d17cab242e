"""docs/write-an-env.md: its code is examples/heater.c, its commands run, its table is whole."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from headrace.cli import main
from headrace.engine.check import check
from headrace.engine.check.report import RULES

ROOT = Path(__file__).parents[2]
HEATER = ROOT / "examples" / "heater.c"
TEXT = (ROOT / "docs" / "write-an-env.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.M | re.S)


def test_the_blocks_of_c_are_all_of_the_example():
    left = HEATER.read_text()
    for block in blocks("c"):
        for part in block.strip().split("\n\n" if block.startswith("struct Metrics") else "\0"):
            assert left.count(part) == 1, part
            left = left.replace(part, "")
    assert left.split() == []


@pytest.fixture
def folder(tmp_path, monkeypatch):
    shutil.copy(HEATER, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_commands_run(folder, capsys):
    commands = [line for block in blocks("sh") for line in block.splitlines()]
    assert len(commands) == 7
    for command in commands:
        program, *argv = shlex.split(command)
        assert program == "headrace"
        assert main(argv) == 0, command
    assert (folder / "heater.gif").stat().st_size > 1000
    out = capsys.readouterr().out
    assert "Heater: keep a room warm" in out
    assert "leak = 0.1" in out
    assert "HOURS = 24" in out


def test_the_python_runs(folder):
    exec(compile("\n".join(blocks("python")), "write-an-env.md", "exec"), {})


def test_every_rule_is_explained():
    assert re.findall(r"^\| `(\w+)` \|", TEXT, re.M) == list(RULES)


def test_the_report_that_is_shown_is_real():
    report = check(ROOT / "tests" / "engine" / "broken" / "out_of_space.c", sanitize=False)
    (shown,) = blocks("text")
    assert shown.rstrip() in report.text()


def test_the_trained_heater_keeps_the_room_warm(folder):
    import headrace

    result = headrace.train("heater.c", seed=1, steps=2_000_000, run_dir="run")
    assert (
        result.return_mean > 5.0
    )  # it freezes without power, and full power all the time earns -4.8
