"""A way out of a command whose main thread is in native code that does not return.

Python runs its handlers of signals in the main thread, and an endless loop in a step of an
environment in C keeps it from them for ever.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from .output import print_json

PATIENCE = 2.0  # seconds that the main thread may take to react
INTERRUPTED = 130  # the exit code
SENTENCE = (
    "headrace: interrupted, but a step of the environment does not come back (an endless loop?); "
    "a second Ctrl-C ends without saving, and headrace check looks for the fault"
)

_NUMBERS = (signal.SIGINT, signal.SIGTERM)
_SAME = 0.2  # seconds within which signals are one: `timeout` sends two
_GRACE = 0.3  # seconds that the second signal's own handler has, where it is run after all
_CALL = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
_asked: list[object] = []  # what the interpreter may still call


@contextmanager
def unstuck(as_json: bool) -> Iterator[None]:
    """Meanwhile SIGINT and SIGTERM that the main thread does not react to are answered: the first
    by a sentence, the second by the end of the process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    from .engine.signals import SignalWatch

    stuck = _Stuck(as_json)
    watch = SignalWatch(stuck.arrived, stuck.late)
    try:
        yield
    finally:
        watch.end()


class _Stuck:
    """What becomes of signals, in the thread that is told of them."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._told = self._again = False
        self._since: float | None = None  # the first signal without a reaction
        self._reaction = _CALL(self._react)

    def arrived(self, numbers: bytes) -> float | None:
        """Numbers of signals; seconds until `late`."""
        if not any(number in numbers for number in _NUMBERS):
            return self._left()
        now = time.monotonic()
        if self._since is None:
            self._told = self._again = False
            self._since = now
            # Runs where handlers run: in the main thread, between two instructions of Python.
            _asked.append(self._reaction)
            ctypes.pythonapi.Py_AddPendingCall(self._reaction, None)
        elif now - self._since > _SAME:
            self._again = True
        return self._left()

    def late(self) -> None:
        """The main thread has had its time."""
        if self._since is None:
            return
        if self._again:
            self._end()
        self._told = True
        print(SENTENCE, file=sys.stderr, flush=True)

    def _react(self, _argument: int | None) -> int:
        self._since = None
        return 0

    def _left(self) -> float | None:
        if self._since is None:
            return None
        if self._told:
            return _GRACE if self._again else None
        return max(0.0, self._since + PATIENCE - time.monotonic())

    def _end(self) -> None:
        if self._as_json:
            print_json({"interrupted": True, "run": None})
        print("headrace: ended without saving", file=sys.stderr, flush=True)
        os._exit(INTERRUPTED)
