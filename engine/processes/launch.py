"""Starting worker processes: a fresh interpreter each (spawn), or a copy (fork, forkserver)."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import signal
import socket
import subprocess
import sys
from multiprocessing import spawn
from multiprocessing.connection import Connection
from typing import Any

from ..errors import ArgumentError, ArgumentTypeError

START_METHODS = ("spawn", "fork", "forkserver")

# The first thing that a fresh interpreter does. It never runs the user's script again, so that
# a script needs no `if __name__ == "__main__":`.
_BOOT = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
    "from {module} import main; main(int(sys.argv[2]))"
)
# Worker processes share the CPUs among them: libraries in them get one thread each.
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Process:
    """A running worker, its process id and this end of its socket."""

    def __init__(self, connection: Connection, started: Any) -> None:
        self.connection = connection
        self.pid: int = started.pid
        self._started = started  # a subprocess.Popen or multiprocessing.Process

    def exit_code(self) -> int | None:
        """None while it runs; -n when signal n ended it."""
        if isinstance(self._started, subprocess.Popen):
            return self._started.poll()
        return self._started.exitcode

    def kill(self) -> None:
        """Ends it at once; `join` afterwards."""
        if self.exit_code() is None:
            self._started.kill()

    def join(self, seconds: float | None) -> bool:
        """Waits for its end; whether it has ended."""
        if isinstance(self._started, subprocess.Popen):
            try:
                self._started.wait(seconds)
            except subprocess.TimeoutExpired:
                return False
            return True
        self._started.join(seconds)
        return self._started.exitcode is not None

    def release(self) -> None:
        """Closes the socket, which also ends a worker that still runs."""
        self.connection.close()
        if not isinstance(self._started, subprocess.Popen) and self._started.exitcode is not None:
            self._started.close()


def start_worker(start_method: str) -> Process:
    """Starts a worker, which waits for its first letter."""
    ours, theirs = socket.socketpair()
    connection = Connection(ours.detach())
    try:
        if start_method == "spawn":
            return Process(connection, _spawn(theirs.fileno()))
        return Process(connection, _copy(start_method, connection, Connection(theirs.detach())))
    except OSError as error:
        connection.close()
        raise ArgumentError(
            f"a worker process cannot be started: {error.strerror or error}"
        ) from None
    finally:
        theirs.close()


def check_start_method(name: Any) -> str:
    """The name of a start method that this system has."""
    if name not in START_METHODS:
        raise ArgumentError(
            f"start_method is {name!r}: expected one of {', '.join(map(repr, START_METHODS))}"
        )
    if name == "spawn" and (getattr(sys, "frozen", False) or not spawn.get_executable()):
        raise ArgumentError(
            "start_method is 'spawn', but this program is no plain Python that could be started "
            "once more: use start_method='fork'"
        )
    return name


def pickled(functions: Any) -> bytes:
    """Functions that make environments, for another process.

    What is defined in a script, a notebook or inside a function travels by value.
    """
    import cloudpickle

    try:
        return cloudpickle.dumps(functions, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        raise ArgumentTypeError(
            f"env cannot be sent to a worker process ({type(error).__name__}: {error}): make what "
            "it needs inside the function, or use executor='serial'"
        ) from None


def exit_reason(code: int | None) -> str:
    """How a process ended, in words."""
    if code is None:
        return "closed its connection"
    if code < 0:
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"
    return f"ended with exit status {code}"


def _spawn(handle: int) -> subprocess.Popen[bytes]:
    module = f"{__package__}.worker"
    command = [
        os.fsdecode(spawn.get_executable()),
        *subprocess._args_from_interpreter_flags(),  # type: ignore[attr-defined]
        "-c",
        _BOOT.format(module=module),
        json.dumps([os.path.abspath(path) for path in sys.path]),
        str(handle),
    ]
    env = dict.fromkeys(_ONE_THREAD, "1") | dict(os.environ)
    return subprocess.Popen(command, pass_fds=[handle], stdin=subprocess.DEVNULL, env=env)


def _copy(start_method: str, ours: Connection, theirs: Connection) -> Any:
    context = multiprocessing.get_context(start_method)
    process = context.Process(  # type: ignore[attr-defined]
        target=_run_copy, args=(theirs, ours.fileno() if start_method == "fork" else -1)
    )
    process.daemon = True
    try:
        process.start()
    finally:
        theirs.close()
    return process


def _run_copy(connection: Connection, inherited: int) -> None:
    """What a forked process runs. inherited: the batch's end of the socket, -1 for none."""
    from .worker import serve

    if inherited >= 0:
        os.close(inherited)  # else the worker would not notice that the batch is gone
    serve(connection, os.getppid())
