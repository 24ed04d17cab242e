"""Python environments of a run: who steps them, and how many of them at once."""

from __future__ import annotations

import pytest

import headrace
from headrace.trainers.config import TrainConfig
from headrace.trainers.environments import environments

CARTPOLE = "gymnasium:CartPole-v1"


@pytest.mark.parametrize(
    ("share", "threads", "workers", "own", "group"),
    [(0.0, 2, 2, 0, 4), (1.0, 2, 1, 4, 8), (1.0, 1, 1, 4, 8), (0.5, 3, 2, 2, 4)],
)
def test_the_process_that_trains_steps_its_share(
    share: float, threads: int, workers: int, own: int, group: int
) -> None:
    config = TrainConfig(env=CARTPOLE).replace(caller_share=share)
    vec = environments(config, 8, threads, 0, 0)
    try:
        assert vec.workers == workers
        assert 8 - vec._crew.starts[workers] == own
        assert vec.batch_size == group
    finally:
        vec.close()


def test_a_run_whose_process_steps_environments_itself() -> None:
    run = headrace.train(
        CARTPOLE, caller_share=1, num_envs=8, horizon=8, steps=256, threads=2, minibatches=1,
        hidden=(8,), target=None,
    )  # fmt: skip
    assert run.steps == 256


def test_native_environments_have_no_share() -> None:
    with pytest.raises(headrace.HeadraceError, match=r"caller_share is 1\.0, but env is a native"):
        headrace.train("cartpole", caller_share=1)
