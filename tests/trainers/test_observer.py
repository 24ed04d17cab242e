"""What an observer is told while a run trains."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

import headrace
from headrace.trainers.metrics import ENVIRONMENT, METRICS
from headrace.trainers.progress import OBSERVER_SECONDS, Progress, seconds_left


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """(what an observer of a run was told, the lines of the run)"""
    found = []
    folder = tmp_path_factory.mktemp("observed") / "r"
    settings = {"steps": 1_500_000, "target": None, "eval_every": 300_000, "eval_episodes": 4}
    headrace.train("cartpole", observer=found.append, run_dir=str(folder), threads=1, **settings)
    return found, [json.loads(line) for line in (Path(folder) / "metrics.jsonl").open()]


def test_an_observer_is_told_of_every_evaluation_on_the_way(told):
    shown, lines = told
    evaluated = [p.metrics["eval/return"] for p in shown if "eval/return" in p.metrics]
    logged = [line["eval/return"] for line in lines if "eval/return" in line]
    assert len(logged) == 5
    assert evaluated == logged[: len(evaluated)]
    assert len(evaluated) >= 4  # the one at the end comes after the last update


def test_an_observer_is_told_what_is_logged_but_about_the_time_since_it_was_told_last(told):
    shown, _ = told
    for progress in shown:
        own = [name for name in progress.metrics if not name.startswith(ENVIRONMENT)]
        assert set(own) <= set(METRICS)
        assert progress.metrics["steps"] == progress.steps
        assert progress.sps == progress.metrics["sps"]
    plain = [p for p in shown if "eval/return" not in p.metrics]
    for before, after in pairwise(shown):
        if after in plain:
            assert after.seconds - before.seconds >= OBSERVER_SECONDS


def test_seconds_left():
    progress = Progress("e", 40, 100, 2.0, 20.0, None, None)
    assert seconds_left(progress) == 3.0
    assert seconds_left(Progress("e", 40, 100, 2.0, 0.0, None, None)) == 0.0
    assert seconds_left(Progress("e", 120, 100, 2.0, 20.0, None, None)) == 0.0
