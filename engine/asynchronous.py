"""Environments in flight: what `VecEnv.send` has handed out and `VecEnv.recv` collects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np

from ._core import first_of_range, range_of, runs_of
from .errors import ArgumentError, ArgumentTypeError, CallOrderError

if TYPE_CHECKING:
    from collections.abc import Callable

    Numbers = range | np.ndarray  # of worlds or rows: neighbours as a range, else int64
    Read = Callable[[Any, Numbers | None], None]  # (actions, rows): checks and writes them


class Stepper(Protocol):
    """Steps worlds in the background."""

    def submit(self, worlds: Numbers) -> None:
        """Starts a step of each of the worlds."""

    def wait(self, count: int) -> Numbers:
        """The first `count` worlds whose step has ended."""

    def close(self) -> None:
        """Waits for all that is in flight, or drops it."""


Index = slice | tuple[slice, ...] | np.ndarray  # what takes rows or worlds from an array


def as_array(numbers: Numbers) -> np.ndarray:
    """The numbers, int64."""
    return np.arange(numbers.start, numbers.stop) if isinstance(numbers, range) else numbers


def worlds_of(rows: Numbers, agents: int) -> Numbers:
    """The worlds whose rows these are, whole worlds."""
    if agents == 1:
        return rows
    if isinstance(rows, range):
        return range(rows.start // agents, rows.stop // agents)
    return rows[::agents] // agents


def index_of(ascending: Numbers) -> Index:
    """What takes these rows or worlds from an array: by slices where they are few."""
    if isinstance(ascending, range):
        return slice(ascending.start, ascending.stop)
    runs = runs_of(ascending)
    if runs is None:
        return ascending
    return runs[0] if len(runs) == 1 else runs


def taken(array: np.ndarray, index: Index, copy: bool = True) -> np.ndarray:
    """The entries of an array; of a slice without copying a view."""
    if isinstance(index, tuple):
        return np.concatenate([array[part] for part in index])
    if not isinstance(index, slice):
        return array.take(index, axis=0)
    return array[index].copy() if copy else array[index]


def put(array: np.ndarray, index: Index, value: Any) -> None:
    """Sets the entries of an array to one value."""
    for part in index if isinstance(index, tuple) else (index,):
        array[part] = value


class Flight:
    """Which worlds are being stepped, and which rows the caller was handed last.

    Rows are what callers name: world w owns the rows [w*agents, (w+1)*agents), and a world
    is sent and received as a whole.
    """

    def __init__(self, stepper: Stepper, worlds: int, agents: int) -> None:
        self._stepper = stepper
        self._flying = np.zeros(worlds, np.bool_)
        self._agents = agents
        self._all_rows = np.arange(worlds * agents, dtype=np.int64)
        self._all_rows.flags.writeable = False  # views of it are handed out
        self.in_flight = 0  # worlds
        self._turn = np.zeros(worlds, np.int64)  # of each world, when it was last received
        self._turns = 0
        self.hand_out_all()

    def hand_out_all(self) -> None:
        """After a reset: every row is in the caller's hands."""
        self._turn[:] = 0
        self._turns = 0
        every = range(len(self._turn))
        self._hand_out(every, range(len(self._all_rows)), slice(None), every)

    def _hand_out(self, worlds: Numbers, rows: Numbers, index: Index, order: Numbers) -> None:
        """index: what takes the worlds from an array; order: the worlds as they were received."""
        self._handed = worlds, rows, index
        self._order = order
        self._here = True  # nothing was sent since

    def send(self, read: Read, actions: Any, env_ids: Any, finished: np.ndarray | None) -> None:
        """Checks everything, then starts one step of the worlds of `env_ids`.

        finished: bool [worlds], worlds that must be reset first; None where there is no such.
        """
        worlds, rows, index = self._handed if env_ids is None else self._parse_ids(env_ids)
        as_handed = worlds is self._handed[0]
        if not (as_handed and self._here):
            self._check_none(
                self._flying, worlds, "send() of environment {}, which is still in flight: "
                "recv() it first",
            )  # fmt: skip
        if finished is not None:
            self._check_none(
                finished, worlds, "send() to environment {}, whose episode has ended: with "
                "autoreset_mode='Disabled' reset it first, with options={{'reset_mask': ...}}",
            )  # fmt: skip
        read(actions, rows)
        self._stepper.submit(self._order if as_handed else self._by_turn(worlds))
        self._here = False
        put(self._flying, index, True)
        self.in_flight += len(worlds)

    def _by_turn(self, worlds: Numbers) -> Numbers:
        """The worlds as they were received, so that those with low numbers overtake nobody."""
        turns = self._turn[_quick(worlds)]
        if (turns[1:] >= turns[:-1]).all():
            return worlds
        return as_array(worlds)[turns.argsort(kind="stable")]

    def _check_none(self, flags: np.ndarray, worlds: Numbers, refusal: str) -> None:
        """Raises where the flag of one of the worlds is set."""
        found = flags[_quick(worlds)]
        if found.any():
            raise CallOrderError(refusal.format(int(worlds[int(found.argmax())]) * self._agents))

    def recv(self, worlds: int) -> tuple[Numbers, Numbers]:
        """Waits for the first `worlds` worlds: (world numbers, rows), ascending."""
        if self.in_flight == 0:
            raise CallOrderError("recv() without send(): no environment is in flight")
        done = self._stepper.wait(min(worlds, self.in_flight))
        count = len(done)
        if not isinstance(done, range) and (first := first_of_range(done)) >= 0:
            done = range(first, first + count)
        order = done
        if isinstance(done, range):
            self._turn[done.start : done.stop] = self._turns
            rows: Numbers = range(done.start * self._agents, done.stop * self._agents)
        else:
            self._turn[done] = np.arange(self._turns, self._turns + count)
            done = rows = np.sort(done, kind="stable")  # a few ascending runs, as a rule
            if self._agents > 1:
                rows = (done[:, None] * self._agents + np.arange(self._agents)).reshape(-1)
        index = index_of(done)
        put(self._flying, index, False)
        self._turns += count
        self.in_flight -= count
        self._hand_out(done, rows, index, order)
        return done, rows

    def numbers(self, rows: Numbers, copy: bool) -> np.ndarray:
        """Rows for the caller, int64; of neighbours without copying a view that is read only."""
        if not isinstance(rows, range):
            return rows.copy()
        view = self._all_rows[rows.start : rows.stop]
        return view.copy() if copy else view

    def launch_all(self) -> None:
        """Starts a step of all worlds, none of which is in flight; their actions are checked."""
        self._stepper.submit(self._all_rows[: len(self._turn)])
        self._flying[:] = True
        self.in_flight = len(self._flying)

    def land_all(self) -> None:
        """Waits for all worlds after `launch_all`."""
        self._stepper.wait(self.in_flight)
        self._flying[:] = False
        self.in_flight = 0
        self.hand_out_all()

    def forget(self) -> None:
        """Nothing is in flight any more: what was, failed."""
        self._flying[:] = False
        self.in_flight = 0
        self.hand_out_all()

    def close(self) -> None:
        """Waits for all that is in flight and drops it."""
        self._stepper.close()

    def _parse_ids(self, env_ids: Any) -> tuple[Numbers, Numbers, Index]:
        """(worlds, rows, index) that a caller names: those handed out last where they are these."""
        rows = self._parse_rows(env_ids)
        worlds = worlds_of(rows, self._agents)
        handed = self._handed[0]
        if isinstance(worlds, range) and isinstance(handed, range) and worlds == handed:
            return self._handed
        return worlds, rows, _quick(worlds)

    def _parse_rows(self, env_ids: Any) -> Numbers:
        rows = np.asarray(env_ids)
        if rows.ndim != 1 or rows.size == 0:
            raise ArgumentError(
                f"env_ids has shape {rows.shape}: expected a list with at least one environment"
            )
        if rows.dtype.kind not in "iu":
            raise ArgumentTypeError(f"env_ids has dtype {rows.dtype}: expected integers")
        rows = np.ascontiguousarray(rows, np.int64)
        total = self._all_rows.size
        neighbours = range_of(rows)
        if neighbours is not None and neighbours.start >= 0 and neighbours.stop <= total:
            if neighbours.start % self._agents or neighbours.stop % self._agents:
                self._refuse_split_world()
            return neighbours
        outside = (rows < 0) | (rows >= total)
        if outside.any():
            at = int(outside.argmax())
            raise ArgumentError(f"env_ids[{at}] is {rows[at]}: environments are 0 to {total - 1}")
        if not (rows[1:] > rows[:-1]).all() and np.bincount(rows).max() > 1:
            twice = int(np.bincount(rows).argmax())
            raise ArgumentError(f"env_ids names environment {twice} more than once")
        if self._agents > 1:
            self._check_whole_worlds(rows)
        return rows

    def _check_whole_worlds(self, rows: np.ndarray) -> None:
        agents = self._agents
        starts = rows[::agents] // agents * agents
        whole = np.add.outer(starts, np.arange(agents)).reshape(-1)
        if rows.size % agents or not np.array_equal(rows, whole):
            self._refuse_split_world()

    def _refuse_split_world(self) -> NoReturn:
        raise ArgumentError(
            f"env_ids splits a world: the {self._agents} environments of a world are sent "
            "together and in order"
        )


def _quick(numbers: Numbers) -> slice | np.ndarray:
    """What indexes an array once: a slice where they are a range."""
    return slice(numbers.start, numbers.stop) if isinstance(numbers, range) else numbers
