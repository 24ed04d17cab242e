"""Environments in flight: what `VecEnv.send` has handed out and `VecEnv.recv` collects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ._core import first_of_range, runs_of
from .errors import ArgumentError, ArgumentTypeError, CallOrderError

if TYPE_CHECKING:
    from collections.abc import Callable

    Read = Callable[[Any, np.ndarray | None], None]  # (actions, rows): checks and writes them


class Stepper(Protocol):
    """Steps worlds in the background."""

    def submit(self, worlds: np.ndarray) -> None:
        """Starts a step of each of the worlds, int64."""

    def wait(self, count: int) -> np.ndarray:
        """The first `count` worlds, int64, whose step has ended."""

    def close(self) -> None:
        """Waits for all that is in flight, or drops it."""


Index = slice | tuple[slice, ...] | np.ndarray  # what takes rows or worlds from an array


def index_of(ascending: np.ndarray) -> Index:
    """What takes these rows or worlds, int64, from an array: by slices where they are few."""
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
        self._all_worlds = np.arange(worlds, dtype=np.int64)
        self._agents = agents
        self._all_rows = np.arange(worlds * agents, dtype=np.int64)
        self.in_flight = 0  # worlds
        self._turn = np.zeros(worlds, np.int64)  # of each world, when it was last received
        self._turns = 0
        self.hand_out_all()

    def hand_out_all(self) -> None:
        """After a reset: every row is in the caller's hands."""
        self._turn[:] = 0
        self._turns = 0
        self._hand_out(self._all_worlds, self._all_rows, slice(None), self._all_worlds)

    def _hand_out(
        self, worlds: np.ndarray, rows: np.ndarray, index: Index, order: np.ndarray
    ) -> None:
        """index: what takes the worlds from an array; order: the worlds as they were received."""
        self._handed = worlds, rows, index
        self._order = order
        self._here = True  # nothing was sent since

    def send(self, read: Read, actions: Any, env_ids: Any, finished: np.ndarray | None) -> None:
        """Checks everything, then starts one step of the worlds of `env_ids`.

        finished: bool [worlds], worlds that must be reset first; None where there is no such.
        """
        worlds, rows, index = self._handed if env_ids is None else self._parse_ids(env_ids)
        if env_ids is not None or not self._here:
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
        self._stepper.submit(self._order if env_ids is None else self._by_turn(worlds))
        self._here = False
        put(self._flying, index, True)
        self.in_flight += len(worlds)

    def _by_turn(self, worlds: np.ndarray) -> np.ndarray:
        """The worlds as they were received, so that those with low numbers overtake nobody."""
        turns = self._turn[worlds]
        return worlds if (turns[1:] >= turns[:-1]).all() else worlds[turns.argsort(kind="stable")]

    def _check_none(self, flags: np.ndarray, worlds: np.ndarray, refusal: str) -> None:
        """Raises where the flag of one of the worlds is set."""
        found = flags[worlds]
        if found.any():
            raise CallOrderError(refusal.format(int(worlds[found.argmax()]) * self._agents))

    def recv(self, worlds: int) -> tuple[np.ndarray, np.ndarray]:
        """Waits for the first `worlds` worlds: (int64 world numbers, int64 rows), ascending."""
        if self.in_flight == 0:
            raise CallOrderError("recv() without send(): no environment is in flight")
        done = self._stepper.wait(min(worlds, self.in_flight))
        agents, first, count = self._agents, first_of_range(done), len(done)
        index: Index
        if first >= 0:
            index = slice(first, first + count)
            self._turn[index] = self._turns
            order = done = self._all_worlds[index]
            rows = self._all_rows[first * agents : (first + count) * agents]
        else:
            self._turn[done] = np.arange(self._turns, self._turns + count)
            order = done
            done = rows = np.sort(order, kind="stable")  # a few ascending runs, as a rule
            index = index_of(done)
            if agents > 1:
                rows = (done[:, None] * agents + np.arange(agents)).reshape(-1)
        self._turns += count
        put(self._flying, index, False)
        self.in_flight -= count
        self._hand_out(done, rows, index, order)
        return done, rows

    def launch_all(self) -> None:
        """Starts a step of all worlds, none of which is in flight; their actions are checked."""
        self._stepper.submit(self._all_worlds)
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

    def _parse_ids(self, env_ids: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(worlds, rows, worlds) that a caller names."""
        rows = self._parse_rows(env_ids)
        worlds = rows if self._agents == 1 else rows[:: self._agents] // self._agents
        return worlds, rows, worlds

    def _parse_rows(self, env_ids: Any) -> np.ndarray:
        rows = np.asarray(env_ids)
        if rows.ndim != 1 or rows.size == 0:
            raise ArgumentError(
                f"env_ids has shape {rows.shape}: expected a list with at least one environment"
            )
        if rows.dtype.kind not in "iu":
            raise ArgumentTypeError(f"env_ids has dtype {rows.dtype}: expected integers")
        rows = np.ascontiguousarray(rows, np.int64)
        total = self._all_rows.size
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
            raise ArgumentError(
                f"env_ids splits a world: the {agents} environments of a world are sent "
                "together and in order"
            )
