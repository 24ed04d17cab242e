"""What an exported policy takes and gives: arrays as the environment itself has them.

A port is one array of an observation or an action. Its pieces say how its elements become
features of the encoded observation, or which heads of the policy they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gymnasium import spaces

from ...engine.spec import FieldSpec
from ..codec import Codec
from ..encoding import Divisors
from ..spaces import SpaceCodec


@dataclass(frozen=True)
class Piece:
    """Neighbouring elements of a port that are treated alike."""

    size: int  # elements
    choices: int  # values start .. start + choices - 1; 0: numbers
    start: tuple[int, ...]  # of discrete elements: the first value of each, [size]
    divisor: float  # of the numbers of an observation
    low: float  # bounds of actions that are numbers
    high: float

    @property
    def features(self) -> int:
        """Entries of the encoded observation, or outputs of the policy."""
        return self.size * max(1, self.choices)


@dataclass(frozen=True)
class Port:
    """One array. Its pieces cover its elements in order."""

    name: str  # of the field; "" where the space is this one array
    dtype: str  # NumPy's name
    shape: tuple[int, ...]
    pieces: tuple[Piece, ...]

    @property
    def size(self) -> int:
        """Elements."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Ports:
    """Observation and action, each its arrays in order: of the encoded observation, of heads."""

    observation: tuple[Port, ...]
    action: tuple[Port, ...]


def ports_of(codec: Codec, divisors: Divisors, *, members: bool = False) -> Ports:
    """The arrays of an environment's spaces, in order.

    divisors: of the policy: of the members of the observation, see encoding.py.
    members: the fields of a native environment's structs each for itself, even where its space
        holds them in one array.
    """
    ones = (1.0,) * len(codec.spec.action_fields)
    if codec.parts is not None:
        found = [_leaves(*each) for each in zip(codec.parts, (divisors, ones), strict=True)]
    else:
        found = [_fields(codec.spec.obs_fields, divisors), _fields(codec.spec.action_fields, ones)]
    if members:
        return Ports(*found)
    owners = (codec.spec.single_observation_space, codec.spec.single_action_space)
    native = codec.parts is None
    return Ports(*(_as_in(space, own, native) for space, own in zip(owners, found, strict=True)))


def _fields(fields: Sequence[FieldSpec], divisors: Divisors) -> tuple[Port, ...]:
    return tuple(
        Port(field.name, field.dtype, field.shape, (_piece(field, (0,) * field.size, divisor),))
        for field, divisor in zip(fields, divisors, strict=True)
    )


def _leaves(codec: SpaceCodec, divisors: Divisors) -> tuple[Port, ...]:
    found, left = [], iter(divisors)
    for name, leaf, fields in codec.leaf_fields():
        pieces = tuple(_piece(field, start, next(left)) for field, start in fields)
        found.append(Port(name, str(leaf.dtype), leaf.shape, pieces))
    return tuple(found)


def _piece(field: FieldSpec, start: tuple[int, ...], divisor: float) -> Piece:
    choices = field.choices if field.kind == "discrete" else 0
    return Piece(field.size, choices, start, divisor, field.low, field.high)


def _as_in(space: spaces.Space, ports: tuple[Port, ...], native: bool) -> tuple[Port, ...]:
    """Ports as the space has them: all in one array, or a Dict's or Tuple's members."""
    if isinstance(space, spaces.Dict) and native:
        return tuple(replace(p, shape=_shape(space.spaces[p.name])) for p in ports)
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        return ports
    pieces = tuple(piece for port in ports for piece in port.pieces)
    return (replace(ports[0], name="", shape=_shape(space), pieces=pieces),)


def _shape(space: spaces.Space) -> tuple[int, ...]:
    assert space.shape is not None
    return tuple(space.shape)
