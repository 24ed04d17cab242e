"""A short run of tools/soak.py, whose long one is run by hand."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

import headrace

SCRIPT = Path(__file__).parents[1] / "tools" / "soak.py"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture
def soak() -> Any:
    spec = importlib.util.spec_from_file_location("soak", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_nothing_stays_behind(soak: Any) -> None:
    assert soak.cycles(3, "fork")


def test_memory_stays_flat(soak: Any) -> None:
    assert soak.steps("native", headrace.make_vec("cartpole", 256), 1_000_000)
    vec = headrace.make_vec("gymnasium:CartPole-v1", 16, workers=2)
    assert soak.steps("in processes", vec, 20_000)


def test_growth_is_told(soak: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert not soak._told("x", (0, 5, 100.0), (0, 6, 100.0))
    assert not soak._told("x", (0, 5, 100.0), (0, 5, 120.0))
    assert "handles 5 -> 6" in capsys.readouterr().out
