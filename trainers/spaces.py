"""Gymnasium spaces as rows of plain memory, so that policies see every environment alike.

An observation becomes an Obs struct and an action an Action struct, as native environments
have them by nature: one field for each leaf of a nested space (one for each element where the
elements differ). Numbers that no kernel reads, such as float64, become float32.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ..engine.errors import ArgumentError, ArgumentTypeError
from ..engine.processes.leaves import Leaf, assemble, leaves_of
from ..engine.spec import EnvSpec, FieldSpec

# What holds an observation of each dtype.
_HELD = {
    "bool": "int8",
    "uint8": "uint8",
    "int8": "int8",
    "int16": "int16",
    "int32": "int32",
}

_SMALL = 2**31 - 1


@dataclass(frozen=True)
class _Part:
    """Where elements of a leaf lie in the struct."""

    field: str
    leaf: int  # number of the leaf
    elements: slice | None  # of the flattened leaf; None: the whole leaf in its own shape
    start: Any  # subtracted on the way in, added on the way out: the first value of a choice
    narrowed: bool = False  # the field holds less than the leaf: what it loses is refused


class SpaceCodec:
    """Structs of one space: `spec` describes them, `pack` and `unpack` convert batches."""

    def __init__(self, space: spaces.Space, what: str) -> None:
        """what: "observation" or "action".

        Raises:
            ArgumentTypeError: a space whose values have no fixed size.
        """
        self.space = space
        self._leaves = leaves_of(space, what)
        self._parts: list[_Part] = []
        self.fields: list[FieldSpec] = []
        self._size = 0
        self._names: list[str] = []  # of the leaves
        self._fields: set[str] = set()  # names of the fields
        for at, leaf in enumerate(self._leaves):
            name = _unused(_name(leaf.path, what), self._names)
            self._names.append(name)
            if what == "action":
                self._add_action(at, leaf, name)
            else:
                self._add_observation(at, leaf, name)
        self._size = -(-max(self._size, 1) // 4) * 4
        self.dtype = np.dtype(
            {
                "names": [field.name for field in self.fields],
                "formats": [(np.dtype(field.dtype), field.shape) for field in self.fields],
                "offsets": [field.offset for field in self.fields],
                "itemsize": self._size,
            }
        )

    def _add(self, part: _Part, dtype: str, shape: tuple[int, ...], **rest: Any) -> None:
        size = np.dtype(dtype).itemsize
        offset = -(-self._size // size) * size
        given = {"low": -np.inf, "high": np.inf, "choices": 0, **rest}
        kind = "discrete" if given["choices"] else "box"
        part = replace(part, field=_unused(part.field, self._fields))
        self._fields.add(part.field)
        field = FieldSpec(part.field, kind, dtype, offset, shape, **given)
        self._parts.append(part)
        self.fields.append(field)
        self._size = offset + field.size * size

    def _add_observation(self, at: int, leaf: Leaf, name: str) -> None:
        space = leaf.space
        if isinstance(space, spaces.Discrete):
            self._add(_Part(name, at, None, space.start), "int32", (), choices=int(space.n))
        elif isinstance(space, spaces.MultiDiscrete):
            counts, starts = space.nvec.reshape(-1), space.start
            if (counts == counts[0]).all():
                whole = _Part(name, at, None, starts)
                self._add(whole, "int32", leaf.shape, choices=int(counts[0]))
                return
            for k, count in enumerate(counts):
                part = _Part(f"{name}.{k}", at, slice(k, k + 1), starts.reshape(-1)[k])
                self._add(part, "int32", (1,), choices=int(count))
        else:
            held = _held(leaf)
            narrowed = held == "int32" and not np.can_cast(leaf.dtype, np.int32)
            self._add(_Part(name, at, None, 0, narrowed), held, leaf.shape, **_bounds(space))

    def _add_action(self, at: int, leaf: Leaf, name: str) -> None:
        space = leaf.space
        if isinstance(space, spaces.Box) and leaf.dtype.kind == "f":
            low, high = (bound.reshape(-1) for bound in (space.low, space.high))
            for k in range(low.size):
                part = _Part(f"{name}.{k}", at, slice(k, k + 1), 0)
                self._add(part, "float32", (1,), low=float(low[k]), high=float(high[k]))
            return
        for k, (count, start) in enumerate(_choices(leaf)):
            part = _Part(f"{name}.{k}", at, slice(k, k + 1), start)
            self._add(part, "int32", (1,), choices=count)

    def leaf_fields(self) -> list[tuple[str, Leaf, list[tuple[FieldSpec, tuple[int, ...]]]]]:
        """(name, leaf, its fields in order, each with what the first value of its elements is:
        0 but for choices) of every leaf."""
        found: list[tuple[str, Leaf, list[tuple[FieldSpec, tuple[int, ...]]]]] = [
            (name, leaf, []) for name, leaf in zip(self._names, self._leaves, strict=True)
        ]
        for part, field in zip(self._parts, self.fields, strict=True):
            start = np.broadcast_to(np.ravel(part.start), field.size)
            found[part.leaf][2].append((field, tuple(int(k) for k in start)))
        return found

    def pack(self, values: Sequence[NDArray[Any]], rows: NDArray[np.int64]) -> NDArray[Any]:
        """Structs [len(rows)] of the rows `rows` of the leaves' arrays [N, ...]."""
        structs = np.zeros(len(rows), self.dtype)
        for part in self._parts:
            value = values[part.leaf][rows]
            if part.elements is not None:
                value = value.reshape(len(rows), math.prod(value.shape[1:]))[:, part.elements]
            structs[part.field] = value - part.start if np.any(part.start) else value
            if part.narrowed:
                self._check_held(part, value, structs[part.field])
        return structs

    def _check_held(self, part: _Part, value: NDArray[Any], held: NDArray[Any]) -> None:
        """ArgumentError where a whole number was lost: its space does not allow it."""
        if np.any(lost := held != value):
            raise ArgumentError(
                f"{self._names[part.leaf]} is {value[lost][0]}, outside of its space "
                f"{self._leaves[part.leaf].space}"
            )

    def unpack(self, structs: NDArray[Any]) -> Any:
        """A batch [k, ...] of the space from structs [k]."""
        rows = len(structs)
        arrays = [np.zeros((rows, *leaf.shape), leaf.dtype) for leaf in self._leaves]
        for part in self._parts:
            whole, own = arrays[part.leaf], structs[part.field]
            flat = whole.reshape(rows, math.prod(whole.shape[1:]))  # -1 is nothing where rows are 0
            value = own.reshape(rows, math.prod(own.shape[1:])) + part.start
            flat[:, slice(None) if part.elements is None else part.elements] = value
        return assemble(self.space, arrays)


def leaf_arrays(value: Any) -> list[NDArray[Any]]:
    """The arrays of a nested batch, in the order of its space's leaves."""
    if isinstance(value, dict):
        return [array for part in value.values() for array in leaf_arrays(part)]
    if isinstance(value, tuple):
        return [array for part in value for array in leaf_arrays(part)]
    return [value]


def spec_of_spaces(
    name: str, observation: SpaceCodec, action: SpaceCodec, agents: int, *, has_present: bool
) -> EnvSpec:
    """What policies need to know of an environment that has only its spaces."""
    return EnvSpec(
        name=name,
        language="python",
        source_hash="",
        agents=agents,
        max_steps=0,
        single_observation_space=observation.space,
        single_action_space=action.space,
        obs_fields=tuple(observation.fields),
        action_fields=tuple(action.fields),
        obs_dtype=observation.dtype,
        action_dtype=action.dtype,
        params=(),
        metric_names=(),
        state_size=0,
        params_size=0,
        mask_size=0,
        has_present=has_present,
        has_draw=False,
        checked=False,
    )


def _name(path: str, what: str) -> str:
    """A field's name from its path: "['position'][0]" is position.0."""
    parts = [part.strip("'\"") for part in path.strip("[]").split("][")] if path else [what]
    return ".".join(parts)


def _unused(name: str, names: Collection[str]) -> str:
    """The name, with a number where it is taken: {"a": {"b": ...}, "a.b": ...} has a.b twice."""
    found, count = name, 1
    while found in names:
        count += 1
        found = f"{name}.{count}"
    return found


def _held(leaf: Leaf) -> str:
    """The dtype of numbers of an observation: of whole ones that of an integer, if one has them."""
    found = _HELD.get(str(leaf.dtype))
    if found is None and leaf.dtype.kind in "iu" and _bounds(leaf.space)["high"] <= _SMALL:
        found = "int32" if _bounds(leaf.space)["low"] >= -_SMALL else None
    return found or "float32"


def _bounds(space: spaces.Space) -> dict[str, float]:
    """The least and the greatest number of all elements."""
    if not isinstance(space, spaces.Box) or 0 in space.shape:
        return {"low": 0.0, "high": 1.0}
    return {"low": float(space.low.min()), "high": float(space.high.max())}


def _choices(leaf: Leaf) -> list[tuple[int, int]]:
    """(how many values, the first of them) of each element of a discrete action."""
    space = leaf.space
    if isinstance(space, spaces.Discrete):
        return [(int(space.n), int(space.start))]
    if isinstance(space, spaces.MultiDiscrete):
        counts, starts = (array.reshape(-1).tolist() for array in (space.nvec, space.start))
        return list(zip(counts, starts, strict=True))
    if isinstance(space, spaces.MultiBinary):
        return [(2, 0)] * int(np.prod(leaf.shape))
    assert isinstance(space, spaces.Box)
    low, high = (bound.reshape(-1).astype(np.int64) for bound in (space.low, space.high))
    if (high - low > 4096).any():
        raise ArgumentTypeError(
            f"the action space holds {space}: whole numbers in so wide a range are no choice"
        )
    return [(int(top - least) + 1, int(least)) for least, top in zip(low, high, strict=True)]
