"""What is said of other work on the machine, told by a /proc/stat of the test's own."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from headrace.bench import interference
from headrace.bench.interference import Interference, disturbs, together, warning

pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity"), reason="the system does not tell of other work"
)


FAR = {"least": 100.0, "median": 110.0, "most": 410.0}


class System:
    """A clock, /proc/stat of four CPUs, and what this process has used, all in seconds."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.now, self.own = folder, 100.0, 5.0
        self.busy = [10.0, 20.0, 30.0, 40.0]
        self.cpus = {1, 2}
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: self.cpus)
        monkeypatch.setattr(os, "times", lambda: (self.own, 0.0, 0.0, 0.0, self.now))
        monkeypatch.setattr(interference, "available_cpus", lambda: 2)
        self.write()

    def write(self) -> None:
        tick = os.sysconf("SC_CLK_TCK")
        # user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice
        lines = [
            f"cpu{k} {round(s * tick) - 6} 1 1 {round((1e4 - s) * tick)} 7 1 1 2 0 0"
            for k, s in enumerate(self.busy)
        ]
        (self.folder / "stat").write_text("\n".join(["cpu 9 9 9 9 9 9 9 9 9 9", *lines, "intr 3"]))

    def passes(self, seconds: float, own: float, busy: list[float]) -> None:
        """own: CPU seconds of this process; busy: of each CPU."""
        self.now += seconds
        self.own += own
        self.busy = [before + more for before, more in zip(self.busy, busy, strict=True)]
        self.write()


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> System:
    return System(tmp_path, monkeypatch)


def test_other_work_is_what_is_not_ours(system: System) -> None:
    watch = Interference(system.folder)
    system.passes(2.0, own=2.5, busy=[2.0, 2.0, 1.5, 2.0])  # ours: CPUs 1 and 2
    assert watch.cores() == pytest.approx(0.5)


def test_an_idle_machine_does_nothing_else(system: System) -> None:
    watch = Interference(system.folder)
    system.passes(2.0, own=3.0, busy=[0.0, 1.5, 1.48, 0.0])  # ticks are coarse
    assert watch.cores() == 0.0


@pytest.mark.parametrize("seconds", [0.01, 0.0])
def test_nothing_is_known_of_a_moment(system: System, seconds: float) -> None:
    watch = Interference(system.folder)
    system.passes(seconds, own=0.0, busy=[0.0] * 4)
    assert watch.cores() is None


def test_nothing_is_known_without_proc(system: System) -> None:
    assert Interference(system.folder / "absent").cores() is None


@pytest.mark.parametrize(
    ("here", "told"),
    [
        ({"other_work": 0.1, "disturbed": False, "load": 9.0}, None),
        ({"other_work": 0.5, "disturbed": True, "load": 0.0}, "other work kept 0.5 cores busy"),
        ({"other_work": None, "load": 1.5}, "load 1.5: other work"),
        ({"other_work": None, "load": 0.9}, None),
        ({"other_work": None, "load": None}, None),
        ({"cores": 2, "cores_given": {"least": 1.98}, "retaken": 0, "short": 0}, None),
        (
            {"cores": 2, "cores_given": {"least": 1.02}, "retaken": 4, "short": 0},
            "the CPUs gave 1 of 2 cores at times: 4 repeats were taken again",
        ),
        (
            {"cores": 2, "cores_given": {"least": 1.3}, "retaken": 4, "short": 3},
            "the CPUs gave 1.3 of 2 cores at times: 4 repeats were taken again, 3 stand and",
        ),
        (
            {"cores_given": {"least": 1.96}, "round_trip_ns": FAR, "retaken": 4, "short": 0},
            "the cores lay up to 4.1 times as far apart as at best at times: 4 repeats were taken",
        ),
        (
            {"cores_given": {"least": 1.02}, "round_trip_ns": FAR, "retaken": 4, "short": 0},
            "the CPUs gave 1 of 2 cores and the cores lay up to 4.1 times as far apart as at best",
        ),
        ({"cores_given": {"least": 1.96}, "round_trip_ns": FAR, "retaken": 0, "short": 0}, None),
    ],
)
def test_what_is_said(system: System, here: dict[str, Any], told: str | None) -> None:
    said = warning({"cores": 2, **here})
    assert said is None if told is None else said is not None and said.startswith(told)


@pytest.mark.parametrize(
    ("others", "cpus", "disturbed"),
    [(0.1, 2, False), (0.5, 2, True), (3.0, 8, False), (6.5, 8, True), (None, 2, False)],
)
def test_what_disturbs(system: System, others: float | None, cpus: int, disturbed: bool) -> None:
    """Two cores of eight by quota: there is room for others."""
    system.cpus = set(range(cpus))
    assert disturbs(others) == disturbed


def test_what_is_told_of_several_benchmarks() -> None:
    quiet = {
        "other_work": None, "disturbed": False, "cores_given": None, "round_trip_ns": None,
        "retaken": 0, "short": 0,
    }  # fmt: skip
    first = {
        "other_work": 0.1, "disturbed": False, "retaken": 3, "short": 0,
        "cores_given": {"least": 1.2, "median": 1.98}, "round_trip_ns": FAR,
    }  # fmt: skip
    second = {
        "other_work": 0.7, "disturbed": True, "retaken": 0, "short": 2,
        "cores_given": {"least": 1.5, "median": 1.9},
        "round_trip_ns": {"least": 90.0, "median": 130.0, "most": 140.0},
    }  # fmt: skip
    assert together([quiet, first, second]) == {
        "other_work": 0.7, "disturbed": True, "retaken": 3, "short": 2,
        "cores_given": {"least": 1.2, "median": 1.9},
        "round_trip_ns": {"least": 90.0, "median": 120.0, "most": 410.0},
    }  # fmt: skip
    assert together([quiet])["cores_given"] is None
    assert together([quiet])["round_trip_ns"] is None


def test_said_before_measuring(
    system: System, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def sleep(seconds: float) -> None:
        system.passes(seconds, own=0.0, busy=[0.0, seconds, 0.5 * seconds, 0.0])

    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(interference.Interference.__init__, "__defaults__", (system.folder,))
    interference.forewarn(1.0)
    assert "other work keeps 1.5 cores busy now" in capsys.readouterr().err
