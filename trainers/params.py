"""The parameters of a run's environment: from the setting `params` to what `make_vec` takes."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..engine.compile import UnknownSizeError
from ..engine.make import make_vec
from ..engine.processes.sources import is_python
from ..engine.resolve import Resolved, resolve, sizes_of
from .settings import NUMBERS, ConfigError, Values, is_array

_TIME_LIMIT = "max_steps"  # which every environment takes


def params_for(env: Any, pairs: Values) -> dict[str, Any]:
    """The parameters and compile-time sizes of `env` by name, arrays read from their files.

    Raises:
        ConfigError: a name that the environment has not got, or a file that holds no array.
    """
    python = is_python(env)
    params = load_params(pairs, plain=not python)
    if not python:
        _refuse_unknown(env, params)
    for name in params.keys() & inspect.signature(make_vec).parameters.keys():
        raise _refused(
            f"{name} is a word of headrace's own, which no parameter can have as its name"
        )
    return params


def load_params(pairs: Values, *, plain: bool = False) -> dict[str, Any]:
    """The parameters by name, arrays read from their files; ConfigError for a file that holds
    none. Files of pickled objects are refused: reading one would run its code.

    plain: booleans and other texts are refused, as native environments take none.
    """
    found: dict[str, Any] = {}
    for name, value in pairs:
        if not is_array(value):
            if plain and isinstance(value, (bool, str)):
                raise ConfigError(f"params must be {NUMBERS}, not {name}={value}")
            found[name] = value
            continue
        try:
            found[name] = np.load(str(value), allow_pickle=False)
        except OSError as error:
            raise _refused(f"{name}={value}: {error.strerror or error}") from error
        except (ValueError, EOFError) as error:
            raise _refused(f"{name}={value} holds no array: {error}") from None
    return found


def _refuse_unknown(env: Any, params: Mapping[str, Any]) -> None:
    """ConfigError unless a native environment has all of the names, and is given what it needs."""
    sizes = {name: value for name, value in params.items() if name.isupper()}
    for name, value in sizes.items():
        if not isinstance(value, int):
            raise _refused(f"{name}={value}: a compile-time size is a whole number")
    try:
        found = resolve(env, defines=sizes)
    except UnknownSizeError as error:
        raise _unknown(error.name, resolve(env)) from None
    limit = params.get(_TIME_LIMIT, 0)
    if not isinstance(limit, int) or limit < 0:
        raise _refused(f"{_TIME_LIMIT}={limit}: a time limit is a whole number of steps; 0: none")
    known = {param.name: param for param in found.spec.params}
    for name in params:
        if name not in known and name not in sizes and name != _TIME_LIMIT:
            raise _unknown(name, found)
    for name, param in known.items():
        if param.is_array and name not in params:
            raise _refused(
                f"{name} of {found.spec.name} is an array and has no default: give one, "
                f"{name}=FILE.npy"
            )


def _unknown(name: str, found: Resolved) -> ConfigError:
    """For a name that is neither a parameter nor a compile-time size."""
    params, sizes = [param.name for param in found.spec.params], list(sizes_of(found.source))
    there = [
        f"its {what} {', '.join(names)}" if names else f"it has no {what.rpartition(' ')[0]}"
        for what, names in (("parameters are", params), ("compile-time sizes are", sizes))
    ]
    everything = [*params, *sizes, _TIME_LIMIT]
    near = difflib.get_close_matches(name, everything, n=1) or [
        each for each in everything if each.lower() == name.lower()
    ]
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return _refused(f"{found.spec.name} has no {name}: {'; '.join(there)}{hint}")


def _refused(what: str) -> ConfigError:
    return ConfigError(f"params: {what}")
