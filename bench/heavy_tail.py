"""CartPole whose steps take a heavy-tailed time: what tools, simulators and networks do."""

from __future__ import annotations

import math
import time
from typing import Any

import gymnasium
import numpy as np

MEDIAN, SIGMA = 1e-3, 2.0  # of the lognormal seconds of a step; the mean is e^2 ms = 7.4 ms
LONGEST = 1.0  # seconds


class HeavyTail(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Gymnasium's CartPole-v1; each step first sleeps a lognormal time, drawn from the seed."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(gymnasium.make("CartPole-v1", render_mode=render_mode))
        self._clock = np.random.default_rng(0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """See gymnasium.Env; a seed sets the times of the steps to come, too."""
        if seed is not None:
            self._clock = np.random.default_rng(seed)
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        """See gymnasium.Env."""
        time.sleep(min(LONGEST, float(self._clock.lognormal(math.log(MEDIAN), SIGMA))))
        return self.env.step(action)
