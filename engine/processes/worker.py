"""What a worker process runs: it makes its worlds, and steps those that it is given.

It talks with its batch in two ways. Numbers of worlds to step go over the board, in shared
memory; everything else is a letter, a pickled tuple over a socket that only the two of them
hold. A letter is answered by ("done", value) or ("raised", world, exception, traceback); a
step by neither, unless it raises or its infos are long: ("infos", world, pickle).
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from ._board import Desk, watch_parent
from .memory import Layout, Memory, map_block
from .share import Share, dumps


def serve(connection: Connection, parent: int) -> None:
    """Runs until the batch says "close" or is gone. parent: the process that started this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the batch's to handle
    watch_parent(connection.fileno(), parent)
    with contextlib.suppress(EOFError, ConnectionError):  # the batch is gone: so is the reason
        _Worker(connection).run()
    sys.stdout.flush()
    sys.stderr.flush()


def main(handle: int) -> None:
    """A worker in an interpreter of its own; `handle` is its end of the socket."""
    # `timeout` and schedulers tell all processes to end: the batch's is to save and close first
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    serve(Connection(handle), os.getppid())


class _Worker:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.share = Share(0)
        self.desk: Desk | None = None
        self.closing = False
        self.acts: dict[str, Callable[..., Any]] = {
            "start": self.start,
            "make": self.make,
            "attach": self.attach,
            "reset": self.reset,
            "call": self.share_call,
            "set": self.share_set,
            "close": self.close,
        }

    def run(self) -> None:
        while not self.closing:
            if self.desk is not None:
                self.step_until_letter(self.desk)
            name, *rest = pickle.loads(self.connection.recv_bytes())
            try:
                answer = dumps(("done", self.acts[name](*rest)))
            except (EOFError, ConnectionError):
                raise
            except BaseException as error:
                answer = self.raised(error)
            self.connection.send_bytes(answer)

    def step_until_letter(self, desk: Desk) -> None:
        """Steps what it is given, one world after the other."""
        while True:
            try:
                desk.work(self.share.stepper, self.tell)
            except (EOFError, ConnectionError):
                raise
            except BaseException as error:
                self.share.working_on = self.share.stepper.working_on
                desk.announce()
                self.connection.send_bytes(self.raised(error))
                continue  # the batch decides what becomes of this worker
            return

    def tell(self, world: int, letter: bytes) -> None:
        """Sends what a step had to say at length."""
        assert self.desk is not None
        self.desk.announce()
        self.connection.send_bytes(dumps(("infos", world, letter)))

    def raised(self, error: BaseException) -> bytes:
        text = "".join(traceback.format_exception(error))
        try:
            kept = pickle.dumps(error)
            pickle.loads(kept)  # some exceptions can only be pickled one way
        except Exception:
            kept = None
        return pickle.dumps(("raised", self.share.working_on, type(error).__name__, kept, text))

    # ---- letters ----------------------------------------------------------------------------

    def start(self, first: int) -> None:
        self.share.first = first

    def make(self, functions: bytes) -> Any:
        self.share.working_on = self.share.first + len(self.share.worlds)
        return self.share.make(pickle.loads(functions))

    def attach(
        self, layout: Layout, index: int, observation: Any, mode: int, objects: bool
    ) -> None:
        handle = _receive_handle(self.connection)
        try:
            memory = Memory(layout, map_block(handle, layout.size))
        finally:
            os.close(handle)
        self.share.attach(memory, observation, mode, objects)
        self.desk = Desk(memory.arrays["board"], layout.starts, index)

    def reset(self, worlds: list[int], seeds: list[int | None], options: Any) -> Any:
        assert self.desk is not None
        told = []
        for world, seed in zip(worlds, seeds, strict=True):
            self.desk.begin(world)
            told += self.share.reset([world], [seed], options)
        self.desk.begin(-1)
        return told

    def share_call(self, name: str, args: Any, kwargs: Any) -> Any:
        return self.share.call(name, args, kwargs)

    def share_set(self, name: str, values: Any) -> None:
        self.share.set(name, values)

    def close(self) -> None:
        self.closing = True
        self.share.close()


def send_handle(connection: Connection, handle: int) -> None:
    """Gives a file handle to the process at the other end."""
    with socket.socket(fileno=os.dup(connection.fileno())) as own:
        socket.send_fds(own, [b"h"], [handle])


def _receive_handle(connection: Connection) -> int:
    with socket.socket(fileno=os.dup(connection.fileno())) as own:
        _, handles, _, _ = socket.recv_fds(own, 1, 1)
    if not handles:
        raise EOFError
    return handles[0]
