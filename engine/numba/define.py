"""What an author writes around a Numba environment: the decorator and the descriptions.

Nothing here imports numba: a class is decorated, described and looked up without it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, overload

import numpy as np

from ..errors import ArgumentError, ArgumentTypeError

_Class = TypeVar("_Class", bound=type)

OBS_DTYPES = ("float32", "uint8", "int8", "int16", "int32")
ARRAY_DTYPES = ("float32", "uint8", "int8", "int16", "int32", "float64", "int64")


@dataclass(frozen=True)
class Field:
    """One member of an observation or an action; made by `field` or `discrete`."""

    kind: str  # "box" or "discrete"
    dtype: str
    shape: tuple[int, ...]
    low: float
    high: float
    choices: int  # 0 for a box


@dataclass(frozen=True)
class ArrayParam:
    """An array parameter; made by `array`."""

    dtype: str


@dataclass(frozen=True)
class Options:
    """What was given to `numba_env`."""

    name: str | None
    agents: int
    max_steps: int
    metrics: tuple[str, ...]


def field(
    low: float, high: float, *, dtype: Any = np.float32, shape: int | Sequence[int] = ()
) -> Field:
    """A number, or an array of `shape` (up to four dimensions), within [low, high].

    dtype: float32, uint8, int8, int16 or int32 in an observation, float32 in an action.
    """
    kind = np.dtype(dtype).name
    if kind not in OBS_DTYPES:
        raise ArgumentError(f"dtype is {kind}: a field has one of {', '.join(OBS_DTYPES)}")
    return Field("box", kind, _shape(shape), float(low), float(high), 0)


def discrete(choices: int, *, shape: int | Sequence[int] = ()) -> Field:
    """An int32, or an array of them, with values from 0 to choices - 1."""
    if isinstance(choices, bool) or not isinstance(choices, (int, np.integer)) or choices < 1:
        raise ArgumentError(f"choices is {choices!r}: give an integer from 1 on")
    return Field("discrete", "int32", _shape(shape), 0.0, float(choices - 1), int(choices))


def array(dtype: Any = np.float32) -> ArrayParam:
    """A parameter that is a one-dimensional array, given from Python and shared by all worlds."""
    kind = np.dtype(dtype).name
    if kind not in ARRAY_DTYPES:
        raise ArgumentError(f"dtype is {kind}: an array has one of {', '.join(ARRAY_DTYPES)}")
    return ArrayParam(kind)


@overload
def numba_env(cls: _Class) -> _Class: ...


@overload
def numba_env(
    *,
    name: str | None = ...,
    agents: int = ...,
    max_steps: int = ...,
    metrics: Sequence[str] = ...,
) -> Callable[[_Class], _Class]: ...


def numba_env(
    cls: Any = None,
    *,
    name: str | None = None,
    agents: int = 1,
    max_steps: int = 0,
    metrics: Sequence[str] = (),
) -> Any:
    """Declares that a class is an environment whose functions Numba compiles.

    The class has `state` (a dtype), `obs` and `action` (dicts of `field` and `discrete`),
    perhaps `params` (a dict of defaults and of `array`), and the functions reset(p, s, rng),
    step(p, s, a, out, rng) and observe(p, s, o); present(p, s, there), mask(p, s, allowed),
    metrics(p, s, m) and draw(p, s, frame) are optional. docs/languages.md explains them.

    Args:
        name: what the environment is called; default: the class's name in lower case.
        agents: agents per world; with more than one, a, out and o are arrays of that length.
        max_steps: time limit in steps; 0: none.
        metrics: the members of m, floats, that `metrics` fills where an episode ends.

    The class is returned as it is; it is compiled when it is first used.
    """
    if cls is None:
        options = Options(
            name, _count("agents", agents, 1), _count("max_steps", max_steps, 0), _names(metrics)
        )
    elif isinstance(cls, type):
        return numba_env()(cls)
    else:
        raise ArgumentTypeError(f"numba_env is given {cls!r}: put it in front of a class")

    def decorate(target: type) -> type:
        if not isinstance(target, type):
            raise ArgumentTypeError(f"numba_env decorates {target!r}: put it in front of a class")
        target.headrace_options = options  # type: ignore[attr-defined]
        return target

    return decorate


def options_of(value: Any) -> Options | None:
    """The options of a class that `numba_env` decorates itself, None for anything else."""
    found = vars(value).get("headrace_options") if isinstance(value, type) else None
    return found if isinstance(found, Options) else None


def default_name(cls: type) -> str:
    """GridWorld: grid_world."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()


def _shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    sizes = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    if len(sizes) > 4 or any(size < 1 for size in sizes):
        raise ArgumentError(f"shape is {shape!r}: give up to four sizes from 1 on")
    return tuple(int(size) for size in sizes)


def _count(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ArgumentError(f"{name} is {value!r}: give an integer from {least} on")
    return int(value)


def _names(metrics: Sequence[str]) -> tuple[str, ...]:
    if isinstance(metrics, (str, Mapping)):
        raise ArgumentTypeError(f"metrics is {metrics!r}: give a tuple of names")
    names = tuple(metrics)
    if len(set(names)) < len(names) or not all(str(name).isidentifier() for name in names):
        raise ArgumentError(f"metrics is {metrics!r}: give different names")
    return names
