"""Checks of the arguments of `make_vec` that are plain numbers and names."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from . import _core
from .cpus import available_cpus
from .errors import ArgumentError, ArgumentTypeError


def parse_count(name: str, value: Any, least: int = 1, most: int | None = None) -> int:
    """An integer of at least `least` and at most `most`."""
    try:
        number = operator.index(value)
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
    except TypeError:
        raise ArgumentTypeError(f"{name} is {value!r}: expected an integer") from None
    if number < least:
        raise ArgumentError(f"{name} is {number}: it must be at least {least}")
    if most is not None and number > most:
        raise ArgumentError(f"{name} is {number}: at most {most}")
    return number


def parse_rows(name: str, value: Any, agents: int) -> int:
    """A number of rows that is one of whole worlds."""
    rows = parse_count(name, value)
    if rows % agents:
        raise ArgumentError(
            f"{name} is {rows}, but this environment has {agents} agents, each a row of the "
            f"batch: give a multiple of {agents}"
        )
    return rows


def parse_batch_size(value: Any, num_envs: int, agents: int) -> int:
    """Rows of one `recv`; None: all."""
    if value is None:
        return num_envs
    rows = parse_rows("batch_size", value, agents)
    if rows > num_envs:
        raise ArgumentError(f"batch_size is {rows}: there are only {num_envs} environments")
    return rows


def parse_threads(executor: str, value: Any) -> int:
    """How many threads step the batch; None: as many as this process has CPUs."""
    if executor == "serial":
        if value not in (None, 1):
            raise ArgumentError(
                f"threads is {value!r}: the serial executor has one; use executor='threads'"
            )
        return 1
    if value is None:
        return min(available_cpus(), _core.MAX_THREADS)
    return parse_count("threads", value, most=_core.MAX_THREADS)


def parse_mode(value: Any) -> AutoresetMode:
    """Gymnasium's autoreset mode, or its name."""
    try:
        return AutoresetMode(value)
    except ValueError:
        names = ", ".join(repr(mode.value) for mode in AutoresetMode)
        raise ArgumentError(f"autoreset_mode is {value!r}: expected one of {names}") from None


def parse_render_mode(value: Any, env: str, has_draw: bool) -> str | None:
    """None, or "rgb_array" where the environment can draw."""
    if value is None:
        return None
    if value != "rgb_array":
        raise ArgumentError(f"render_mode is {value!r}: expected 'rgb_array' or None")
    if not has_draw:
        raise ArgumentError(f"render_mode is {value!r}, but the environment {env!r} does not draw")
    return "rgb_array"


def parse_options(options: Any, worlds: int, agents: int) -> tuple[np.ndarray, Any]:
    """The worlds that options["reset_mask"] asks to reset, bool [worlds], all without it; and
    the options that remain."""
    if options is None or "reset_mask" not in options:
        return np.ones(worlds, np.bool_), options
    mask, rows = options["reset_mask"], worlds * agents
    rest = {key: value for key, value in options.items() if key != "reset_mask"}
    # what Gymnasium says, which its own tests ask for
    if not isinstance(mask, np.ndarray):
        raise ArgumentTypeError(f"`options['reset_mask']` must be a numpy array, got {type(mask)}")
    if mask.shape != (rows,):
        raise ArgumentError(
            f"`options['reset_mask']` must have shape `({rows},)`, got {mask.shape}"
        )
    if mask.dtype != np.bool_:
        raise ArgumentTypeError(
            f"`options['reset_mask']` must have `dtype=np.bool_`, got {mask.dtype}"
        )
    if not mask.any():
        raise ArgumentError(
            "`options['reset_mask']` must contain a boolean array with at least one True value, "
            f"got reset_mask={mask}"
        )
    by_world = mask.reshape(worlds, agents)
    split = by_world.any(axis=1) != by_world.all(axis=1)
    if split.any():
        world = int(split.argmax())
        raise ArgumentError(
            f"options['reset_mask'] splits world {world}: its environments {world * agents} to "
            f"{(world + 1) * agents - 1} reset as one"
        )
    return np.ascontiguousarray(by_world[:, 0]), rest
