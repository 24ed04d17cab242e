"""The vector environments that are compared, and the check before they are timed."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np
import pytest

from headrace.bench.batches import (
    Batch,
    gymnasium_numpy,
    gymnasium_sync,
    headrace_batch,
    stepper,
    transitions_per_row,
)
from headrace.bench.check import CheckFailed, check_cartpole

BATCHES = [
    headrace_batch(100, 1, copy=True),
    headrace_batch(100, 2, copy=False),
    gymnasium_numpy(50),
    gymnasium_sync(3),
]


def label(batch: Batch) -> str:
    return f"{batch.impl}-{batch.threads}"


@pytest.mark.parametrize("batch", BATCHES, ids=label)
def test_every_batch_is_cartpole(batch: Batch) -> None:
    with closing(batch.make()) as env:
        check_cartpole(env, batch)
        stepper(env, batch)(3)


class Wrapped:
    """A CartPole of which something is not as it should be."""

    def __init__(self, env: Any, fault: str) -> None:
        self.env, self.fault = env, fault

    def reset(self, seed: int) -> Any:
        return self.env.reset(seed=seed)

    def step(self, actions: Any) -> Any:
        obs, reward, terminated, truncated, infos = self.env.step(actions)
        if self.fault == "observation":
            obs = obs + np.float32(0.01)
        if self.fault == "nan":
            obs = obs * np.float32(np.nan)
        if self.fault == "terminated":
            truncated, terminated = terminated, np.zeros_like(terminated)
        return obs, reward, terminated, truncated, infos


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        ("observation", "an observation is"),
        ("nan", "an observation is"),
        ("terminated", "terminated differs"),
    ],
)
def test_what_is_not_cartpole_is_not_timed(fault: str, complaint: str) -> None:
    batch = gymnasium_numpy(20)
    with (
        closing(batch.make()) as env,
        pytest.raises(CheckFailed, match=f"{batch.impl}: {complaint}"),
    ):
        check_cartpole(Wrapped(env, fault), batch)


def test_rows_of_a_reset_are_not_steps() -> None:
    """Random play falls after about 22 steps: with next-step autoreset 1 row in 23 is a reset."""
    ours, theirs = headrace_batch(512, 1, copy=False), gymnasium_numpy(512)
    for batch in (ours, theirs):
        with closing(batch.make()) as env:
            env.reset(seed=0)
            assert transitions_per_row(env, batch) == pytest.approx(22.2 / 23.2, abs=0.004)


def test_actions_are_the_same_for_all() -> None:
    ours, theirs = headrace_batch(64, 1, copy=False), gymnasium_numpy(64)
    for a, b in zip(ours.actions(), theirs.actions(), strict=True):
        assert np.array_equal(a, b)
