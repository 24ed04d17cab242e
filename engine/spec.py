"""EnvSpec: what a compiled environment says of itself, as Gymnasium spaces and NumPy dtypes.

How fields become a space, for observations and actions alike:

- fields of numbers, all of one dtype: one Box; a single field keeps its shape, several are
  flattened into a vector in declared order (all-scalar fields give (n,));
- one discrete scalar: Discrete; several, or an array of them: MultiDiscrete, likewise;
- anything else: a Dict by field name.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from .errors import EnvDefinitionError

if TYPE_CHECKING:
    from ._core import Library


@dataclass(frozen=True)
class FieldSpec:
    """One member of Obs or Action."""

    name: str
    kind: str  # "box" or "discrete"
    dtype: str  # of the memory
    offset: int  # bytes from the start of the struct
    shape: tuple[int, ...]  # () for a scalar
    low: float  # inclusive bounds of every element (box)
    high: float
    choices: int  # values 0 .. choices-1 (discrete)

    @property
    def size(self) -> int:
        """Elements."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class ParamSpec:
    """One member of Params."""

    name: str
    dtype: str  # of the scalar, or of the array's elements
    default: float | None  # None for an array, which must be given
    is_array: bool
    offset: int  # bytes from the start of the struct: the scalar, or the pointer
    length_offset: int  # bytes: the int32 length of an array; -1 for a scalar


@dataclass(frozen=True)
class EnvSpec:
    """An environment's data and abilities; sizes are of one row (agent) unless said otherwise."""

    name: str
    language: str  # of the source: "c", ...
    source_hash: str  # "" when the build gave none
    agents: int  # rows per world
    max_steps: int  # the environment's own time limit in steps, 0: none
    single_observation_space: spaces.Space
    single_action_space: spaces.Space
    obs_fields: tuple[FieldSpec, ...]
    action_fields: tuple[FieldSpec, ...]
    obs_dtype: np.dtype  # Obs as a structured dtype
    action_dtype: np.dtype  # Action as a structured dtype
    params: tuple[ParamSpec, ...]
    metric_names: tuple[str, ...]
    state_size: int  # bytes of State, one per world
    params_size: int  # bytes of Params
    mask_size: int  # bytes of one row's action mask; 0: no masks
    has_present: bool  # agents come and go
    has_draw: bool
    checked: bool  # HR_CHECK is on

    @classmethod
    def from_library(cls, library: Library, language: str = "c") -> EnvSpec:
        """The spec of a loaded environment.

        Raises:
            EnvDefinitionError: its fields cannot be a space.
        """
        return cls.from_description(library.describe(), language)

    @classmethod
    def from_description(cls, told: Mapping[str, Any], language: str) -> EnvSpec:
        """The same of a description in the words of `Library.describe`."""
        name = told["name"]
        obs_fields = tuple(FieldSpec(**field) for field in told["obs_fields"])
        action_fields = tuple(FieldSpec(**field) for field in told["action_fields"])
        for field in action_fields:
            wanted = "int32" if field.kind == "discrete" else "float32"
            if field.dtype != wanted:
                raise EnvDefinitionError(
                    f"environment {name!r}: action {field.name!r} is {field.dtype}: "
                    f"{field.kind} actions are {wanted}"
                )
        observation_space = _space(name, "Obs", obs_fields, from_memory=True)
        action_space = _space(name, "Action", action_fields, from_memory=False)
        _check_declared(name, "Obs", obs_fields, told["obs_size"])
        _check_declared(name, "Action", action_fields, told["action_size"])
        return cls(
            name=name,
            language=language,
            source_hash=told["source_hash"],
            agents=told["agents"],
            max_steps=told["max_steps"],
            single_observation_space=observation_space,
            single_action_space=action_space,
            obs_fields=obs_fields,
            action_fields=action_fields,
            obs_dtype=_struct(obs_fields, told["obs_size"]),
            action_dtype=_struct(action_fields, told["action_size"]),
            params=tuple(ParamSpec(**param) for param in told["params"]),
            metric_names=tuple(told["metric_names"]),
            state_size=told["state_size"],
            params_size=told["params_size"],
            mask_size=told["mask_size"],
            has_present=told["has_present"],
            has_draw=told["has_draw"],
            checked=told["checked"],
        )

    @property
    def metrics_size(self) -> int:
        """Floats that one episode's metrics take."""
        return len(self.metric_names)

    def view_observations(self, array: np.ndarray) -> Any:
        """A structured array of Obs [rows] as the observation space has it, sharing memory:
        an array [rows, *shape], or a dict of them."""
        return _view(self.single_observation_space, self.obs_fields, array)

    def view_actions(self, array: np.ndarray) -> Any:
        """The same for a structured array of Action; discrete actions are int32."""
        return _view(self.single_action_space, self.action_fields, array)


def _check_declared(env: str, struct: str, fields: Sequence[FieldSpec], size: int) -> None:
    """Raises where bytes of a struct belong to no field: nobody would read or write them."""
    at, before = 0, ""
    for field in sorted(fields, key=lambda field: field.offset):
        if field.offset > at:
            break
        at = max(at, field.offset + field.size * np.dtype(field.dtype).itemsize)
        before = f" (after {field.name!r})"
    else:
        if at == size:
            return
        field = None
    end = size if field is None else field.offset
    raise EnvDefinitionError(
        f"environment {env!r}: bytes {at} to {end - 1} of {struct}{before} are declared by no "
        "field: declare every member of the struct"
    )


def _struct(fields: Sequence[FieldSpec], size: int) -> np.dtype:
    return np.dtype(
        {
            "names": [field.name for field in fields],
            "formats": [(np.dtype(field.dtype), field.shape) for field in fields],
            "offsets": [field.offset for field in fields],
            "itemsize": size,
        }
    )


# ---- spaces --------------------------------------------------------------------------


def _space(
    env: str, struct: str, fields: Sequence[FieldSpec], *, from_memory: bool
) -> spaces.Space:
    """from_memory: discrete values have the dtype of the memory (else Gymnasium's int64)."""
    names = [field.name for field in fields]
    if len(set(names)) < len(names):
        raise EnvDefinitionError(f"environment {env!r}: {struct} declares a field twice")
    if not _is_uniform(fields):
        parts = {f.name: _space(env, struct, [f], from_memory=from_memory) for f in fields}
        return spaces.Dict(OrderedDict(parts))  # in declared order: else it sorts them
    _check_in_order(env, struct, fields)
    shape = fields[0].shape if len(fields) == 1 else (sum(field.size for field in fields),)
    if fields[0].kind == "discrete":
        dtype = np.dtype(fields[0].dtype if from_memory else np.int64)
        choices = np.concatenate([np.full(field.size, field.choices) for field in fields])
        if len(fields) == 1 and shape == ():
            return spaces.Discrete(int(choices[0]), dtype=dtype.type)
        return spaces.MultiDiscrete(choices.reshape(shape), dtype=dtype.type)
    low, high = (
        np.concatenate([_bounds(env, field, bound) for field in fields]).reshape(
            shape if len(fields) > 1 or shape else (1,)
        )
        for bound in ("low", "high")
    )
    return spaces.Box(low, high, dtype=np.dtype(fields[0].dtype).type)


def _is_uniform(fields: Sequence[FieldSpec]) -> bool:
    """Whether the fields make one array."""
    return len({(field.kind, field.dtype) for field in fields}) == 1


def _check_in_order(env: str, struct: str, fields: Sequence[FieldSpec]) -> None:
    """One array can only be a view of the struct when its fields lie side by side."""
    at = fields[0].offset
    for field in fields:
        if field.offset != at:
            raise EnvDefinitionError(
                f"environment {env!r}: {struct} field {field.name!r} is declared out of order: "
                "declare all fields, in the order of the struct"
            )
        at += field.size * np.dtype(field.dtype).itemsize


def _bounds(env: str, field: FieldSpec, bound: str) -> np.ndarray:
    """One of the field's bounds for each element, [size]; infinite where it is unbounded."""
    value, dtype = getattr(field, bound), np.dtype(field.dtype)
    if math.isnan(value) or field.low > field.high:
        raise EnvDefinitionError(
            f"environment {env!r}: field {field.name!r} has bounds {field.low} to {field.high}"
        )
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        value = min(max(value, limits.min), limits.max)
    with np.errstate(over="ignore"):
        return np.full(field.size, value, dtype)


# ---- views ---------------------------------------------------------------------------


def _view(space: spaces.Space, fields: Sequence[FieldSpec], array: np.ndarray) -> Any:
    if isinstance(space, spaces.Dict):
        parts: Mapping[str, spaces.Space] = space.spaces
        return {f.name: _field_view(f, parts[f.name].shape, array) for f in fields}
    return _field_view(fields[0], space.shape, array)


def _field_view(field: FieldSpec, shape: tuple[int, ...] | None, array: np.ndarray) -> np.ndarray:
    """Elements from `field` on in each struct of `array` [rows], as [rows, *shape]."""
    dtype = np.dtype(field.dtype)
    strides: list[int] = []
    stride = dtype.itemsize
    for size in reversed(shape or ()):
        strides.insert(0, stride)
        stride *= size
    data = array.view(np.uint8).reshape(len(array), array.dtype.itemsize)
    view = data[:, field.offset : field.offset + dtype.itemsize].view(dtype)
    return np.lib.stride_tricks.as_strided(
        view, (len(array), *(shape or ())), (array.strides[0], *strides), writeable=True
    )
