"""Running mean and variance, merged from the sums of rollouts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

EPSILON = 1e-8  # added to a variance before its root is divided by


class RunningMoments:
    """Mean and variance of [size] quantities over everything seen (Chan et al. 1979)."""

    def __init__(self, size: int) -> None:
        self.count = 0.0
        self.mean: NDArray[np.float64] = np.zeros(size)
        self.square: NDArray[np.float64] = np.zeros(size)  # sum of squared distances to the mean

    def merge(
        self,
        count: float,
        total: NDArray[np.float64],
        square: NDArray[np.float64],
        centre: ArrayLike,
    ) -> None:
        """Takes in `count` values x, given sums of x - centre and of (x - centre)^2."""
        if count == 0:
            return
        mean = np.asarray(centre, np.float64) + total / count
        spread = np.maximum(square - total * total / count, 0.0)
        delta, both = mean - self.mean, self.count + count
        self.mean = self.mean + delta * (count / both)
        self.square = self.square + spread + delta**2 * (self.count * count / both)
        self.count = both

    def scale(self) -> NDArray[np.float64]:
        """1 / standard deviation; 1 before anything was seen."""
        if self.count == 0:
            return np.ones_like(self.mean)
        scale: NDArray[np.float64] = 1.0 / np.sqrt(self.square / self.count + EPSILON)
        return scale

    def state_dict(self) -> dict[str, Any]:
        """Everything that `load_state_dict` needs."""
        return {"count": self.count, "mean": self.mean.copy(), "square": self.square.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues where `state_dict` was taken."""
        self.count = float(state["count"])
        self.mean, self.square = np.array(state["mean"]), np.array(state["square"])
