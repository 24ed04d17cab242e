"""Names of environments: which file a name stands for, here and in Gymnasium's registry."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import gymnasium

from .errors import ArgumentError


@dataclass(frozen=True)
class Registration:
    """What a registered name stands for."""

    name: str
    path: Path
    shipped: bool  # part of the package: a prebuilt library may be there
    gymnasium_id: str | None


_registry: dict[str, Registration] = {}


def register(
    name: str,
    path: str | Path,
    *,
    gymnasium_id: str | None = None,
    max_episode_steps: int | None = None,
    shipped: bool = False,
) -> None:
    """Makes `name` stand for the environment in the file `path`, from now on in this process.

    Args:
        name: what `make_vec`, `train` and the command line will accept. A name that is taken
            is replaced, unless it is a shipped environment's.
        path: the environment's source file; must exist.
        gymnasium_id: also register with Gymnasium under this id ("mine/Snake-v0").
        max_episode_steps: time limit in steps that Gymnasium is told; None for none. It
            should be the environment's own `max_steps`.
        shipped: for the package's own environments.

    Raises:
        ArgumentError: an empty name or one with a path separator, a shipped name, no such file.
    """
    source = Path(path)
    if not name or set(name) & set("/\\:."):
        raise ArgumentError(
            f"name {name!r} cannot be registered: choose one without '/', '\\', ':' and '.'"
        )
    known = _registry.get(name)
    if known is not None and known.shipped and not shipped:
        raise ArgumentError(f"name {name!r} is a shipped environment's: choose another")
    if not source.is_file():
        raise ArgumentError(f"path {str(path)!r} of environment {name!r} is not a file")
    _registry[name] = Registration(name, source.resolve(), shipped, gymnasium_id)
    if gymnasium_id is not None:
        # by its file, since a worker process of Gymnasium knows shipped names only
        _register_with_gymnasium(
            gymnasium_id, name if shipped else str(source.resolve()), max_episode_steps
        )


def registered() -> dict[str, Registration]:
    """All registered environments by name, in order of registration."""
    return dict(_registry)


def _register_with_gymnasium(gymnasium_id: str, env: str, limit: int | None) -> None:
    # Gymnasium applies the time limit itself (TimeLimit around a single environment,
    # max_episode_steps to a vector one), so the engine's own is off: max_steps=0. A single
    # environment is told it nevertheless, to tell its metrics where the wrapper cuts.
    gymnasium.registry.pop(gymnasium_id, None)
    gymnasium.register(
        gymnasium_id,
        entry_point="headrace.engine.single:SingleEnv",
        vector_entry_point="headrace.engine.make:make_gymnasium_vec",
        max_episode_steps=limit,
        kwargs={"env": env, "max_steps": 0, "time_limit": limit or 0},
    )
