"""What holds a run up: the definition by hand, and real runs that are built to be bound."""

from __future__ import annotations

import json
import time
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import headrace
from headrace.trainers._native import STAGES
from headrace.trainers.bottleneck import BOTTLENECKS, Passed, stopwatch
from headrace.trainers.collector import FusedCollector

BUSY = str(Path(__file__).parent / "worlds" / "busy.c")
PARTS = ("environment", "inference", "learn", "wait", "rest")


# ---- the definition ----------------------------------------------------------------------------


class Fused(FusedCollector):
    """A native collector of two threads whose clocks are set by hand."""

    threads = 2
    stage_seconds = None  # no property here

    def __init__(self):
        self.stage_seconds = np.zeros((2, len(STAGES)))

    def spend(self, **seconds):
        for stage, each in seconds.items():
            self.stage_seconds[:, STAGES.index(stage)] += each / 2


class Learner(Fused):
    """A native learner likewise."""


class Stepped:
    """A stepped collector whose clocks are set by hand."""

    def __init__(self):
        self.seconds = {"act": 0.0, "env": 0.0, "record": 0.0, "finish": 0.0}

    def profile(self):
        return dict(self.seconds)

    def spend(self, **seconds):
        for stage, each in seconds.items():
            self.seconds[stage] += each


def shares_of(collector, learner, asynchronous, passed, spend):
    watch = stopwatch(collector, learner, asynchronous=asynchronous)
    before = watch.read()
    spend()
    shares = watch.shares(before, watch.read(), Passed(*passed))
    assert sum(shares[:5]) == pytest.approx(1.0)
    return shares


def test_in_turn_the_collecting_time_is_shared_out_by_the_steps_that_were_timed():
    fused = Fused()

    def spend():
        fused.spend(env=0.2, forward=0.05, encode=0.02, sample=0.03, record=0.1)
        fused.spend(advantage=2.0, collect_task=10.0)  # 8 s of steps: half environment

    shares = shares_of(fused, None, False, (10.0, 5.0, 4.0), spend)
    assert shares.environment == pytest.approx(0.2)
    assert shares.inference == pytest.approx(0.1)
    assert shares.learn == pytest.approx(0.4)
    assert shares.wait == 0
    assert shares.bottleneck == "learner"


def test_a_time_in_which_no_step_was_timed_is_shared_out_as_the_one_before():
    fused = Fused()
    watch = stopwatch(fused, None, asynchronous=False)
    first = watch.read()
    fused.spend(env=0.3, forward=0.1, collect_task=4.0)
    second = watch.read()
    fused.spend(collect_task=4.0)
    watch.shares(first, second, Passed(4.0, 4.0, 0.0))
    shares = watch.shares(second, watch.read(), Passed(4.0, 4.0, 0.0))
    assert shares[:2] == pytest.approx((0.75, 0.25))


@pytest.mark.parametrize(
    ("collect_task", "learn_task", "bottleneck"),
    [(15.0, 3.0, "environment"), (3.0, 15.0, "learner"), (4.0, 4.0, "queue")],
)
def test_on_one_pool_the_threads_time_counts(collect_task, learn_task, bottleneck):
    fused, learner = Fused(), Learner()

    def spend():
        fused.spend(env=0.3, forward=0.1, collect_task=collect_task)
        learner.spend(learn_task=learn_task)  # half of it on the thread that learns

    alone = learn_task / 2 + 0.5  # with what no task is: shuffling, the optimiser
    shares = shares_of(fused, learner, True, (10.0, 10.0 - alone, alone), spend)
    assert shares.environment == pytest.approx(0.75 * collect_task / 20)
    assert shares.learn == pytest.approx((learn_task + 0.5) / 20)
    assert shares.wait == pytest.approx(1 - (collect_task + learn_task + 0.5) / 20)
    assert shares.bottleneck == bottleneck


@pytest.mark.parametrize(
    ("env", "act", "learner_waits", "bottleneck"),
    [
        (6.0, 3.5, 5.0, "environment"),
        (3.5, 6.0, 5.0, "inference"),
        (2.0, 3.0, 0.1, "learner"),
        (3.0, 2.0, 4.0, "queue"),  # both wait for more than three tenths
    ],
)
def test_side_by_side_it_is_who_waits_less(env, act, learner_waits, bottleneck):
    stepped = Stepped()
    passed = (10.0, learner_waits, 10.0 - learner_waits)
    shares = shares_of(stepped, None, True, passed, lambda: stepped.spend(env=env, act=act))
    assert shares.environment == pytest.approx(env / 20)
    assert shares.inference == pytest.approx(act / 20)
    assert shares.wait == pytest.approx((10.0 - env - act + learner_waits) / 20)
    assert shares.bottleneck == bottleneck


def test_what_was_under_way_before_never_makes_more_than_all():
    fused, learner = Fused(), Learner()
    shares = shares_of(
        fused, learner, True, (1.0, 1.0, 0.0), lambda: fused.spend(env=1.0, collect_task=9.0)
    )
    assert shares.environment == 1.0


def test_no_time_is_no_error():
    shares = shares_of(Fused(), None, False, (0.0, 0.0, 0.0), lambda: None)
    assert shares.rest == 1.0


# ---- real runs ---------------------------------------------------------------------------------


class Sleepy(gymnasium.Env):
    """Sleeps through its steps."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        time.sleep(0.004)
        return np.zeros(2, np.float32), 1.0, False, False, {}


SLOW_ENVIRONMENT = {"params": {"work": 5000}, "num_envs": 128, "steps": 60_000}
MANY_EPOCHS = {"epochs": 60, "num_envs": 128, "steps": 60_000, "horizon": 32}
FEW_ROWS = {
    "policy": "torch",
    "num_envs": 2,
    "horizon": 512,
    "epochs": 1,
    "minibatches": 1,
    "steps": 4 * 1024,
    "hidden": (64, 64),
}


def named(run_dir, env, settings):
    """Shares of the run's time by part and its bottlenecks, by line."""
    settings = {"hidden": (16,), "target": None, "threads": 2, "seed": 1, **settings}
    headrace.train(env, run_dir=str(run_dir), **settings)
    lines = [json.loads(line) for line in (run_dir / "metrics.jsonl").open()]
    timed = [line for line in lines if "time/bottleneck" in line]
    assert timed
    for line in timed:
        assert sum(line[f"time/{part}"] for part in PARTS) == pytest.approx(1.0)
        assert line["time/bottleneck"] in BOTTLENECKS
    return timed


def most_named(lines):
    """The bottleneck that was named for the longest time."""
    spans, before = dict.fromkeys(BOTTLENECKS, 0.0), 0.0
    for line in lines:
        spans[line["time/bottleneck"]] += line["seconds"] - before
        before = line["seconds"]
    return max(spans, key=spans.__getitem__)


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize(
    ("env", "settings", "bottleneck"),
    [(BUSY, SLOW_ENVIRONMENT, "environment"), ("cartpole", MANY_EPOCHS, "learner")],
)
def test_native_runs_built_to_be_bound(mode, env, settings, bottleneck, tmp_path):
    lines = named(tmp_path / "r", env, {**settings, "async_": mode == "async"})
    assert most_named(lines) == bottleneck
    if mode == "sync":
        assert {line["time/wait"] for line in lines} == {0.0}


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize(
    ("settings", "bottleneck"),
    [({}, "inference"), ({"epochs": 40, "minibatches": 4, "steps": 6 * 1024}, "learner")],
)
def test_a_policy_that_acts_for_few_rows_at_a_time(mode, settings, bottleneck, tmp_path):
    pytest.importorskip("torch")
    settings = {**FEW_ROWS, **settings, "async_": mode == "async"}
    assert most_named(named(tmp_path / "r", "cartpole", settings)) == bottleneck


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_python_environments_that_sleep_hold_everything_up(mode, tmp_path):
    settings = {"num_envs": 4, "horizon": 16, "steps": 600, "async_": mode == "async"}
    lines = named(tmp_path / "r", Sleepy, settings)
    assert most_named(lines) == "environment"
