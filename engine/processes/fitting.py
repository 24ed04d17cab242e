"""Whether what an environment gave fits its space, and a sentence where it does not."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ..errors import ArgumentError, ArgumentTypeError, kind_of

Bounds = tuple[NDArray[np.int64], NDArray[np.int64]]


def bounds_of(space: spaces.Space) -> Bounds | None:
    """The least and the greatest value of each element, in the space's shape; None where all that
    its dtype can hold will do."""
    if isinstance(space, spaces.Discrete):
        low, count = np.asarray(space.start, np.int64), np.asarray(space.n, np.int64)
    elif isinstance(space, spaces.MultiDiscrete):
        low, count = space.start.astype(np.int64), space.nvec.astype(np.int64)
    elif isinstance(space, spaces.MultiBinary):
        low, count = np.zeros(space.shape, np.int64), np.full(space.shape, 2, np.int64)
    else:
        return None
    return low, low + count - 1


def array_of(value: Any, name: str) -> NDArray[Any]:
    """`value` as NumPy has it; ArgumentError for a ragged list."""
    try:
        return np.asarray(value)
    except ValueError:
        raise ArgumentError(f"{name} is a ragged {kind_of(value).partition(' ')[2]}") from None


def fitted(value: NDArray[Any], dtype: np.dtype, name: str) -> NDArray[Any]:
    """`value` in a dtype that can be copied into one of `dtype`.

    Whole numbers and booleans must stay what they are, whatever their dtype; into floats numbers
    are rounded.

    Raises:
        ArgumentTypeError: one of its elements is no such number.
    """
    kind = value.dtype.kind
    if (dtype.kind == "f" and kind in "biuf") or np.can_cast(value.dtype, dtype, "safe"):
        return value
    if kind not in "biufO":  # texts, complex numbers, times
        raise ArgumentTypeError(f"{name} has dtype {value.dtype}: its space has {dtype}")
    try:
        with np.errstate(invalid="ignore"):
            converted = value.astype(dtype)
    except (TypeError, ValueError, OverflowError):
        raise ArgumentTypeError(
            f"{name} is {_short(value.tolist())}: its space has {dtype}"
        ) from None
    if dtype.kind == "f":
        return converted
    wrong = np.asarray(converted != value, np.bool_)
    if wrong.any():
        at, element = _first(wrong, value)
        raise ArgumentTypeError(
            f"{name}{at} is {element} (of dtype {value.dtype}): its space has {dtype}, which "
            "cannot hold it"
        )
    return converted


def refuse_outside(value: NDArray[Any], bounds: Bounds, name: str) -> None:
    """ArgumentError where an element is none of those that its space allows."""
    low, high = bounds
    wrong = (value < low) | (value > high)
    if np.any(wrong):
        at, element = _first(wrong, value)
        least, most = (_first(wrong, bound)[1] for bound in bounds)
        raise ArgumentError(f"{name}{at} is {element}: its space has {least} to {most}")


def number(value: Any, name: str) -> float:
    """`value`, where it is one number; ArgumentTypeError where it is not."""
    shape = getattr(value, "shape", ())
    if not (shape or isinstance(value, (str, bytes, list, tuple)) or np.iscomplexobj(value)):
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError):
            pass
    what = f"an array of shape {shape}" if shape else _short(value)
    raise ArgumentTypeError(f"{name} is {what}: expected one number")


def flag(value: Any, name: str) -> bool:
    """`value`, where it is a boolean, or 0 or 1; ArgumentTypeError where it is not."""
    shape = getattr(value, "shape", ())
    single = isinstance(value, (bool, int, float, np.ndarray, np.generic)) and shape == ()
    if single and np.asarray(value).dtype.kind in "biuf" and value in (0, 1):
        return bool(value)
    what = f"an array of shape {shape}" if shape else _short(value)
    raise ArgumentTypeError(f"{name} is {what}: expected True or False")


def _first(wrong: NDArray[np.bool_], values: NDArray[Any]) -> tuple[str, Any]:
    """(where it is, what it is) of the first element that is wrong."""
    index = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    return f"[{', '.join(map(str, index))}]" if index else "", values[index]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
