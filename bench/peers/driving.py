"""A peer's driver as this process sees it: a program that is asked and answers."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from ...engine.cpus import available_cpus
from ...engine.errors import HeadraceError
from .drivers.protocol import Desk
from .installing import outside
from .table import Peer

BENCH = Path(__file__).resolve().parent.parent
LIMIT = 300.0  # seconds for one answer
# The folder of bench comes last on the path, so that nothing in it hides a library; what anybody
# prints goes to stderr, and the last argument is where answers go.
START = (
    "import os, runpy, sys; sys.argv.append(str(os.dup(1))); os.dup2(2, 1); "
    "sys.path.append(sys.argv.pop(1)); "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


class PeerError(HeadraceError):
    """A peer that cannot be measured; the message says why."""


class Contender(Protocol):
    """Somebody who is compared: see drivers/protocol.py for the questions."""

    def ask(self, **question: Any) -> dict[str, Any]:
        """The answer; PeerError where there is none."""
        ...

    def close(self) -> None:
        """Ends it."""
        ...


class Local:
    """A contender in this process."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def ask(self, **question: Any) -> dict[str, Any]:
        """See Contender."""
        return self._desk.answer(**question)

    def close(self) -> None:
        """See Contender."""


class Driver:
    """A contender in a process and a virtual environment of its own."""

    def __init__(self, peer: Peer, python: Path) -> None:
        self._label = peer.label
        self._scratch = tempfile.TemporaryDirectory()
        self._said = open(Path(self._scratch.name) / "stderr", "w+")  # noqa: SIM115
        module = f"{BENCH.name}.peers.drivers.{peer.driver}"
        command = [str(python), "-c", START, str(BENCH.parent), module, str(available_cpus())]
        environment = outside(os.environ)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, text=True,
            bufsize=1, cwd=self._scratch.name, env=environment, start_new_session=True,
        )  # fmt: skip
        self._selector = selectors.DefaultSelector()
        assert self._process.stdout is not None
        self._selector.register(self._process.stdout, selectors.EVENT_READ)

    def ask(self, **question: Any) -> dict[str, Any]:
        """See Contender."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            print(json.dumps(question), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise PeerError(self._last_words()) from None
        if not self._selector.select(LIMIT):
            raise PeerError(f"no answer within {LIMIT:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            raise PeerError(self._last_words())
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise PeerError(answer["error"])
        return answer

    def _last_words(self) -> str:
        """What the program said last, in one line."""
        self._process.wait()
        self._said.seek(0)
        lines = [line.strip() for line in self._said if line.strip()]
        return lines[-1] if lines else f"the driver ended with code {self._process.returncode}"

    def close(self) -> None:
        """Ends the program, and whatever processes of its own it has left behind."""
        self._selector.close()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        with suppress(ProcessLookupError):  # nobody was left behind
            os.killpg(self._process.pid, signal.SIGKILL)
        self._said.close()
        self._scratch.cleanup()
