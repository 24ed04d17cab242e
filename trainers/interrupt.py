"""Ctrl-C and SIGTERM as flags that training looks at."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from types import FrameType
from typing import Any

from ..engine.signals import SignalWatch
from ._native import StopFlag

NUMBERS = (signal.SIGINT, signal.SIGTERM)


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

    def __init__(self, stop: StopFlag | None = None) -> None:
        """stop: requested too, and even while the main thread is inside native code, where
        Python's own handlers wait."""
        self.requested = False
        self._stop = stop
        self._previous: dict[int, Any] = {}
        self._watch: SignalWatch | None = None

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            for number in NUMBERS:
                self._previous[number] = signal.signal(number, self._request)
            if self._stop is not None:
                self._watch = SignalWatch(self._arrived)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()
        if self._watch is not None:
            self._watch.end()

    def _request(self, _number: int, _frame: FrameType | None) -> None:
        self.requested = True
        if self._stop is not None:
            self._stop.request()
        self._restore()

    def _arrived(self, numbers: bytes) -> None:
        if self._stop is not None and any(number in numbers for number in NUMBERS):
            self._stop.request()

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()
