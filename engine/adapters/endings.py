"""What adapters need of the end of an episode: who ended, with what, and how it went."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from ..errors import ArgumentError


def require_same_step(vec: VectorEnv, library: str) -> None:
    """Raises unless the batch resets in the same step, as `library` does."""
    mode = vec.metadata.get("autoreset_mode")
    if mode is not AutoresetMode.SAME_STEP:
        shown = mode.value if isinstance(mode, AutoresetMode) else mode
        raise ArgumentError(
            f"vec has autoreset_mode {shown!r}, but {library} expects a reset in the step that "
            "ends an episode: make it with autoreset_mode='SameStep'"
        )


class EpisodeCounter:
    """Returns and lengths of the episodes of a batch, by row."""

    def __init__(self, rows: int) -> None:
        self.returns = np.zeros(rows)
        self.lengths = np.zeros(rows, np.int64)

    def clear(self) -> None:
        """All episodes begin."""
        self.returns[:] = 0.0
        self.lengths[:] = 0

    def add(self, rewards: np.ndarray, ended: np.ndarray) -> list[tuple[int, float, int]]:
        """Counts a step; (row, return, length) of the episodes that ended with it."""
        self.returns += rewards
        self.lengths += 1
        told = [
            (int(row), float(self.returns[row]), int(self.lengths[row]))
            for row in np.flatnonzero(ended)
        ]
        self.returns[ended] = 0.0
        self.lengths[ended] = 0
        return told


def row_of(value: Any, row: int) -> Any:
    """One row of batched observations: a copy, in their structure."""
    if isinstance(value, dict):
        return {name: row_of(part, row) for name, part in value.items()}
    if isinstance(value, tuple):
        return tuple(row_of(part, row) for part in value)
    return np.array(value[row])
