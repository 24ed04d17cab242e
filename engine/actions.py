"""Actions from Python: what is accepted, and the sentence for what is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from . import _core
from .errors import ArgumentError, ArgumentTypeError, kind_of

if TYPE_CHECKING:
    from .asynchronous import Numbers
    from .spec import EnvSpec


class ActionReader:
    """Checks a batch of actions and writes it into the batch's action slots.

    A C-contiguous int64 or int32 array (float32 where actions are continuous) is read
    directly; any other array-like of the right shape is converted first.
    """

    def __init__(self, spec: EnvSpec, slots: np.ndarray) -> None:
        """slots: uint8 [rows, sizeof(Action)], the actions of the batch."""
        self._rows = slots.shape[0]
        space = spec.single_action_space
        self._fields: dict[str, _Field] | None = None
        self.direct: _core.ActionSlots | None = None  # where one array holds all actions
        if isinstance(space, spaces.Dict):
            offsets = {field.name: field.offset for field in spec.action_fields}
            self._fields = {
                name: _Field(f"actions[{name!r}]", part, slots, offsets[name])
                for name, part in space.spaces.items()
            }
        else:
            self._only = _Field("actions", space, slots, 0)
            self.direct = self._only.slots

    def read(self, actions: Any, rows: Numbers | None = None) -> None:
        """Writes `actions` into the slots of `rows` (None: all of them, in order).

        Raises:
            ArgumentError: wrong shape, a discrete action out of range, a NaN.
            ArgumentTypeError: a dtype that cannot be such an action.
        """
        if self._fields is not None:
            self._read_dict(actions, rows)
        elif self._only.slots.take(actions, rows) != _core.TAKEN:
            self._only.read(actions, rows, self._rows)

    def _read_dict(self, actions: Any, rows: Numbers | None) -> None:
        assert self._fields is not None
        if not isinstance(actions, Mapping):
            raise ArgumentTypeError(
                f"actions is {kind_of(actions)}: this environment's actions are a dict "
                f"with the keys {', '.join(map(repr, self._fields))}"
            )
        if set(actions) != set(self._fields):
            raise ArgumentError(
                f"actions has the keys {sorted(map(str, actions))}: expected {sorted(self._fields)}"
            )
        for name, field in self._fields.items():
            field.read(actions[name], rows, self._rows)


class _Field:
    """One field of the action space: its slots and how to speak of it."""

    def __init__(self, name: str, space: spaces.Space, slots: np.ndarray, offset: int) -> None:
        self.name = name
        self.choices: np.ndarray | None = None
        if isinstance(space, spaces.Discrete):
            self.shape: tuple[int, ...] = ()
            self.choices = np.array([space.n], np.int32)
        elif isinstance(space, spaces.MultiDiscrete):
            self.shape = space.nvec.shape
            self.choices = space.nvec.astype(np.int32).reshape(-1)
        else:
            assert space.shape is not None
            self.shape = space.shape
        self.slots = _core.ActionSlots(slots, offset, self.shape, self.choices)

    def read(self, actions: Any, rows: Numbers | None, all_rows: int) -> None:
        array = self._converted(actions, all_rows if rows is None else len(rows))
        bad = self.slots.take(array, rows)
        if bad == _core.TAKEN:
            return
        index = tuple(int(i) for i in np.unravel_index(bad, array.shape))
        value = np.asarray(actions)[index]
        what = f"{self.name}[{', '.join(map(str, index))}]"
        if rows is not None and rows[index[0]] != index[0]:
            what += f" (environment {rows[index[0]]})"
        if self.choices is None:
            raise ArgumentError(f"{what} is NaN: every action must be a number")
        highest = self.choices[bad % self.choices.size] - 1
        raise ArgumentError(f"{what} is {value}: allowed are the integers 0 to {highest}")

    def _converted(self, actions: Any, rows: int) -> np.ndarray:
        """A C-contiguous array of a dtype that ActionSlots reads, of the right shape."""
        try:
            array = np.asarray(actions)
        except ValueError:
            raise ArgumentError(
                f"{self.name} is ragged: expected an array of shape {(rows, *self.shape)}"
            ) from None
        if array.shape != (rows, *self.shape):
            raise ArgumentError(
                f"{self.name} has shape {array.shape}: expected {(rows, *self.shape)}, "
                f"one action for each of {rows} environments"
            )
        if self.choices is not None:
            if array.dtype.kind not in "iu":
                raise ArgumentTypeError(
                    f"{self.name} has dtype {array.dtype}: this environment's actions are "
                    "discrete, pass integers (for instance actions.astype(np.int64))"
                )
            return np.ascontiguousarray(array, dtype=np.int64)
        if array.dtype.kind not in "fiu":
            raise ArgumentTypeError(
                f"{self.name} has dtype {array.dtype}: this environment's actions are "
                "continuous, pass float32 numbers"
            )
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(array, dtype=np.float32)
