"""What a policy sees of its environment, kept with the run: environment.json.

With it a policy acts where its environment cannot be made. It is data: spaces, and of a native
environment the layout of its structs. Nothing in it is executed.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ..engine.spec import EnvSpec, FieldSpec
from .codec import Codec

_DTYPES = ("float32", "uint8", "int8", "int16", "int32")  # of native observations


def to_json(codec: Codec) -> str:
    """Everything that `from_json` needs to make the same Codec."""
    spec = codec.spec
    told: dict[str, Any] = {"name": spec.name, "agents": spec.agents}
    if codec.parts is not None:
        told["observation_space"] = _told(spec.single_observation_space)
        told["action_space"] = _told(spec.single_action_space)
    else:
        told |= {
            "language": spec.language,
            "obs_fields": [_field_told(field) for field in spec.obs_fields],
            "obs_size": spec.obs_dtype.itemsize,
            "action_fields": [_field_told(field) for field in spec.action_fields],
            "action_size": spec.action_dtype.itemsize,
            "mask_size": spec.mask_size,
            "has_present": spec.has_present,
        }
    return json.dumps(told, indent=1, allow_nan=False) + "\n"


def from_json(text: str) -> Codec:
    """The codec of the environment that was told of.

    Raises:
        ValueError, KeyError, TypeError, HeadraceError: the text is none of `to_json`.
    """
    told = json.loads(text)
    if "observation_space" in told:
        parts = (_space(told[name]) for name in ("observation_space", "action_space"))
        return Codec.of_spaces(str(told["name"]), *parts, agents=int(told["agents"]))
    fields = {
        name: [_field(field) for field in told[name]] for name in ("obs_fields", "action_fields")
    }
    choices = sum(math.prod(f["shape"]) * f["choices"] for f in fields["action_fields"])
    if told["mask_size"] not in (0, choices):
        raise ValueError(f"mask_size is {told['mask_size']}")
    unknown = {"source_hash": "", "max_steps": 0, "params": [], "metric_names": []}
    sizes = {"state_size": 0, "params_size": 0, "has_draw": False, "checked": False}
    return Codec(
        EnvSpec.from_description({**told, **fields, **unknown, **sizes}, str(told["language"]))
    )


# ---- fields of structs ------------------------------------------------------------------------


def _field_told(field: FieldSpec) -> dict[str, Any]:
    return {**dataclasses.asdict(field), "low": _number(field.low), "high": _number(field.high)}


def _field(told: Mapping[str, Any]) -> dict[str, Any]:
    """A field as FieldSpec takes it. The kernels read memory by it: what is wrong is refused."""
    shape = tuple(int(side) for side in told["shape"])
    kind, dtype, choices = told["kind"], told["dtype"], int(told["choices"])
    if kind not in ("box", "discrete") or dtype not in _DTYPES or min(shape, default=1) < 1:
        raise ValueError(f"field {told['name']!r} is {kind} of {dtype} {list(shape)}")
    if (choices < 1) if kind == "discrete" else (choices != 0):
        raise ValueError(f"field {told['name']!r} has {choices} choices")
    low, high = float(told["low"]), float(told["high"])
    at = {"name": str(told["name"]), "offset": int(told["offset"]), "shape": shape}
    return {**at, "kind": kind, "dtype": dtype, "low": low, "high": high, "choices": choices}


# ---- spaces -----------------------------------------------------------------------------------


def _told(space: spaces.Space) -> dict[str, Any]:
    """A space as JSON has it."""
    if isinstance(space, spaces.Dict):
        return {"Dict": [[name, _told(part)] for name, part in space.spaces.items()]}
    if isinstance(space, spaces.Tuple):
        return {"Tuple": [_told(part) for part in space.spaces]}
    if isinstance(space, spaces.MultiBinary):
        return {"MultiBinary": space.n if isinstance(space.n, int) else list(space.shape)}
    dtype = str(space.dtype)
    if isinstance(space, spaces.Discrete):
        return {"Discrete": int(space.n), "start": int(space.start), "dtype": dtype}
    if isinstance(space, spaces.MultiDiscrete):
        nvec, start = space.nvec.tolist(), space.start.tolist()
        return {"MultiDiscrete": nvec, "start": start, "dtype": dtype}
    assert isinstance(space, spaces.Box)
    bounds = {"low": _array_told(space.low), "high": _array_told(space.high)}
    return {"Box": list(space.shape), **bounds, "dtype": dtype}


def _space(told: Mapping[str, Any]) -> spaces.Space:
    """The inverse of `_told`."""
    if "Dict" in told:  # in this order: of a plain dict it sorts them
        return spaces.Dict(OrderedDict((name, _space(part)) for name, part in told["Dict"]))
    if "Tuple" in told:
        return spaces.Tuple([_space(part) for part in told["Tuple"]])
    if "MultiBinary" in told:
        return spaces.MultiBinary(told["MultiBinary"])
    dtype: Any = np.dtype(told["dtype"]).type
    if "Discrete" in told:
        return spaces.Discrete(told["Discrete"], start=told["start"], dtype=dtype)
    if "MultiDiscrete" in told:
        nvec, start = (np.array(told[name], dtype) for name in ("MultiDiscrete", "start"))
        return spaces.MultiDiscrete(nvec, dtype=dtype, start=start)
    shape = tuple(told["Box"])
    low, high = (_array(told[name], shape, dtype) for name in ("low", "high"))
    return spaces.Box(low, high, shape, dtype)


def _array_told(array: NDArray[Any]) -> Any:
    """One number where all are the same, else all of them."""
    if array.size and (array == array.flat[0]).all():
        return _number(array.flat[0].item())
    return [_number(value) for value in array.ravel().tolist()]


def _array(told: Any, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """The inverse of `_array_told`."""
    values = [_read(value) for value in told] if isinstance(told, list) else _read(told)
    filled: NDArray[Any] = np.array(values, dtype)
    return filled.reshape(shape) if isinstance(told, list) else np.full(shape, filled)


def _number(value: Any) -> Any:
    """A number as JSON has it, which knows no infinity."""
    return str(value) if isinstance(value, float) and math.isinf(value) else value


def _read(told: Any) -> Any:
    return float(told) if isinstance(told, str) else told
