"""Numbers of an observation as policies read them: integers are divided by the greatest that they
can be, so that a grid of 0 and 1 and a picture of 0 to 255 alike go from 0 to 1.

A policy keeps its divisors with its weights wherever they are not the plain ones, by which every
policy was trained before: so each goes on to read what it has learned from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine.errors import ArgumentError
from ..engine.spec import EnvSpec, FieldSpec

GREATEST = 65535.0  # bounds beyond are mere limits, far from the numbers that are seen
TENSOR = "obs.divisor"  # float32 [members of the observation], beside the weights

Divisors = tuple[float, ...]  # of each member of the observation, in declared order


class TensorError(ArgumentError):
    """Tensors of another policy."""


def divisors_of(spec: EnvSpec) -> Divisors:
    """By what the members of the environment's observation are divided: integers that are no
    choices by the larger of their bounds' magnitudes, where it is at most GREATEST; all other
    numbers by 1."""
    return tuple(map(_divisor, spec.obs_fields))


def plain_divisors(spec: EnvSpec) -> Divisors:
    """Those of weights that have none with them: 255 for uint8, 1 for all others."""
    return tuple(255.0 if _is_integer(f) and f.dtype == "uint8" else 1.0 for f in spec.obs_fields)


def with_divisors(named: dict[str, Any], spec: EnvSpec, divisors: Divisors) -> dict[str, Any]:
    """Adds what `saved_divisors` reads to a policy's tensors by name; returns them."""
    if divisors != plain_divisors(spec):
        named[TENSOR] = np.array(divisors, np.float32)
    return named


def saved_divisors(tensors: Mapping[str, NDArray[Any]], spec: EnvSpec) -> Divisors:
    """Those that the weights were trained with.

    Raises:
        TensorError: they are of another observation.
    """
    found = tensors.get(TENSOR)
    if found is None:
        return plain_divisors(spec)
    if found.size != len(spec.obs_fields):
        raise TensorError(
            f"tensor {TENSOR!r} is {list(found.shape)}: expected [{len(spec.obs_fields)}], a "
            "number for each member of the observation"
        )
    return tuple(found.astype(float).ravel().tolist())


def _divisor(field: FieldSpec) -> float:
    if not _is_integer(field):
        return 1.0
    bound = float(max(abs(field.low), abs(field.high)))
    if math.isinf(bound) and field.dtype == "uint8":
        return 255.0
    return bound if 0.0 < bound <= GREATEST else 1.0


def _is_integer(field: FieldSpec) -> bool:
    return field.kind == "box" and field.dtype != "float32"
