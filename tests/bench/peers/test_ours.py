"""headrace and Gymnasium as contenders: what their cases do."""

from __future__ import annotations

import pytest

from headrace.bench.peers import ours
from headrace.bench.peers.drivers.protocol import SOLVE, STEP


def test_cases_of_headrace() -> None:
    desk = ours.headrace_desk()
    cases = desk.answer("describe")["cases"]
    names = {case["impl"]: case["case"] for case in cases}  # the last of each
    for impl in (ours.VECENV, ours.KERNEL, ours.TRAINING_OURS):
        if impl == ours.TRAINING_OURS:
            name = next(case["case"] for case in cases if case["group"] not in (STEP, SOLVE))
        else:
            name = names[impl]
        assert desk.answer("open", case=name)["work"] >= 4096 * 0.9
        desk.answer("run", case=name, count=30)
        mean, steps = desk.answer("score", case=name).values()
        if impl == ours.TRAINING_OURS:
            assert steps == 30 * 256 * 32
            assert 20 < mean < 500
        desk.answer("close", case=name)


def test_headrace_solves() -> None:
    solved = ours.headrace_desk().answer("solve", case="solve", seed=1, target=100.0)
    assert 0 < solved["seconds"] < 60
    assert solved["return"] >= 100.0


@pytest.mark.parametrize("count", [1, 3])
def test_gymnasium_steps(count: int) -> None:
    desk = ours.gymnasium_desk()
    for case in desk.answer("describe")["cases"]:
        work = desk.answer("open", case=case["case"])["work"]
        rows = int(case["setting"].split()[0])
        assert 0.9 * rows < work < rows
        desk.answer("run", case=case["case"], count=count)
        desk.answer("close", case=case["case"])
