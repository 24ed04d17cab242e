"""Parameters of a batch: values by name, and the Params structs that the kernels read."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    from .spec import EnvSpec, ParamSpec


class Parameters:
    """The parameters of all worlds.

    A scalar parameter has one value for all worlds, or one per world; an array parameter has
    one array, copied here, that all worlds share.
    """

    def __init__(self, spec: EnvSpec, worlds: int, values: Mapping[str, Any]) -> None:
        self._spec = spec
        self._worlds = worlds
        self._params = {param.name: param for param in spec.params}
        self.names = tuple(self._params)
        self._values: dict[str, np.ndarray] = {
            param.name: np.asarray(param.default, param.dtype)
            for param in spec.params
            if not param.is_array
        }
        self.set(values)

    def set(self, values: Mapping[str, Any]) -> None:
        """Takes new values by name; nothing is changed when one of them is wrong."""
        merged = dict(self._values)
        for name, value in values.items():
            if name not in self._params:
                raise ArgumentError(self._unknown(name))
            merged[name] = self._checked(self._params[name], value)
        missing = [name for name in self.names if name not in merged]
        if missing:
            raise ArgumentError(
                f"parameter {missing[0]!r} of {self._spec.name!r} is an array and has no default: "
                f"give one, {missing[0]}=..."
            )
        self._values = merged

    def values(self) -> dict[str, Any]:
        """By name: a number, or a copy of the array [worlds], or of the array parameter."""
        return {
            name: array.item() if array.ndim == 0 else array.copy()
            for name, array in self._values.items()
        }

    def per_world(self, name: str) -> list[Any]:
        """The parameter's value in each world."""
        array = self._values[name]
        if self._params[name].is_array:
            return [array.copy()] * self._worlds
        return np.broadcast_to(array, (self._worlds,)).tolist()

    def table(self) -> np.ndarray:
        """The Params structs of one or all worlds, uint8 [1 or worlds, sizeof(Params)]; the
        members of array parameters are left for the engine to fill in."""
        scalars = [param for param in self._params.values() if not param.is_array]
        each = any(self._values[param.name].ndim for param in scalars)
        data = np.zeros((self._worlds if each else 1, self._spec.params_size), np.uint8)
        for param in scalars:
            value = self._values[param.name]
            member = data[:, param.offset : param.offset + value.itemsize]
            member.view(value.dtype)[:, 0] = value
        return data

    def arrays(self) -> dict[str, np.ndarray]:
        """The array parameters by name."""
        return {name: self._values[name] for name, p in self._params.items() if p.is_array}

    def dump(self) -> np.ndarray:
        """Scalars of all worlds and a digest of each array, uint8: what `load` takes."""
        parts = []
        for name, param in self._params.items():
            array = self._values[name]
            if param.is_array:
                parts.append(hashlib.blake2b(array.tobytes(), digest_size=16).digest())
            else:
                parts.append(np.broadcast_to(array, (self._worlds,)).tobytes())
        return np.frombuffer(b"".join(parts), np.uint8)

    def load(self, dumped: np.ndarray) -> None:
        """Takes the scalars that `dump` gave, whose arrays must be this object's."""
        data, at = dumped.tobytes(), 0
        merged = dict(self._values)
        for name, param in self._params.items():
            if param.is_array:
                digest = hashlib.blake2b(self._values[name].tobytes(), digest_size=16).digest()
                if data[at : at + 16] != digest:
                    raise ArgumentError(f"snapshot was taken with another array parameter {name!r}")
                at += 16
                continue
            size = self._worlds * np.dtype(param.dtype).itemsize
            column = np.frombuffer(data[at : at + size], param.dtype)
            merged[name] = column[0].copy() if (column == column[0]).all() else column.copy()
            at += size
        self._values = merged

    def _checked(self, param: ParamSpec, value: Any) -> np.ndarray:
        try:
            array = np.asarray(value)
        except ValueError:
            raise ArgumentError(f"parameter {param.name!r} is ragged: give numbers") from None
        if array.dtype.kind not in "biuf":
            raise ArgumentTypeError(f"parameter {param.name!r} is {value!r}: give numbers")
        if param.is_array:
            if array.size > np.iinfo(np.int32).max:
                raise ArgumentError(f"parameter {param.name!r} has {array.size} elements: too many")
        elif array.ndim and array.shape != (self._worlds,):
            raise ArgumentError(
                f"parameter {param.name!r} has shape {array.shape}: give one number, or one per "
                f"world, {(self._worlds,)}"
            )
        with np.errstate(over="ignore", invalid="ignore"):
            converted = np.array(array, dtype=param.dtype, order="C")
        if not param.is_array and np.isnan(converted).any():  # data may have gaps
            where = "" if converted.ndim == 0 else f" in world {np.isnan(converted).argmax()}"
            raise ArgumentError(f"parameter {param.name!r} is nan{where}: give a number")
        if converted.dtype.kind in "iu" and not np.array_equal(converted, array):
            raise ArgumentError(
                f"parameter {param.name!r} is {value!r}: it takes integers of {converted.dtype}"
            )
        if param.is_array:
            return converted.reshape(-1)
        return converted

    def _unknown(self, name: str) -> str:
        close = difflib.get_close_matches(name, self.names, 1)
        if close:
            hint = f"did you mean {close[0]!r}?"
        elif self.names:
            hint = f"it has {', '.join(self.names)}"
        else:
            hint = "it has none"
        return f"{name!r} is no parameter of the environment {self._spec.name!r}: {hint}"
