"""Nested arrays: observations and results in the structure of their space."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def map_nested(function: Callable[[Any], Any], value: Any) -> Any:
    """`function` of each array of a nested value."""
    if isinstance(value, dict):
        return {name: map_nested(function, part) for name, part in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(map_nested(function, part) for part in value)
    return function(value)


def copied(value: Any) -> Any:
    """The value with arrays of its own."""
    return map_nested(np.copy, value)


def rows_of(value: Any, low: int, high: int) -> Any:
    """Rows [low, high) of each array."""
    return map_nested(lambda array: array[low:high], value)


def where(value: Any, mask: np.ndarray) -> Any:
    """The rows of each array that the mask names."""
    return map_nested(lambda array: array[mask], value)


def row_of(value: Any, row: int) -> Any:
    """One row of each array."""
    return map_nested(lambda array: array[row], value)


def mixed_rows(first: Any, others: Any, rows: int) -> Any:
    """The first rows of `first`, the others of `others`; in the structure of both."""
    if isinstance(first, dict):
        return {name: mixed_rows(first[name], others[name], rows) for name in first}
    if isinstance(first, tuple):
        return tuple(mixed_rows(a, b, rows) for a, b in zip(first, others, strict=True))
    mixed = np.copy(others)
    mixed[:rows] = first[:rows]
    return mixed


def equal(one: Any, other: Any) -> bool:
    """Whether two nested values have the same structure and numbers; NaN equals NaN."""
    if isinstance(one, dict):
        return set(one) == set(other) and all(equal(one[name], other[name]) for name in one)
    if isinstance(one, (tuple, list)):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(equal(a, b) for a, b in pairs)
    one, other = np.asarray(one), np.asarray(other)
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))


def spoil(value: Any) -> None:
    """Writes nonsense into every array that lets itself be written to."""

    def fill(array: Any) -> None:
        if isinstance(array, np.ndarray) and array.flags.writeable:
            array[...] = 1 if array.dtype.kind == "b" else 77

    map_nested(fill, value)


def is_objects(value: Any) -> bool:
    """Whether it is an array of Python objects."""
    return isinstance(value, np.ndarray) and value.dtype == object
