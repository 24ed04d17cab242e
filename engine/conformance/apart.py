"""Rules that may end the process: tried in a copy of it."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import pickle
import sys
import warnings
from collections.abc import Callable
from typing import Any

from ..processes.launch import exit_reason
from .jury import tried
from .report import Finding


def judged_apart(rule: str, check: Callable[[], Any], patience: float) -> Finding:
    """What comes of a rule whose calls may abort, as those of native libraries do. Where
    processes cannot be copied safely (anywhere but on Linux) it is tried in this one."""
    if sys.platform != "linux":
        return tried(rule, check)
    ours, theirs = multiprocessing.Pipe(duplex=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # copies of processes with threads
        child = os.fork()
    if child == 0:
        _answer(theirs, rule, check)
    theirs.close()
    with ours:
        finding = _read(ours, patience)
    if finding is None:
        os.kill(child, 9)
        os.waitpid(child, 0)
        return Finding(rule, False, f"a call did not return within {patience:g} s")
    _, status = os.waitpid(child, 0)
    if isinstance(finding, Finding):
        return finding
    how = exit_reason(os.waitstatus_to_exitcode(status))
    return Finding(rule, False, f"the process {how}")


def _answer(connection: Any, rule: str, check: Callable[[], Any]) -> None:
    """What the copy does: nothing of the original's but to answer."""
    try:
        faulthandler.disable()  # its last words are in the finding
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        connection.send_bytes(pickle.dumps(tried(rule, check)))
    finally:
        os._exit(0)


def _read(connection: Any, patience: float) -> Any:
    """The copy's answer; EOFError where it ended without one, None where it takes too long."""
    if not connection.poll(patience):
        return None
    try:
        return pickle.loads(connection.recv_bytes())
    except EOFError as error:
        return error
