"""A decorated class, checked and laid out as the structs of the kernel ABI."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import EnvDefinitionError
from . import source
from .define import ArrayParam, Field, Options, default_name, options_of

OUTCOME = np.dtype(  # hr_outcome
    {
        "names": ["reward", "terminated", "truncated"],
        "formats": [np.float32, np.bool_, np.bool_],
        "offsets": [0, 4, 5],
        "itemsize": 8,
    },
    align=True,
)

# function: its arguments; the first three must be there
FUNCTIONS = {
    "reset": ("p", "s", "rng"),
    "step": ("p", "s", "a", "out", "rng"),
    "observe": ("p", "s", "o"),
    "present": ("p", "s", "there"),
    "mask": ("p", "s", "allowed"),
    "metrics": ("p", "s", "m"),
    "draw": ("p", "s", "frame"),
}
_NEEDED = ("reset", "step", "observe")
# arguments that a function only reads
CONSTANT = {"p", "a"}
CONSTANT_STATE = set(FUNCTIONS) - {"reset", "step"}
RNG_METHODS = (
    "bits", "unit", "uniform", "uniforms", "normal", "randint", "bernoulli", "shuffle",
)  # fmt: skip
INTERPRETED = {"print", "input", "open", "eval", "exec"}


@dataclass(frozen=True)
class Param:
    """One member of Params; an array is a pointer and, at length_offset, its int32 length."""

    name: str
    dtype: str
    offset: int
    length_offset: int  # -1 for a scalar
    default: float  # 0 for an array

    def described(self) -> dict[str, Any]:
        """In the words of `Library.describe`."""
        is_array = self.length_offset >= 0
        return {**vars(self), "is_array": is_array, "default": None if is_array else self.default}


@dataclass(frozen=True)
class Layout:
    """A Numba environment: everything about it but its code."""

    cls: type
    where: str  # "my_env.py:12", for messages
    name: str
    agents: int
    max_steps: int
    state: np.dtype
    obs: np.dtype
    action: np.dtype
    obs_fields: Mapping[str, Field]
    action_fields: Mapping[str, Field]
    params: tuple[Param, ...]
    params_size: int
    metrics: tuple[str, ...]
    functions: Mapping[str, source.Function]  # those that are there

    @property
    def mask_size(self) -> int:
        """Bytes of one row's action mask; 0 without a mask function."""
        if "mask" not in self.functions:
            return 0
        return sum(f.choices * int(np.prod(f.shape)) for f in self.action_fields.values())

    def description(self, source_hash: str) -> dict[str, Any]:
        """In the words of `Library.describe`."""
        return {
            "name": self.name,
            "source_hash": source_hash,
            "agents": self.agents,
            "max_steps": self.max_steps,
            "state_size": self.state.itemsize,
            "params_size": self.params_size,
            "action_size": self.action.itemsize,
            "obs_size": self.obs.itemsize,
            "mask_size": self.mask_size,
            "obs_fields": _described(self.obs_fields, self.obs),
            "action_fields": _described(self.action_fields, self.action),
            "params": [param.described() for param in self.params],
            "metric_names": list(self.metrics),
            "has_present": "present" in self.functions,
            "has_draw": "draw" in self.functions,
            "checked": False,
        }


def lay_out(cls: type) -> Layout:
    """Raises EnvDefinitionError, at the author's line, for a class that cannot be used."""
    options = options_of(cls)
    assert options is not None  # the caller found it by them
    where = source.class_location(cls)

    def fail(message: str) -> EnvDefinitionError:
        return EnvDefinitionError(f"{where}: class {cls.__name__}: {message}")

    members = {name: value for base in reversed(cls.__mro__) for name, value in vars(base).items()}
    for name in ("state", "obs", "action"):
        if name not in members:
            raise fail(f"it has no `{name}`")
    obs, action = (_fields(name, members[name], fail) for name in ("obs", "action"))
    for name, each in action.items():
        if each.kind == "box" and each.dtype != "float32":
            raise fail(f"action {name!r} is {each.dtype}: a continuous action is float32")
    params, params_size = _params(members.get("params", {}), fail)
    layout = Layout(
        cls=cls,
        where=where,
        name=options.name or default_name(cls),
        agents=options.agents,
        max_steps=options.max_steps,
        state=_state(members["state"], fail),
        obs=_struct("obs", obs, fail),
        action=_struct("action", action, fail),
        obs_fields=obs,
        action_fields=action,
        params=params,
        params_size=params_size,
        metrics=options.metrics,
        functions=_functions(cls, members, options, fail),
    )
    _check_members(layout)
    return layout


def _check_members(layout: Layout) -> None:
    """Members and calls that the functions cannot have; Numba's own words would be harder."""
    members = {
        "p": [param.name for param in layout.params],
        "s": list(layout.state.names or ()),
        "a": list(layout.action.names or ()),
        "o": list(layout.obs.names or ()),
        "out": list(OUTCOME.names or ()),
        "m": list(layout.metrics),
        "rng": RNG_METHODS,
    }
    for name, function in layout.functions.items():
        meant = zip(function.arguments, FUNCTIONS[name], strict=True)
        known = {given: members[each] for given, each in meant if each in members}
        source.refuse_unknown_members(function, known)
        if name != "draw":
            source.refuse_calls(function, INTERPRETED)


def _fields(what: str, given: Any, fail: Any) -> dict[str, Field]:
    if not isinstance(given, Mapping) or not given:
        raise fail(f"`{what}` is {given!r}: give a dict of names and headrace.field or discrete")
    for name, each in given.items():
        if not isinstance(each, Field) or not str(name).isidentifier():
            raise fail(f"`{what}` has {name!r}: {each!r}; give headrace.field or headrace.discrete")
    return dict(given)


def _state(given: Any, fail: Any) -> np.dtype:
    try:
        dtype = np.dtype(given)
    except TypeError as fault:
        raise fail(f"`state` is no dtype: {fault}") from None
    if dtype.names is None:
        raise fail(f"`state` is {dtype}: give a structured dtype, np.dtype([(name, type), ...])")
    if dtype.hasobject:
        raise fail("`state` holds Python objects: a state is plain data")
    if dtype.itemsize == 0:
        raise fail("`state` is empty: give it at least one member")
    return _aligned("state", {name: dtype[name] for name in dtype.names}, fail)


def _struct(what: str, fields: Mapping[str, Field], fail: Any) -> np.dtype:
    members = {name: np.dtype((each.dtype, each.shape)) for name, each in fields.items()}
    return _aligned(what, members, fail)


def _aligned(what: str, members: Mapping[str, np.dtype], fail: Any) -> np.dtype:
    """The struct as C lays it out, which must have no gap."""
    if "view" in members:
        raise fail(
            f"`{what}` has a member 'view', a name that Numba keeps for itself: choose another"
        )
    dtype = np.dtype(list(members.items()), align=True)
    end = 0
    for name in members:
        place = dtype.fields[name][1]  # type: ignore[index]
        if place != end:
            raise fail(
                f"`{what}` has {place - end} unused bytes before {name!r}: order the members from "
                "the largest type to the smallest, or fill the gap with a member of your own"
            )
        end += members[name].itemsize
    if dtype.itemsize != end:
        raise fail(
            f"`{what}` has {dtype.itemsize - end} unused bytes at its end: fill them with a member "
            f'of your own, ("unused", np.uint8, {dtype.itemsize - end}), or use smaller types'
        )
    return dtype


def _params(given: Any, fail: Any) -> tuple[tuple[Param, ...], int]:
    """Members in their order, and the struct's size: pointers and 8-byte scalars come first."""
    if not isinstance(given, Mapping):
        raise fail(f"`params` is {given!r}: give a dict of names and defaults")
    kinds = {name: _param_dtype(name, value, fail) for name, value in given.items()}
    at, places, lengths = 0, {}, {}
    arrays = [name for name, value in given.items() if isinstance(value, ArrayParam)]
    wide = [n for n, kind in kinds.items() if n not in arrays and np.dtype(kind).itemsize == 8]
    for name in [*arrays, *wide]:
        places[name], at = at, at + 8
    for name in given:
        if name not in places:
            places[name], at = at, at + 4
    for name in arrays:
        lengths[name], at = at, at + 4
    size = (at + 7) // 8 * 8 if arrays or wide else at
    params = tuple(
        Param(
            name,
            kinds[name],
            places[name],
            lengths.get(name, -1),
            0.0 if name in lengths else float(value),
        )
        for name, value in given.items()
    )
    return params, size


def _param_dtype(name: Any, value: Any, fail: Any) -> str:
    if not str(name).isidentifier() or str(name).isupper():
        raise fail(f"`params` has {name!r}: give a name that is not all capitals")
    if isinstance(value, ArrayParam):
        return value.dtype
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise fail(
            f"parameter {name!r} is {value!r}: give its default, a number, or headrace.array"
        )
    if isinstance(value, np.number):
        kind = np.dtype(type(value)).name
        if kind not in ("float32", "float64", "int32", "int64"):
            raise fail(f"parameter {name!r} is {kind}: it may be float32, float64, int32 or int64")
        return kind
    return "float32" if isinstance(value, float) else "int32"


def _functions(
    cls: type, members: Mapping[str, Any], options: Options, fail: Any
) -> dict[str, source.Function]:
    found: dict[str, source.Function] = {}
    for name, arguments in FUNCTIONS.items():
        value = members.get(name)
        if value is None:
            if name in _NEEDED:
                raise fail(f"it has no function {name}({', '.join(arguments)})")
            continue
        function = source.find(value, f"{cls.__name__}.{name}")
        if function is None:
            raise fail(f"`{name}` is {value!r}: give a function {name}({', '.join(arguments)})")
        if len(function.arguments) != len(arguments):
            raise EnvDefinitionError(
                f"{function.where}: {name} takes ({', '.join(function.arguments)}): "
                f"declare it as {name}({', '.join(arguments)})"
            )
        constant = {
            given
            for given, meant in zip(function.arguments, arguments, strict=True)
            if meant in CONSTANT or (meant == "s" and name in CONSTANT_STATE)
        }
        if name != "draw":
            source.refuse_writes(function, name, constant)
        found[name] = function
    if ("metrics" in found) != bool(options.metrics):
        has, lacks = ("function", "option") if "metrics" in found else ("option", "function")
        raise fail(
            f"it has the {has} `metrics` and not the {lacks}: @numba_env(metrics=(names...)) goes "
            "with metrics(p, s, m)"
        )
    return found


def _described(fields: Mapping[str, Field], struct: np.dtype) -> list[dict[str, Any]]:
    assert struct.fields is not None
    return [
        {"name": name, **vars(each), "offset": struct.fields[name][1]}
        for name, each in fields.items()
    ]
