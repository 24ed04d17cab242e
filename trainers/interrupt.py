"""Ctrl-C and SIGTERM as a flag that the training loop looks at between two rollouts."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from types import FrameType
from typing import Any


class TrainingInterrupted(KeyboardInterrupt):
    """Training was interrupted and saved; `checkpoint` is where, `run` the run's folder."""

    def __init__(self, run: Path, checkpoint: Path) -> None:
        super().__init__(f"interrupted; saved {checkpoint}, continue with --resume {run}")
        self.run = run
        self.checkpoint = checkpoint


class Interruption:
    """While it is entered, the first SIGINT or SIGTERM sets `requested` instead of acting.

    A second one acts as usual (KeyboardInterrupt, or the end of the process). Outside the main
    thread, where Python delivers no signals, it does nothing.
    """

    def __init__(self) -> None:
        self.requested = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._request)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _request(self, _number: int, _frame: FrameType | None) -> None:
        self.requested = True
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()
