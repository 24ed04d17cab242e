"""Seeds of a batch of worlds: Gymnasium's ways of giving them, as one array."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from .errors import ArgumentError, ArgumentTypeError

SEED_LIMIT = 2**64  # seeds are 0 .. SEED_LIMIT - 1


def parse_seeds(seed: Any, worlds: int) -> tuple[np.ndarray, np.ndarray]:
    """Seeds of the worlds and which worlds were given one: uint64 [worlds], bool [worlds].

    seed: None; an integer s, which gives world w the seed s + w; or a sequence with an
    integer or None for each world.
    """
    seeds = np.zeros(worlds, np.uint64)
    if seed is None:
        return seeds, np.zeros(worlds, np.bool_)
    if not isinstance(seed, str) and isinstance(seed, (Sequence, np.ndarray)):
        if np.ndim(seed) != 1 if isinstance(seed, np.ndarray) else False:
            raise ArgumentError(f"seed has {np.ndim(seed)} dimensions: expected one")
        if len(seed) != worlds:
            raise ArgumentError(
                f"seed has {len(seed)} entries: expected {worlds}, one for each environment"
            )
        given = np.array([entry is not None for entry in seed], np.bool_)
        for world, entry in enumerate(seed):
            if entry is not None:
                seeds[world] = _checked(entry, f"seed[{world}]", 1)
        return seeds, given
    first = _checked(seed, "seed", worlds)
    seeds[:] = np.arange(worlds, dtype=np.uint64) + np.uint64(first)
    return seeds, np.ones(worlds, np.bool_)


def entropy_seeds(worlds: int) -> np.ndarray:
    """Fresh seeds from the operating system: uint64 [worlds]."""
    return np.random.SeedSequence().generate_state(worlds, np.uint64)


def _checked(value: Any, name: str, count: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise ArgumentTypeError(
            f"{name} is {value!r}: expected an integer, None or a list of these"
        ) from None
    if not 0 <= number <= SEED_LIMIT - count:
        raise ArgumentError(f"{name} is {number}: seeds lie between 0 and {SEED_LIMIT - count}")
    return number
