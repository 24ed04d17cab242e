"""check_vec_env: our batches and Gymnasium's pass, and each rule finds what breaks it."""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space

import headrace
from headrace import check_vec_env
from headrace.engine.conformance import Report
from headrace.engine.conformance.report import Finding

MODES = ("NextStep", "SameStep", "Disabled")
CARTPOLE = functools.partial(gymnasium.make, "CartPole-v1", disable_env_checker=True)


def broken(report: Report) -> set[str]:
    return {finding.rule for finding in report.failed}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["cartpole", "foraging", "snake", "pendulum"])
def test_native_batches_pass(name: str, mode: str) -> None:
    make = functools.partial(headrace.make_vec, name, 8, autoreset_mode=mode)
    report = check_vec_env(make, steps=300)
    report.raise_for_failures()
    assert report.ok


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("executor", ["processes", "serial"])
def test_python_batches_pass(executor: str, mode: str) -> None:
    make = functools.partial(
        headrace.make_vec, "gymnasium:CartPole-v1", 4, executor=executor, autoreset_mode=mode,
        workers=2 if executor == "processes" else None, start_method="fork",
    )  # fmt: skip
    check_vec_env(make, steps=60).raise_for_failures()


@pytest.mark.parametrize("mode", MODES)
def test_gymnasiums_batches(mode: str) -> None:
    report = check_vec_env(lambda: SyncVectorEnv([CARTPOLE] * 4, autoreset_mode=mode))
    assert broken(report) <= {"a call after close() raises"}  # not raised in Gymnasium 1.4
    env = AsyncVectorEnv([CARTPOLE] * 2, autoreset_mode=mode, context="fork")
    report = check_vec_env(env, steps=60)
    assert (
        not broken(report)
        - {f"{what} are refused" for what in ("too few actions", "too many actions")}
        - {"actions out of range are refused"}
    )
    env.close(terminate=True)


class Wrong(VectorWrapper):
    """A batch with one fault."""

    def __init__(self, env: VectorEnv, fault: str) -> None:
        super().__init__(env)
        self.fault = fault
        self.last: Any = None

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        if self.fault == "ignores seeds":
            seed = None
        if self.fault == "one seed for all" and seed is not None and not isinstance(seed, list):
            seed = [seed] * self.num_envs
        if self.fault == "ignores masks" and options:
            options = None
        obs, infos = self.env.reset(seed=seed, options=options)
        return self.shown(obs), infos

    def step(self, actions: Any) -> Any:
        if self.fault == "global random":
            np.random.rand()
        if self.fault == "cuts actions":
            actions = np.resize(actions, self.num_envs)
        if self.fault == "clips actions":
            actions = np.minimum(actions, 1)
        if self.fault == "mixes":
            actions = np.roll(actions, 1)
        obs, rewards, terminated, truncated, infos = self.env.step(actions)
        if self.fault == "flat rewards":
            rewards = rewards[:, None]
        if self.fault == "integer flags":
            terminated = terminated.astype(int)
        if self.fault == "no final":
            infos.pop("final_obs", None)
        if self.fault == "no masks":
            infos = {"speed": np.ones(self.num_envs)}
        return self.shown(obs), rewards, terminated, truncated, infos

    def shown(self, obs: Any) -> Any:
        if self.fault == "far out":
            return obs + 100
        if self.fault == "reuses arrays":
            self.last = obs if self.last is None else self.last
            self.last[...] = obs
            return self.last
        return obs


FAULTS = {
    "ignores seeds": "the same seed gives the same life",
    "one seed for all": "seed s gives environment i the seed s + i",
    "ignores masks": "options['reset_mask'] resets what it names",
    "global random": "NumPy's global generator is left alone",
    "cuts actions": "too few actions are refused",
    "clips actions": "actions out of range are refused",
    "mixes": "environments do not depend on each other's actions",
    "flat rewards": "step returns arrays of the right shapes and dtypes",
    "integer flags": "step returns arrays of the right shapes and dtypes",
    "no final": "final observations are given with SameStep",
    "no masks": "infos have masks",
    "far out": "observations lie in their space",
    "reuses arrays": "what was returned stays as it was",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str) -> None:
    make: Callable[[], VectorEnv] = lambda: Wrong(  # noqa: E731
        headrace.make_vec("cartpole", 4, autoreset_mode="SameStep"), fault
    )
    report = check_vec_env(make)
    assert FAULTS[fault] in broken(report)
    assert f"FAIL {FAULTS[fault]}" in str(report)
    with pytest.raises(AssertionError, match="rules"):
        report.raise_for_failures()


class Narrow(VectorWrapper):
    """CartPole whose actions are of a small dtype, of which it refuses all after the first `n`."""

    def __init__(self, n: int, dtype: Any, refuses: bool = True, start: int = 0) -> None:
        super().__init__(headrace.make_vec("cartpole", 4))
        self.single_action_space = spaces.Discrete(n, start=start, dtype=dtype)
        self.action_space = batch_space(self.single_action_space, 4)
        self.end, self.refuses = start + n, refuses

    def step(self, actions: Any) -> Any:
        actions = actions.astype(np.int64)
        if self.refuses and (actions >= self.end).any():
            raise ValueError(f"actions are {actions}")
        return self.env.step(actions % 2)


@pytest.mark.parametrize(
    ("n", "dtype", "refuses", "passed", "detail"),
    [
        (2, np.uint8, True, True, ""),
        (2, np.int16, True, True, ""),
        (2, np.int64, True, True, ""),
        (255, np.uint8, True, True, ""),
        (2_000_000, np.int32, True, True, ""),
        (2, np.uint8, False, False, "action 255 is accepted"),
        (2_000_000, np.int32, False, False, "action 2000000 is accepted"),
    ],
)
def test_actions_of_small_dtypes_are_tried_beyond_their_range(
    n: int, dtype: Any, refuses: bool, passed: bool, detail: str
) -> None:
    found = out_of_range(Narrow(n, dtype, refuses))
    assert (found.passed, found.detail) == (passed, detail)


def test_where_a_dtype_ends_with_the_actions_there_is_none_to_refuse() -> None:
    found = out_of_range(Narrow(255, np.uint8, start=1))
    assert found.passed is None
    assert found.detail == "there is no uint8 above 255, the highest action"


def out_of_range(env: VectorEnv) -> Finding:
    report = check_vec_env(env, steps=5)
    return next(f for f in report.findings if f.rule == "actions out of range are refused")


def test_one_that_hangs_is_reported() -> None:
    class Stuck(VectorWrapper):
        def step(self, actions: Any) -> Any:
            threading.Event().wait()

    env = Stuck(headrace.make_vec("cartpole", 2))
    report = check_vec_env(env, patience=0.2)
    assert any("did not return within 0.2 s" in finding.detail for finding in report.failed)
    assert any(finding.detail == "the environment hangs" for finding in report.findings)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux alone")
def test_one_that_ends_the_process_is_reported() -> None:
    class Fatal(VectorWrapper):
        def step(self, actions: Any) -> Any:
            if len(actions) < self.num_envs:
                os.abort()
            if len(actions) > self.num_envs:
                threading.Event().wait()
            return self.env.step(actions)

    report = check_vec_env(lambda: Fatal(headrace.make_vec("cartpole", 4)), patience=1.0)
    how = {finding.rule: finding.detail for finding in report.failed}
    assert how["too few actions are refused"] == "the process was killed by SIGABRT"
    assert how["too many actions are refused"] == "a call did not return within 1 s"
    passed = {finding.rule for finding in report.findings if finding.passed}
    assert "actions out of range are refused" in passed


def test_what_is_no_vector_environment_is_refused() -> None:
    with pytest.raises(TypeError, match="env is an int"):
        check_vec_env(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"is no gymnasium\.vector\.VectorEnv"):
        check_vec_env(CARTPOLE)
