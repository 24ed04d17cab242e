"""What the generator makes of 64 random bits: the functions of headrace/random.h, same bits.

Plain Python over float32, compiled by types.py, which also holds the generator itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import maths


def unit(bits: Any) -> Any:
    """Uniform in [0, 1): a multiple of 2^-24."""
    return np.float32(np.int32(bits >> np.uint64(40))) * np.float32(5.9604644775390625e-8)


def uniform(bits: Any, low: Any, high: Any) -> Any:
    """Uniform in [low, high)."""
    low, high = np.float32(low), np.float32(high)
    return low + (high - low) * unit(bits)


def normal(bits: Any) -> Any:
    """Normal with mean 0 and variance 1 (Box and Muller)."""
    half = np.int32((bits & np.uint64(0xFFFFFFFF)) >> np.uint64(1))
    radius = (np.float32(half) + np.float32(1.0)) * np.float32(4.656612873077393e-10)
    turn = np.float32(np.int32(bits >> np.uint64(40))) * np.float32(5.9604644775390625e-8)
    size = maths.sqrt(np.float32(-2.0) * maths.log(radius))
    return size * maths.cos(np.float32(2.0) * maths.PI * turn)


def randint(bits: Any, n: Any) -> Any:
    """Integer in 0 .. n-1."""
    span = np.uint64(np.uint32(n))
    low = ((bits & np.uint64(0xFFFFFFFF)) * span) >> np.uint64(32)
    return np.int32(((bits >> np.uint64(32)) * span + low) >> np.uint64(32))
