"""Ctrl-C and SIGTERM as flags that training looks at."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from types import FrameType
from typing import Any

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
        self._watch: _Watch | None = None

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            for number in NUMBERS:
                self._previous[number] = signal.signal(number, self._request)
            if self._stop is not None:
                self._watch = _Watch.begin(self._stop)
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

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()


class _Watch:
    """A thread that reads the numbers of signals from a pipe into which they are written the
    moment they arrive."""

    def __init__(self, stop: StopFlag) -> None:
        self._stop = stop
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._thread = threading.Thread(target=self._run, name="headrace-signals", daemon=True)

    @classmethod
    def begin(cls, stop: StopFlag) -> _Watch | None:
        """Watches from the main thread; None where somebody else does already."""
        watch = cls(stop)
        previous = signal.set_wakeup_fd(watch._write, warn_on_full_buffer=False)
        if previous != -1:
            signal.set_wakeup_fd(previous)
            os.close(watch._read)
            os.close(watch._write)
            return None
        watch._thread.start()
        return watch

    def end(self) -> None:
        """Ends the thread; from the main thread."""
        signal.set_wakeup_fd(-1)
        os.write(self._write, b"\0")
        self._thread.join()
        os.close(self._read)
        os.close(self._write)

    def _run(self) -> None:
        while True:
            numbers = os.read(self._read, 64)
            if any(number in numbers for number in NUMBERS):
                self._stop.request()
            if b"\0" in numbers:
                return
