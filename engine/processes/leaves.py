"""Spaces as arrays of shared memory: one array per leaf of a nested space.

Box, Discrete, MultiDiscrete and MultiBinary are leaves; Dict and Tuple nest them. Rows of a
batch are the first axis of each array, and `assemble` gives arrays back in the structure that
Gymnasium's batched spaces have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from ..errors import ArgumentError, ArgumentTypeError, kind_of
from .fitting import array_of, bounds_of, fitted, refuse_outside

_INTEGERS = {int, np.int64}
_PLAIN = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


@dataclass(frozen=True)
class Leaf:
    """One leaf: where it lies in the space, and what one row of it is."""

    path: str  # as in Python, after the name of the whole: "", "['position'][0]"
    space: spaces.Space
    dtype: np.dtype
    shape: tuple[int, ...]


def leaves_of(space: spaces.Space, what: str) -> list[Leaf]:
    """The leaves of a space in order.

    what: "observation" or "action", for the message.

    Raises:
        ArgumentTypeError: a space whose values have no fixed size, or an unknown one.
    """
    return list(_leaves(space, what, ""))


def _leaves(space: spaces.Space, what: str, path: str) -> Iterator[Leaf]:
    if isinstance(space, spaces.Dict):
        for name, part in space.spaces.items():
            yield from _leaves(part, what, f"{path}[{name!r}]")
    elif isinstance(space, spaces.Tuple):
        for at, part in enumerate(space.spaces):
            yield from _leaves(part, what, f"{path}[{at}]")
    elif isinstance(space, _PLAIN):
        assert space.dtype is not None
        assert space.shape is not None
        yield Leaf(path, space, np.dtype(space.dtype), space.shape)
    else:
        where = f"the part {path} of the {what} space" if path else f"the {what} space"
        raise ArgumentTypeError(
            f"{where} is {kind_of(space)}, whose values have no fixed size in shared "
            "memory: use Box, Discrete, MultiDiscrete, MultiBinary, Dict or Tuple, for instance "
            "through one of Gymnasium's observation wrappers"
        )


def assemble(space: spaces.Space, values: Sequence[Any]) -> Any:
    """One value per leaf, in order, in the structure of the space: dicts and tuples."""
    return _assembled(space, iter(values))


def _assembled(space: spaces.Space, values: Iterator[Any]) -> Any:
    if isinstance(space, spaces.Dict):
        return {name: _assembled(part, values) for name, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_assembled(part, values) for part in space.spaces)
    return next(values)


# ---- one row at a time: the worker's side --------------------------------------------------


def writer(space: spaces.Space, arrays: Sequence[np.ndarray]) -> Callable[[int, Any], None]:
    """A function (row, value) that writes a value of the space into a row of the arrays.

    It raises ArgumentError or ArgumentTypeError for a value of another shape than the space's, or
    one that its dtype cannot hold, and for a choice that there is not.
    """
    return _writer(space, iter(arrays), "the observation")


def _writer(
    space: spaces.Space, arrays: Iterator[np.ndarray], name: str
) -> Callable[[int, Any], None]:
    if isinstance(space, spaces.Dict):
        named = {
            key: _writer(part, arrays, f"{name}[{key!r}]") for key, part in space.spaces.items()
        }

        def write_dict(row: int, value: Any) -> None:
            for key, write in named.items():
                write(row, _part_of(value, key, name))

        return write_dict
    if isinstance(space, spaces.Tuple):
        parts = [_writer(part, arrays, f"{name}[{at}]") for at, part in enumerate(space.spaces)]

        def write_tuple(row: int, value: Any) -> None:
            if not hasattr(value, "__len__"):
                raise ArgumentTypeError(f"{name} is {kind_of(value)}: its space is a Tuple")
            if len(value) != len(parts):
                raise ArgumentError(f"{name} has {len(value)} parts: its space has {len(parts)}")
            for write, part in zip(parts, value, strict=True):
                write(row, part)

        return write_tuple
    return _leaf_writer(space, next(arrays), name)


def _part_of(value: Any, key: Any, name: str) -> Any:
    """What a value of a Dict has under a key."""
    try:
        return value[key]
    except (KeyError, TypeError, IndexError):
        has = f"has {', '.join(map(repr, value))}" if isinstance(value, Mapping) else "is no dict"
        raise ArgumentError(f"{name} {has}: its space has {key!r}") from None


def _leaf_writer(space: spaces.Space, array: np.ndarray, name: str) -> Callable[[int, Any], None]:
    shape, dtype, bounds = array.shape[1:], array.dtype, bounds_of(space)

    def write(row: int, value: Any) -> None:
        if type(value) is not np.ndarray:
            value = array_of(value, name)
        if value.shape != shape:
            raise ArgumentError(f"{name} has shape {value.shape}: its space has {shape}")
        if value.dtype is not dtype:
            value = fitted(value, dtype, name)
        if bounds is not None:
            refuse_outside(value, bounds, name)
        array[row] = value

    if bounds is None or shape:
        return write
    low, high = (int(bound) for bound in bounds)

    def write_choice(row: int, value: Any) -> None:
        if type(value) in _INTEGERS and low <= value <= high:
            array[row] = value
        else:
            write(row, value)

    return write_choice


def reader(space: spaces.Space, arrays: Sequence[np.ndarray]) -> Callable[[int], Any]:
    """A function (row) that returns a value of the space: a copy of a row of the arrays."""
    return _reader(space, iter(arrays))


def _reader(space: spaces.Space, arrays: Iterator[np.ndarray]) -> Callable[[int], Any]:
    if isinstance(space, spaces.Dict):
        named = {key: _reader(part, arrays) for key, part in space.spaces.items()}
        return lambda row: {key: read(row) for key, read in named.items()}
    if isinstance(space, spaces.Tuple):
        parts = [_reader(part, arrays) for part in space.spaces]
        return lambda row: tuple(read(row) for read in parts)
    array = next(arrays)
    if array.ndim == 1:
        return array.__getitem__  # a scalar of NumPy, as Gymnasium hands out
    return lambda row: array[row].copy()
