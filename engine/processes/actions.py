"""Actions for Python environments: what is accepted, and the sentence for what is not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from ..asynchronous import as_array
from ..errors import ArgumentError, ArgumentTypeError, kind_of
from ._board import WholeNumbers
from .leaves import Leaf

if TYPE_CHECKING:
    from ..asynchronous import Numbers


class ActionWriter:
    """Checks a batch of actions and writes it into the batch's memory.

    Discrete, multi-discrete and binary ones must lie in their range, and none may be NaN, but
    for rows whose action is ignored.
    """

    def __init__(
        self, space: spaces.Space, leaves: list[Leaf], arrays: list[np.ndarray], ignored: Any
    ) -> None:
        """arrays: of the leaves, [rows, ...] each; ignored: a function of rows (int64, or None
        for all) that tells which of them ignore their action, bool [len(rows)]."""
        self._space = space
        self._leaves = [
            _LeafWriter(leaf, array) for leaf, array in zip(leaves, arrays, strict=True)
        ]
        nested = isinstance(space, (spaces.Dict, spaces.Tuple))
        self._only = None if nested else self._leaves[0]
        self._direct: WholeNumbers | None = None
        if isinstance(space, spaces.Discrete) and leaves[0].dtype == np.int64:
            self._direct = WholeNumbers(arrays[0], space.start, space.start + space.n - 1)
        self._ignored = ignored
        self._rows = len(arrays[0]) if arrays else 0

    def read(self, actions: Any, rows: Numbers | None) -> None:
        """Writes the actions of `rows` (None: all of them, in order).

        Raises:
            ArgumentError: wrong shape or structure, out of range, a NaN.
            ArgumentTypeError: a type or dtype that cannot be such an action.
        """
        if rows is not None:
            rows = as_array(rows)
        if self._direct is not None and self._direct.take(actions, rows):
            return
        count = self._rows if rows is None else len(rows)
        if self._only is not None:
            array = self._only.converted(actions, "actions", count)
            if self._only.is_bad(array):
                self._only.refuse(array, "actions", rows, self._ignored(rows))
            self._only.write(array, rows)
            return
        parts = list(_parts(self._space, actions, "actions"))
        checked = []
        for leaf, (name, part) in zip(self._leaves, parts, strict=True):
            array = leaf.converted(part, name, count)
            if leaf.is_bad(array):
                leaf.refuse(array, name, rows, self._ignored(rows))
            checked.append(array)
        for leaf, array in zip(self._leaves, checked, strict=True):
            leaf.write(array, rows)


class _LeafWriter:
    def __init__(self, leaf: Leaf, array: np.ndarray) -> None:
        self._array = array
        self._shape = leaf.shape
        self._dtype = leaf.dtype
        self._low: Any = None  # of discrete ones
        space = leaf.space
        if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)):
            count = space.n if isinstance(space, spaces.Discrete) else space.nvec
            self._low, self._high = space.start, space.start + count - 1
        elif isinstance(space, spaces.MultiBinary):
            self._low, self._high = 0, 1

    def converted(self, actions: Any, name: str, rows: int) -> np.ndarray:
        """An array [rows, ...] of a kind that can be cast to the space's dtype."""
        try:
            array = np.asarray(actions)
        except ValueError:
            raise ArgumentError(
                f"{name} is ragged: expected an array of shape {(rows, *self._shape)}"
            ) from None
        if array.ndim == 0:
            raise ArgumentTypeError(
                f"{name} is a single {type(actions).__name__}: expected an array of shape "
                f"{(rows, *self._shape)}, one action for each environment"
            )
        if array.shape != (rows, *self._shape):
            raise ArgumentError(
                f"{name} has shape {array.shape}: expected {(rows, *self._shape)}, one action for "
                f"each of {rows} environments"
            )
        allowed = "biu" if self._dtype.kind in "biu" else "biuf"
        if array.dtype.kind not in allowed:
            what = "integers" if allowed == "biu" else "numbers"
            raise ArgumentTypeError(
                f"{name} has dtype {array.dtype}: this environment's actions are {what} "
                f"({self._dtype})"
            )
        return array

    def is_bad(self, array: np.ndarray) -> bool:
        """Whether some action may not be used."""
        if self._low is not None:
            return bool(self._outside(array).any())
        return array.dtype.kind == "f" and bool(np.isnan(array).any())

    def _outside(self, array: np.ndarray) -> np.ndarray:
        return (array < self._low) | (array > self._high)

    def refuse(self, array: np.ndarray, name: str, rows: Any, ignored: np.ndarray) -> None:
        """Raises for the first bad action of a row that does not ignore it."""
        bad = np.isnan(array) if self._low is None else self._outside(array)
        bad[ignored] = False
        if not bad.any():
            return
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        which = f"{name}[{', '.join(map(str, at))}]"
        if rows is not None and rows[at[0]] != at[0]:
            which += f" (environment {rows[at[0]]})"
        if self._low is None:
            raise ArgumentError(f"{which} is NaN: every action must be a number")
        low = np.broadcast_to(self._low, array.shape)[at]
        high = np.broadcast_to(self._high, array.shape)[at]
        raise ArgumentError(f"{which} is {array[at]}: allowed are the integers {low} to {high}")

    def write(self, array: np.ndarray, rows: np.ndarray | None) -> None:
        """Writes checked actions."""
        if rows is None:
            np.copyto(self._array, array, casting="unsafe")
        else:
            self._array[rows] = array


def _parts(space: spaces.Space, actions: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The parts of a batch of actions that belong to the leaves of the space, and their names."""
    if isinstance(space, spaces.Dict):
        if not isinstance(actions, Mapping):
            raise ArgumentTypeError(
                f"{name} is {kind_of(actions)}: expected a dict with the keys "
                f"{', '.join(map(repr, space.spaces))}"
            )
        if set(actions) != set(space.spaces):
            raise ArgumentError(
                f"{name} has the keys {sorted(map(str, actions))}: expected "
                f"{sorted(map(str, space.spaces))}"
            )
        for key, part in space.spaces.items():
            yield from _parts(part, actions[key], f"{name}[{key!r}]")
    elif isinstance(space, spaces.Tuple):
        if not isinstance(actions, (tuple, list)) or len(actions) != len(space.spaces):
            raise ArgumentTypeError(
                f"{name} is no tuple of {len(space.spaces)} arrays, one for each part of the space"
            )
        for at, part in enumerate(space.spaces):
            yield from _parts(part, actions[at], f"{name}[{at}]")
    else:
        yield name, actions
