"""Signals the moment they arrive, even while the main thread is inside native code, where Python's
own handlers wait."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Callable


class SignalWatch:
    """A thread that is told the numbers of signals by a pipe into which Python's C handler writes
    them. Who watched before is told too."""

    def __init__(
        self,
        arrived: Callable[[bytes], float | None],
        late: Callable[[], None] | None = None,
    ) -> None:
        """Watches from now on; from the main thread.

        Args:
            arrived: called in the thread with the numbers of signals; returns in how many seconds
                `late` is called, unless more arrive before. None: not at all.
        """
        self._arrived, self._late = arrived, late
        self._read, self._write = os.pipe()
        self._end_read, self._end_write = os.pipe()
        os.set_blocking(self._write, False)
        self._previous = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._run, name="headrace-signals", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Ends the thread; from the main thread."""
        signal.set_wakeup_fd(self._previous)
        os.write(self._end_write, b"\0")
        self._thread.join()
        for end in (self._read, self._write, self._end_read, self._end_write):
            os.close(end)

    def _run(self) -> None:
        wait: float | None = None
        while True:
            ready, _, _ = select.select([self._read, self._end_read], [], [], wait)
            if self._read in ready:
                numbers = os.read(self._read, 64)
                self._relay(numbers)
                wait = self._arrived(numbers)
            elif not ready:
                wait = None
                if self._late is not None:
                    self._late()
            if self._end_read in ready:
                return

    def _relay(self, numbers: bytes) -> None:
        if self._previous != -1:
            try:
                os.write(self._previous, numbers)
            except OSError:  # full, or closed by who watched before
                return
