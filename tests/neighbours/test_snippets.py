"""The snippets of docs/neighbours.md, each run as a script where its libraries are installed."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "neighbours.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
OURS = {"headrace"}


def needed(block: str) -> set[str]:
    """The packages that a snippet imports, and those that it says it needs."""
    imported = set(re.findall(r"^(?:import|from) (\w+)", block, re.MULTILINE))
    told = re.search(r"^# needs: (.*)$", block, re.MULTILINE)
    if 'to_parallel("' in block:
        imported.add("pettingzoo")
    return (imported | set(told.group(1).split(", ") if told else ())) - OURS


@pytest.mark.parametrize("block", BLOCKS, ids=[f"block{at}" for at in range(len(BLOCKS))])
def test_the_snippet_runs(block: str, tmp_path: Path) -> None:
    for package in sorted(needed(block)):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    script = tmp_path / "snippet.py"
    script.write_text(block)
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_there_are_snippets() -> None:
    assert len(BLOCKS) >= 8
