"""`headrace bench all` and the charts."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from headrace.bench import cli, everything, plots, stepping
from headrace.bench.benchmark import Report
from headrace.bench.distance import Distance
from headrace.bench.results import Result, ResultsError
from headrace.bench.spread import Spread
from headrace.cli import main


def figure(name: str, value: float = 2e6, threads: int = 1, unit: str = "steps/s") -> Result:
    spread = Spread.of([value, 0.9 * value, 1.2 * value])
    return Result.measured(name, "headrace", "cartpole", threads, spread, unit)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The flags that each benchmark was run with."""
    seen: dict[str, Any] = {}
    shared: list[Distance] = []

    def run(benchmark: Any, flags: Any, _: Any, distance: Distance) -> Report:
        shared.append(distance)
        assert distance is shared[0]
        seen[benchmark.name] = flags
        return Report("Title", [figure("kernel-64")])

    monkeypatch.setattr(everything, "run", run)
    return seen


def test_quick_keeps_the_short_ones(
    asked: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "all.json"
    assert main(["bench", "all", "--quick", "--json", "--out", str(out)]) == 0
    expected = [name for name in cli.BENCHMARKS if name in everything.QUICK]
    assert list(asked) == expected
    assert all(flags.quick and flags.repeats == 5 for flags in asked.values())
    told = json.loads(capsys.readouterr().out)
    assert told == json.loads(out.read_text())
    assert [each["name"] for each in told["results"]] == [f"{n}/kernel-64" for n in expected]


def test_all_is_every_benchmark(asked: dict[str, Any]) -> None:
    assert main(["bench", "all"]) == 0
    assert set(asked) == set(cli.BENCHMARKS)
    assert asked["train"].envs == "all"
    assert not asked["env"].quick


def test_lines_and_bars() -> None:
    sizes = [figure(f"kernel-{size}") for size in (64, 4096, 1)]
    two = [figure("kernel-64", threads=2), figure("kernel-4096", threads=2)]
    others = [figure("solve", 0.02, unit="s"), Result.missing("x-1", "y", "", "s", "not there")]
    found = [*sizes, *two, *others]
    (points,) = plots.curves(found)["kernel"].values()
    assert [size for size, _ in points] == [1, 64, 4096]
    assert {name: len(rows) for name, rows in plots.bars(found).items()} == {"steps-s": 2, "s": 1}
    many = [figure(f"a{k}") for k in range(90)]
    assert [len(rows) for rows in plots.bars(many).values()] == [40, 40, 10]


def test_charts_are_pictures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = [figure(f"kernel-{size}") for size in (1, 64, 4096)] + [figure("solve", 0.1, unit="s")]
    written = plots.draw(tmp_path / "new", "Title", found)
    assert [path.name for path in written] == ["kernel.png", "s.png"]
    assert all(path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" for path in written)
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError, match=r"--plots .*file cannot be written"):
        plots.draw(tmp_path / "file", "Title", found)


def test_charts_without_matplotlib_are_refused_before_measuring(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def never(**_: Any) -> Any:
        raise AssertionError("was measured")

    monkeypatch.setattr(stepping, "run", never)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert main(["bench", "env", "--plots", "charts"]) == 2
    told = capsys.readouterr().err
    assert told == "headrace: --plots needs matplotlib: pip install 'headrace[plots]'\n"
