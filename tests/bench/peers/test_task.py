"""What a peer recorded is held to Gymnasium's CartPole before anything is timed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.bench.batches import Batch, gymnasium_numpy, headrace_batch
from headrace.bench.check import CheckFailed
from headrace.bench.peers.drivers.protocol import record
from headrace.bench.peers.task import check_episodes, check_learnt, check_recording

Recording = dict[str, Any]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    path = tmp_path_factory.mktemp("peers") / "recording.npz"
    record(headrace_batch(16, 1, copy=True), str(path))
    with np.load(path) as file:
        return dict(file)


def checked(folder: Path, recording: Recording, *, next_step: bool = True) -> None:
    np.savez(folder / "recording.npz", **recording)
    check_recording(folder / "recording.npz", "Peer", next_step=next_step)


def test_half_of_a_recording_balances_and_half_falls(recording: Recording) -> None:
    assert recording["truncated"][:, :8].sum() == 16
    assert not recording["terminated"][:, :8].any()
    assert recording["terminated"][:, 8:].sum() > 200


@pytest.mark.parametrize("batch", [headrace_batch(16, 1, copy=True), gymnasium_numpy(16)])
def test_the_real_task_passes(batch: Batch, tmp_path: Path) -> None:
    record(batch, str(tmp_path / "it.npz"))
    check_recording(tmp_path / "it.npz", batch.impl, next_step=True)


def half_gravity(it: Recording) -> None:
    it["obs"][1:, :, 3] *= 0.98


def no_reward_at_the_end(it: Recording) -> None:
    it["rewards"] = np.where(it["terminated"], 0.0, it["rewards"])


def never_cut(it: Recording) -> None:
    it["truncated"] = np.zeros_like(it["truncated"])


def cut_early(it: Recording) -> None:
    it["truncated"][199, 0] = True


def never_falls(it: Recording) -> None:
    it["terminated"] = np.zeros_like(it["terminated"])


def nan(it: Recording) -> None:
    it["obs"][5, 3, 1] = np.nan


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (half_gravity, "off Gymnasium's CartPole"),
        (no_reward_at_the_end, "a reward is 0, not 1"),
        (never_cut, "off Gymnasium's CartPole"),
        (cut_early, "cut after 200 steps"),
        (never_falls, "terminated differs"),
        (nan, "not finite"),
    ],
)
def test_another_task_does_not(
    broken: Callable[[Recording], None], said: str, recording: Recording, tmp_path: Path
) -> None:
    copy = {name: array.copy() for name, array in recording.items()}
    broken(copy)
    with pytest.raises(CheckFailed, match=said):
        checked(tmp_path, copy)


def test_an_episode_has_a_limit() -> None:
    shape = (501, 2)
    none = np.zeros(shape, bool)
    it = {"rewards": np.ones(shape), "terminated": none, "truncated": none}
    with pytest.raises(CheckFailed, match="longer than 500 steps"):
        check_episodes(it, "Peer", next_step=True)
    short = {name: array[:500] for name, array in it.items()}
    with pytest.raises(CheckFailed, match="no episode was cut after 500 steps"):
        check_episodes(short, "Peer", next_step=True)


def test_rows_of_a_reset_are_no_steps(recording: Recording, tmp_path: Path) -> None:
    with pytest.raises(CheckFailed):
        checked(tmp_path, recording, next_step=False)


def test_training_that_taught_nothing_has_no_speed() -> None:
    check_learnt("Peer", 300.0, 10)
    for mean, said in ((None, "no episode ended"), (22.0, "mean return 22"), (700.0, "700")):
        with pytest.raises(CheckFailed, match=f"did not learn: .*{said}.* after 1,000 steps"):
            check_learnt("Peer", mean, 1000)
