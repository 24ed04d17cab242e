"""The same task for all: what a contender recorded is held to Gymnasium's CartPole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..batches import Array, Batch
from ..check import CheckFailed, check_cartpole

LIMIT = 500  # steps of an episode
LEARNT = 44.0  # twice a random agent's return: less is no training


@dataclass(frozen=True)
class RecordedBatch(Batch):
    """A recording in the place of environments."""

    recording: Any = None

    def actions(self) -> list[Array]:
        """Those that were taken."""
        return list(self.recording["actions"])


class Replay:
    """Plays a recording back as a vector environment."""

    def __init__(self, recording: Mapping[str, Array]) -> None:
        self._of, self._at = recording, 0

    def reset(self, **_: Any) -> Any:
        """The first observations."""
        return self._of["obs"][0], {}

    def step(self, _: Array) -> Any:
        """What happened next."""
        at = self._at
        self._at += 1
        outcome = (self._of[name][at] for name in ("rewards", "terminated", "truncated"))
        return (self._of["obs"][at + 1], *outcome, {})


def check_recording(path: Path, impl: str, *, next_step: bool) -> None:
    """CheckFailed unless a recording (drivers/protocol.py) is of CartPole: Gymnasium's dynamics
    and terminations, a reward of 1 for every step, episodes cut after 500 steps and not before.
    """
    with np.load(path) as file:
        recording = dict(file)
    steps, rows = recording["actions"].shape
    if not all(np.isfinite(array).all() for array in recording.values()):
        raise CheckFailed(f"{impl}: a recorded value is not finite")
    batch = RecordedBatch(
        "recorded", impl, rows, 1, lambda: None, next_step=next_step, recording=recording
    )
    check_cartpole(Replay(recording), batch, steps)
    check_episodes(recording, impl, next_step=next_step)


def check_episodes(recording: Mapping[str, Array], impl: str, *, next_step: bool) -> None:
    """CheckFailed unless each step is worth 1 and episodes are cut after LIMIT steps."""
    rewards, truncated = recording["rewards"], recording["truncated"]
    over = recording["terminated"] | truncated
    lengths = np.zeros(over.shape[1], int)
    cut = 0
    for at in range(len(over)):
        resetting = over[at - 1] if next_step and at else np.zeros(over.shape[1], bool)
        lengths = np.where(resetting, 0, lengths + 1)
        if not (rewards[at][~resetting] == 1).all():
            raise CheckFailed(f"{impl}: a reward is {rewards[at][~resetting].min():g}, not 1")
        if (lengths > LIMIT).any():
            raise CheckFailed(f"{impl}: an episode is longer than {LIMIT} steps")
        early = truncated[at] & (lengths < LIMIT)
        if early.any():
            raise CheckFailed(f"{impl}: an episode was cut after {lengths[early][0]} steps")
        cut += int(truncated[at].sum())
        lengths = np.where(over[at], 0, lengths)
    if not cut:
        raise CheckFailed(f"{impl}: no episode was cut after {LIMIT} steps")


def check_learnt(impl: str, mean: float | None, steps: int) -> None:
    """CheckFailed where training taught nothing: its speed would mean nothing."""
    if mean is None or not LEARNT < mean <= LIMIT:
        told = "no episode ended" if mean is None else f"mean return {mean:.3g}"
        raise CheckFailed(f"{impl} did not learn: {told} after {steps:,} steps")
