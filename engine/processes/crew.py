"""The worker processes of a batch, as the batch sees them."""

from __future__ import annotations

import itertools
import os
import pickle
import time
import warnings
import weakref
from collections.abc import Sequence
from multiprocessing import connection as connections
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ..asynchronous import as_array
from ..cpus import available_cpus
from ..errors import WorkerError
from ._board import Front
from .description import Description
from .launch import Process, exit_reason, pickled, start_worker
from .losses import Watch, raised_by_worker
from .memory import Layout, Memory, map_block, open_block
from .own import OwnShare, worlds_of_caller
from .share import RowInfo
from .sources import Source
from .worker import send_handle

if TYPE_CHECKING:
    from ..asynchronous import Numbers

START_SECONDS = 60.0  # that a worker has at least to import and make its environments
_CLOSE_SECONDS = 5.0  # that environments have to close themselves
_LOOK_SECONDS = 0.05
# How long who waits looks out before it sleeps, see Front: where each has a CPU of its own, as long
# as it takes to sleep and be woken. Else the batch sleeps at once, and workers look out for as long
# as the caller may need between two steps, yielding their CPU. But not where each hands in what it
# has for itself: one that looks out goes first again, and others that want the CPU would starve.
_SPIN_NS = {True: (100_000, 100_000, 100_000), False: (0, 1_000, 50_000)}


class Crew:
    """Workers that make, reset and step the worlds of a batch.

    Worker k has the worlds [starts[k], starts[k + 1]). When one raises, ends or does not come
    back, it is replaced as long as `restarts` allows; else all are ended and WorkerError tells
    which it was. The batch's own process may be one more worker, the last.

    Attributes:
        memory: the arrays of the batch, after `attach`.
        restarted: workers that were replaced so far.
    """

    def __init__(
        self,
        source: Source,
        workers: int,
        start_method: str,
        timeout: float | None,
        restarts: int,
        caller_share: float = 0.0,
    ) -> None:
        """Starts `workers` processes, which make nothing yet.

        timeout: seconds that one step, reset or call of one world may take; None: any.
        caller_share: what this process steps itself, of as many worlds as a worker has.
        """
        self._source = source
        self._owner = os.getpid()
        self._start_method = start_method
        self._timeout = timeout
        self._restarts = restarts
        self._caller_share = caller_share
        self._own: OwnShare | None = None
        self.restarted = 0
        self._processes: list[Process] = []
        self._end = weakref.finalize(self, _end, self._owner, self._processes)
        self._front: Front | None = None
        self._long_infos: dict[int, list[bytes]] = {}
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
        own = min(worlds - workers, worlds_of_caller(self._caller_share, worlds, workers))
        others = worlds - own
        self._starts = np.array([others * k // workers for k in range(workers + 1)])
        shares = {k: list(range(*self._starts[k : k + 2])) for k in range(workers)}
        shares[0] = shares[0][1:]
        if own:
            self._own = OwnShare(others, worlds, self._long_infos)
            self._starts = np.append(self._starts, worlds)
        told = self._make({k: share for k, share in shares.items() if share})
        if self._own is not None:
            told |= self._ask_own("make", [self._source.of(w) for w in range(others, worlds)])
        return told

    def attach(self, layout: Layout, observation: Any, mode: int, objects: bool) -> Memory:
        """Gives all workers the batch's memory; see Share.attach."""
        self._layout = layout
        self._handle = open_block(layout.size)
        self._end.detach()
        self._end = weakref.finalize(self, _end, self._owner, self._processes, self._handle)
        self.memory = Memory(layout, map_block(self._handle, layout.size))
        spin = _SPIN_NS[available_cpus() > len(self._processes)]
        self._attachment = (observation, mode, objects)
        self._front = Front(self.memory.arrays["board"], self._starts, *spin)
        for k in range(len(self._processes)):
            self._send_attachment(k)
        self._answers(list(range(len(self._processes))))
        if self._own is not None:
            self._own.attach(self._front, self._starts, self.memory, observation, mode, objects)
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
        for k in range(len(self._starts) - 1):
            low, high = bounds[k], bounds[k + 1]
            if low < high:
                letters[k] = ("reset", list(worlds[low:high]), list(seeds[low:high]), options)
        return [told for answer in self._ask(letters) for told in answer]

    def call(self, name: str, args: Any, kwargs: Any) -> list[Any]:
        """A method's result, or an attribute's value, for each world."""
        letter = ("call", name, args, kwargs)
        answers = self._ask(dict.fromkeys(range(len(self._starts) - 1), letter))
        return [value for answer in answers for value in answer]

    def set(self, name: str, values: Sequence[Any]) -> None:
        """Sets an attribute of each world."""
        shares = itertools.pairwise(self._starts.tolist())
        self._ask({k: ("set", name, list(values[a:b])) for k, (a, b) in enumerate(shares)})

    def _ask(self, letters: dict[int, tuple[Any, ...]]) -> list[Any]:
        """The answers to one letter for each of some workers, in their order."""
        import cloudpickle

        assert self._front is not None
        own = letters.pop(len(self._processes), None)
        sent = {k: cloudpickle.dumps(letter) for k, letter in letters.items()}
        try:
            for k, data in sent.items():
                self._send_bytes(k, data)
                self._front.tell(k)
            last = [] if own is None else [self._ask_own(*own)]
            answers = self._answers(list(sent))
        except BaseException:  # answers may still come, to nobody
            self.kill()
            raise
        return [answers[k] for k in sent] + last

    def _ask_own(self, name: str, *rest: Any) -> Any:
        assert self._own is not None
        try:
            return self._own.answer(name, *rest)
        except WorkerError as error:
            self._fail(error)

    def _send(self, k: int, letter: tuple[Any, ...]) -> None:
        import cloudpickle

        self._send_bytes(k, cloudpickle.dumps(letter))

    def _send_bytes(self, k: int, data: bytes) -> None:
        try:
            self._processes[k].connection.send_bytes(data)
        except (BrokenPipeError, ConnectionResetError):
            self._fail(self._loss(k))

    def _answers(self, workers: list[int], starting: bool = False) -> dict[int, Any]:
        """One answer of each of the workers; raises when one of them cannot give it."""
        waiting = {self._processes[k].connection: k for k in workers}
        answers: dict[int, Any] = {}
        watch = Watch(len(self._processes))
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
            self._fail(raised_by_worker(k, *answer[1:]))
        return answer[1]

    # ---- stepping -------------------------------------------------------------------------

    def submit(self, worlds: Numbers) -> None:
        """Starts a step of the worlds; their actions are in memory."""
        assert self._front is not None
        self._front.post(as_array(worlds))

    def wait(self, count: int) -> np.ndarray:
        """The `count` worlds, int64, that were finished first and not given out yet."""
        front = self._front
        assert front is not None
        watch: Watch | None = None
        if self._own is not None:
            self._step_own(self._own, count)
        while True:
            ready, letters = front.wait(count)
            if letters:
                self._read_letters()
            elif ready >= count:
                return front.take(count)
            else:  # nothing new in a while
                watch = watch or Watch(len(self._processes))
                self._look(watch)

    def _step_own(self, own: OwnShare, count: int) -> None:
        try:
            own.step(count)
        except WorkerError as error:
            self._fail(error)

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
        elif letter[0] == "raised":  # "done" is an answer to nobody
            self._replace(k, raised_by_worker(k, *letter[1:]))

    def _look(self, watch: Watch) -> None:
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
        again = front.clear(k)
        share = np.arange(self._starts[k], self._starts[k + 1])
        self._processes[k] = start_worker(self._start_method)
        self._make({k: share.tolist()})
        self._send_attachment(k)
        self._answers([k])
        self.memory.arrays["lost"][share] = True
        self.memory.arrays["info_bytes"][again] = 0
        for world in again.tolist():
            self._long_infos.pop(world, None)
        front.post(again)

    # ---- the end --------------------------------------------------------------------------

    def close(self) -> None:
        """Lets the environments close themselves, and ends the workers. Not in a fork of the
        owner, whose they are."""
        if not self._end.alive or os.getpid() != self._owner:
            return
        import cloudpickle

        for k, process in enumerate(self._processes):
            try:
                process.connection.send_bytes(cloudpickle.dumps(("close",)))
            except OSError:
                continue
            if self._front is not None:
                self._front.tell(k)
        if self._own is not None:
            self._own.close()
        until = time.monotonic() + _CLOSE_SECONDS
        for process in self._processes:
            process.join(max(0.0, until - time.monotonic()))
        self.kill()

    def kill(self) -> None:
        """Ends the workers at once."""
        self._end()
        if self._own is not None:
            self._own.close()

    @property
    def alive(self) -> bool:
        """Whether there are workers."""
        return self._end.alive


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
