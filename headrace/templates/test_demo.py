"""Tests of demo: run `pytest test_demo.py`."""

from pathlib import Path

import headrace

ENV = Path(__file__).with_name("demo.c")


def test_contract():
    report = headrace.check(ENV)
    assert report.passed, report.text()


def test_step_to_the_right():
    vec = headrace.make_vec(ENV, 1, seed=3)
    before, after = vec.reset()[0], vec.step([2])[0]
    assert abs(after[0, 0] - before[0, 0] - 0.05) < 1e-6
