"""An environment whose steps wait and do nothing: a simulator or a service elsewhere."""

from __future__ import annotations

import time
from typing import Any

import gymnasium

LATENCY = 5e-3  # seconds of a step


class Waiting(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Gymnasium's CartPole-v1, whose every step first sleeps `latency` seconds."""

    def __init__(self, render_mode: str | None = None, latency: float = LATENCY) -> None:
        super().__init__(gymnasium.make("CartPole-v1", render_mode=render_mode))
        self._latency = float(latency)

    def step(self, action: Any) -> Any:
        """See gymnasium.Env."""
        time.sleep(self._latency)
        return self.env.step(action)
