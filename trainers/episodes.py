"""The last episodes that finished, in order of step and row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

WINDOW = 100  # episodes over which returns are averaged


class EpisodeWindow:
    """Returns and lengths of the last `WINDOW` finished episodes, and how many there were."""

    def __init__(self) -> None:
        self.count = 0
        self._returns: NDArray[np.float64] = np.empty(0)
        self._lengths: NDArray[np.float64] = np.empty(0)

    def add(self, returns: NDArray[Any], lengths: NDArray[Any]) -> None:
        """Appends episodes (float [N], int [N]) in the order in which they finished."""
        if len(returns) == 0:
            return
        self.count += len(returns)
        self._returns = np.concatenate([self._returns, returns[-WINDOW:]])[-WINDOW:]
        self._lengths = np.concatenate([self._lengths, lengths[-WINDOW:]])[-WINDOW:]

    @property
    def return_mean(self) -> float | None:
        """Mean return of the window; None before the first episode has finished."""
        return float(self._returns.mean()) if self.count else None

    @property
    def length_mean(self) -> float | None:
        """Mean length of the window in steps; None before the first episode has finished."""
        return float(self._lengths.mean()) if self.count else None

    def reached(self, target: float | None) -> bool:
        """Whether the window is full and its mean return is at least `target`."""
        if target is None or self.count < WINDOW:
            return False
        return float(self._returns.mean()) >= target

    def state_dict(self) -> dict[str, Any]:
        """Everything that `load_state_dict` needs."""
        return {"count": self.count, "returns": self._returns, "lengths": self._lengths}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from a saved window."""
        self.count = int(state["count"])
        self._returns, self._lengths = state["returns"], state["lengths"]
