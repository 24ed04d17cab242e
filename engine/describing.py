"""What an environment is, without compiling it where that can be avoided."""

from __future__ import annotations

from typing import Any

from .numba.define import options_of
from .registration import registered
from .resolve import resolve
from .spec import EnvSpec


def describe(env: Any) -> EnvSpec:
    """The spec of an environment, named as for `make_vec`.

    A Numba environment is described by its class, and so without numba; all others are loaded.

    Raises:
        HeadraceError: as `make_vec`.
    """
    if options_of(env):
        return _of_class(env)
    known = registered().get(env) if isinstance(env, str) else None
    if known is not None and known.path.suffix == ".py":
        from .numba.loading import classes_in

        found = classes_in(known.path, {})
        if len(found) == 1:
            return _of_class(next(iter(found.values())))
    return resolve(env).spec


def _of_class(cls: type) -> EnvSpec:
    from .numba.layout import lay_out

    return EnvSpec.from_description(lay_out(cls).description(""), "numba")
