"""The worker processes of a batch, as the batch sees them; and a stand-in without processes."""

from __future__ import annotations

import os
import pickle
import time
import warnings
import weakref
from collections.abc import Sequence
from multiprocessing import connection as connections
from typing import Any, NoReturn

import numpy as np

from ..cpus import available_cpus
from ..errors import WorkerError
from ._board import Front
from .description import Description
from .launch import Process, exit_reason, pickled, start_worker
from .memory import Layout, Memory, map_block, open_block
from .share import RowInfo, Share
from .sources import Source
from .worker import send_handle

START_SECONDS = 60.0  # that a worker has at least to import and make its environments
_CLOSE_SECONDS = 5.0  # that environments have to close themselves
_LOOK_SECONDS = 0.05
_SPIN_NS = 5_000


class Crew:
    """Workers that make, reset and step the worlds of a batch.

    Worker k has the worlds [starts[k], starts[k + 1]). When one raises, ends or does not come
    back, it is replaced as long as `restarts` allows; else all are ended and WorkerError tells
    which it was.

    Attributes:
        memory: the arrays of the batch, after `attach`.
        restarted: workers that were replaced so far.
    """

    def __init__(
        self, source: Source, workers: int, start_method: str, timeout: float | None, restarts: int
    ) -> None:
        """Starts `workers` processes, which make nothing yet.

        timeout: seconds that one step, reset or call of one world may take; None: any.
        """
        self._source = source
        self._start_method = start_method
        self._timeout = timeout
        self._restarts = restarts
        self.restarted = 0
        self._processes: list[Process] = []
        self._end = weakref.finalize(self, _end, os.getpid(), self._processes)
        self._front: Front | None = None
        self._long_infos: dict[int, list[bytes]] = {}
        self._posted = np.zeros(0, np.bool_)
        for _ in range(workers):
            self._processes.append(start_worker(start_method))

    # ---- making ---------------------------------------------------------------------------

    def probe(self) -> Description:
        """Makes world 0 in worker 0 and describes it."""
        self._starts = np.array([0, 1] + [1] * (len(self._processes) - 1))
        return self._make({0: [0]})[0]

    def make(self, worlds: int) -> dict[int, Description]:
        """Makes all other worlds; descriptions by world, of those that differ from others."""
        workers = min(len(self._processes), worlds)
        for process in self._processes[workers:]:
            process.release()
            process.join(_CLOSE_SECONDS)
        del self._processes[workers:]
        self._starts = np.array([worlds * k // workers for k in range(workers + 1)])
        shares = {k: list(range(*self._starts[k : k + 2])) for k in range(workers)}
        shares[0] = shares[0][1:]
        return self._make({k: share for k, share in shares.items() if share})

    def attach(self, layout: Layout, observation: Any, mode: int, objects: bool) -> Memory:
        """Gives all workers the batch's memory; see Share.attach."""
        self._layout = layout
        self._attachment = (observation, mode, objects)
        self._handle = open_block(layout.size)
        self._end.detach()
        self._end = weakref.finalize(self, _end, os.getpid(), self._processes, self._handle)
        self.memory = Memory(layout, map_block(self._handle, layout.size))
        board = self.memory.arrays["board"]
        spin = _SPIN_NS if available_cpus() > len(self._processes) else 0
        self._front = Front(board, self._starts, spin)
        self._posted = np.zeros(int(self._starts[-1]), np.bool_)
        for k in range(len(self._processes)):
            self._send_attachment(k)
        self._answers(list(range(len(self._processes))))
        return self.memory

    @property
    def starts(self) -> np.ndarray:
        """Worker k has the worlds [starts[k], starts[k + 1])."""
        return self._starts

    def pids(self) -> list[int]:
        """Process ids of the workers."""
        return [process.pid for process in self._processes]

    def _make(self, shares: dict[int, list[int]]) -> dict[int, Description]:
        for k, share in shares.items():
            if share[0] == self._starts[k]:
                self._send(k, ("start", int(share[0])))
            make = self._source.make
            functions = [make[0]] * len(share) if len(make) == 1 else [make[w] for w in share]
            self._send(k, ("make", pickled(functions)))
        first = [k for k, share in shares.items() if share[0] == self._starts[k]]
        self._answers(first, starting=True)
        told: dict[int, Description] = {}
        for answer in self._answers(list(shares), starting=True).values():
            told |= answer
        return told

    def _send_attachment(self, k: int) -> None:
        self._send(k, ("attach", self._layout, k, *self._attachment))
        send_handle(self._processes[k].connection, self._handle)

    # ---- letters --------------------------------------------------------------------------

    def reset(
        self, worlds: Sequence[int], seeds: Sequence[int | None], options: Any
    ) -> list[RowInfo]:
        """Starts new episodes; the infos that are not empty, in the order of rows."""
        letters = {}
        bounds = np.searchsorted(worlds, self._starts)
        for k in range(len(self._processes)):
            low, high = bounds[k], bounds[k + 1]
            if low < high:
                letters[k] = ("reset", list(worlds[low:high]), list(seeds[low:high]), options)
        answers = self._ask(letters)
        return [told for k in letters for told in answers[k]]

    def call(self, name: str, args: Any, kwargs: Any) -> list[Any]:
        """A method's result, or an attribute's value, for each world."""
        letter = ("call", name, args, kwargs)
        answers = self._ask(dict.fromkeys(range(len(self._processes)), letter))
        return [value for k in range(len(self._processes)) for value in answers[k]]

    def set(self, name: str, values: Sequence[Any]) -> None:
        """Sets an attribute of each world."""
        starts = self._starts
        self._ask(
            {
                k: ("set", name, list(values[starts[k] : starts[k + 1]]))
                for k in range(len(self._processes))
            }
        )

    def _ask(self, letters: dict[int, tuple[Any, ...]]) -> dict[int, Any]:
        assert self._front is not None
        for k, letter in letters.items():
            self._send(k, letter)
            self._front.tell(k)
        return self._answers(list(letters))

    def _send(self, k: int, letter: tuple[Any, ...]) -> None:
        import cloudpickle

        try:
            self._processes[k].connection.send_bytes(cloudpickle.dumps(letter))
        except (BrokenPipeError, ConnectionResetError):
            self._fail(self._loss(k))

    def _answers(self, workers: list[int], starting: bool = False) -> dict[int, Any]:
        """One answer of each of the workers; raises when one of them cannot give it."""
        waiting = {self._processes[k].connection: k for k in workers}
        answers: dict[int, Any] = {}
        watch = _Watch(len(self._processes))
        patience = self._timeout
        if patience is not None and starting:
            patience = max(patience, START_SECONDS)
        while waiting:
            for ready in connections.wait(list(waiting), _LOOK_SECONDS):
                k = waiting.pop(ready)  # type: ignore[call-overload]
                answers[k] = self._read_answer(k)
            for k in waiting.values():
                done = (0, 0) if self._front is None else self._front.doing(k)
                if patience is not None and watch.stands(k, done) > patience:
                    self._fail(self._hang(k, patience))
        return answers

    def _read_answer(self, k: int) -> Any:
        try:
            answer = pickle.loads(self._processes[k].connection.recv_bytes())
        except (EOFError, ConnectionError):
            self._fail(self._loss(k))
        if answer[0] == "raised":
            self._fail(_raised(k, *answer[1:]))
        return answer[1]

    # ---- stepping -------------------------------------------------------------------------

    def submit(self, worlds: np.ndarray) -> None:
        """Starts a step of the worlds, int64; their actions are in memory."""
        assert self._front is not None
        self._posted[worlds] = True
        self._front.post(worlds)

    def wait(self, count: int) -> np.ndarray:
        """The `count` worlds, int64, that were finished first and not given out yet."""
        front = self._front
        assert front is not None
        watch: _Watch | None = None
        while True:
            ready, letters = front.wait(count)
            if letters:
                self._read_letters()
            elif ready >= count:
                done = front.take(count)
                self._posted[done] = False
                return done
            else:  # nothing new in a while
                watch = watch or _Watch(len(self._processes))
                self._look(watch)

    def infos(self, world: int) -> list[RowInfo]:
        """What a finished world had to say; to be asked once, where info_bytes is not 0."""
        length = int(self.memory.arrays["info_bytes"][world])
        self.memory.arrays["info_bytes"][world] = 0
        if length > 0:
            return pickle.loads(self.memory.arrays["infos"][world, :length].data)
        return pickle.loads(self._long_infos[world].pop(0))

    def _read_letters(self) -> None:
        for k in range(len(self._processes)):
            try:
                while self._processes[k].connection.poll():
                    self._read_letter(k, pickle.loads(self._processes[k].connection.recv_bytes()))
            except (EOFError, ConnectionError):
                self._replace(k, self._loss(k))

    def _read_letter(self, k: int, letter: Any) -> None:
        if letter[0] == "infos":
            self._long_infos.setdefault(letter[1], []).append(letter[2])
        else:
            self._replace(k, _raised(k, *letter[1:]))

    def _look(self, watch: _Watch) -> None:
        """Looks for workers that are gone or hang."""
        assert self._front is not None
        self._read_letters()  # what a worker said before it ended
        for k in range(len(self._processes)):
            if self._processes[k].exit_code() is not None:
                self._replace(k, self._loss(k))
            elif self._timeout is not None:
                doing = self._front.doing(k)
                if doing[0] >= 0 and watch.stands(k, doing) > self._timeout:
                    self._replace(k, self._hang(k, self._timeout))

    # ---- what may go wrong ----------------------------------------------------------------

    def _loss(self, k: int) -> WorkerError:
        process = self._processes[k]
        process.join(1.0)
        what = exit_reason(process.exit_code())
        current = -1 if self._front is None else self._front.doing(k)[0]
        during = "" if current < 0 else f" while it stepped environment {current}"
        return WorkerError(f"{self._who(k)} {what}{during}")

    def _hang(self, k: int, seconds: float) -> WorkerError:
        current = -1 if self._front is None else self._front.doing(k)[0]
        what = f"environment {current}" if current >= 0 else "its environments"
        return WorkerError(
            f"{self._who(k)} has been busy with {what} for more than {seconds:g} s: it hangs, or "
            "timeout is too short"
        )

    def _who(self, k: int) -> str:
        low, high = self._starts[k], self._starts[k + 1]
        which = f"environment {low}" if high == low + 1 else f"environments {low} to {high - 1}"
        return f"worker {k} (process {self._processes[k].pid}, {which} of {self._source.name})"

    def _fail(self, error: WorkerError) -> NoReturn:
        """Ends all workers and raises."""
        self.kill()
        raise error

    def _replace(self, k: int, error: WorkerError) -> None:
        """A new worker for one that was lost while it stepped; its worlds are marked lost."""
        if self.restarted >= self._restarts:
            self._fail(error)
        self.restarted += 1
        warnings.warn(f"{error}; it is restarted, its episodes are truncated", stacklevel=4)
        front = self._front
        assert front is not None
        lost = self._processes[k]
        lost.kill()
        lost.join(None)
        lost.release()
        front.clear(k)
        share = np.arange(self._starts[k], self._starts[k + 1])
        self._processes[k] = start_worker(self._start_method)
        self._make({k: share.tolist()})
        self._send_attachment(k)
        self._answers([k])
        self.memory.arrays["lost"][share] = True
        again = share[self._posted[share] & ~np.isin(share, front.ready_worlds())]
        self.memory.arrays["info_bytes"][again] = 0
        for world in again.tolist():
            self._long_infos.pop(world, None)
        front.post(again)

    # ---- the end --------------------------------------------------------------------------

    def close(self) -> None:
        """Lets the environments close themselves, and ends the workers."""
        if not self._end.alive:
            return
        import cloudpickle

        for k, process in enumerate(self._processes):
            try:
                process.connection.send_bytes(cloudpickle.dumps(("close",)))
            except OSError:
                continue
            if self._front is not None:
                self._front.tell(k)
        until = time.monotonic() + _CLOSE_SECONDS
        for process in self._processes:
            process.join(max(0.0, until - time.monotonic()))
        self.kill()

    def kill(self) -> None:
        """Ends the workers at once."""
        self._end()


class LocalCrew:
    """Steps the worlds in this process, one after the other: the plain reference.

    It is used as a Crew is; an environment's exceptions come as they are.
    """

    restarted = 0

    def __init__(self, source: Source) -> None:
        """Makes nothing yet."""
        self._source = source
        self._share = Share(0)
        self._todo: list[int] = []
        self._long_infos: dict[int, bytes] = {}

    def probe(self) -> Description:
        """Makes world 0 and describes it."""
        return self._share.make([self._source.of(0)])[0]

    def make(self, worlds: int) -> dict[int, Description]:
        """Makes all other worlds; descriptions of those that differ from the first."""
        self.starts = np.array([0, worlds])
        return self._share.make([self._source.of(w) for w in range(1, worlds)])

    def attach(self, layout: Layout, observation: Any, mode: int, objects: bool) -> Memory:
        """Gives the worlds the batch's memory."""
        block = np.zeros(layout.size + 64, np.uint8)
        start = -block.ctypes.data % 64
        self.memory = Memory(layout, block[start : start + layout.size])
        self._share.attach(self.memory, observation, mode, objects)
        return self.memory

    def pids(self) -> list[int]:
        """There are no processes."""
        return []

    def reset(
        self, worlds: Sequence[int], seeds: Sequence[int | None], options: Any
    ) -> list[RowInfo]:
        """Starts new episodes; the infos that are not empty."""
        return self._share.reset(worlds, seeds, options)

    def call(self, name: str, args: Any, kwargs: Any) -> list[Any]:
        """A method's result, or an attribute's value, for each world."""
        return self._share.call(name, args, kwargs)

    def set(self, name: str, values: Sequence[Any]) -> None:
        """Sets an attribute of each world."""
        self._share.set(name, values)

    def submit(self, worlds: np.ndarray) -> None:
        """Notes worlds, int64, that `wait` is to step."""
        self._todo += worlds.tolist()

    def wait(self, count: int) -> np.ndarray:
        """Steps the first `count` worlds that were submitted, int64.

        What an environment raises comes as it is; nothing is left to be stepped then.
        """
        todo, self._todo = self._todo[:count], self._todo[count:]
        try:
            for world in todo:
                letter = self._share.stepper.step(world)
                if letter is not None:
                    self._long_infos[world] = letter
        except BaseException:
            self._todo = []
            raise
        return np.array(todo, np.int64)

    def infos(self, world: int) -> list[RowInfo]:
        """What a finished world had to say."""
        length = int(self.memory.arrays["info_bytes"][world])
        self.memory.arrays["info_bytes"][world] = 0
        if length > 0:
            return pickle.loads(self.memory.arrays["infos"][world, :length].data)
        return pickle.loads(self._long_infos.pop(world))

    def close(self) -> None:
        """Closes the worlds."""
        self._share.close()


class _Watch:
    """How long each worker has been at the same thing, seconds."""

    def __init__(self, workers: int) -> None:
        self._seen: list[tuple[Any, float]] = [(None, 0.0)] * workers

    def stands(self, worker: int, doing: Any) -> float:
        """Seconds since `doing` of the worker last changed."""
        now = time.monotonic()
        if self._seen[worker][0] != doing:
            self._seen[worker] = (doing, now)
        return now - self._seen[worker][1]


def _raised(k: int, world: int, name: str, kept: bytes | None, text: str) -> WorkerError:
    error = WorkerError(f"environment {world} (worker {k}) raised {name}:\n\n{text}")
    if kept is not None:
        error.__cause__ = pickle.loads(kept)
    return error


def _end(owner: int, processes: list[Process], handle: int | None = None) -> None:
    """Ends what is left of a crew; nothing of it remains. Not in a fork of the owner."""
    if os.getpid() != owner:
        return
    for process in processes:
        process.kill()
    for process in processes:
        process.join(None)
        process.release()
    if handle is not None:
        os.close(handle)
