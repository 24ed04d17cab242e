"""Seeds of the environments of a run, from the run's one seed.

SplitMix64's finaliser is a bijection of 64 bits that leaves no pattern: neighbouring runs and
neighbouring environments share no stream (Steele, Lea and Flood, "Fast splittable
pseudorandom number generators", 2014).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

TRAINING = 1  # stream of the environments that are learned from
EVALUATION = 2  # stream of the environments of `headrace eval`


def world_seeds(seed: int, worlds: int, stream: int) -> NDArray[np.uint64]:
    """uint64 [worlds]: one seed for each world, a hash of run seed, stream and world."""
    run = _mixed(np.array([seed], np.uint64))
    run = _mixed(run + np.array([stream], np.uint64))
    return _mixed(run + np.arange(worlds, dtype=np.uint64))


def _mixed(value: NDArray[Any]) -> NDArray[Any]:
    """SplitMix64's output for each uint64 state in `value` (arithmetic modulo 2**64)."""
    z = value + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
