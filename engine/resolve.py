"""From what a user names — a shipped environment, a file — to its loaded library."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _core
from .compile import build, prebuilt
from .errors import ArgumentError, ArgumentTypeError
from .registration import registered
from .spec import EnvSpec

_COMPILED_LATER = {".pyx": "Cython", ".py": "Python"}


@dataclass(frozen=True)
class Resolved:
    """A loaded environment."""

    library: _core.Library
    spec: EnvSpec
    source: Path  # the author's file


def resolve(
    env: Any, *, defines: Mapping[str, int] | None = None, checked: bool = False
) -> Resolved:
    """Finds, compiles when needed, and loads the environment `env`.

    env: a registered name, or the path of a C file; defines: compile-time sizes.

    Raises:
        ArgumentError: an unknown name, no such file, a kind that cannot be used yet.
        CompileError, EnvDefinitionError: the file does not compile or defines no environment.
    """
    defines = dict(defines or {})
    name, source, shipped = _locate(env)
    path = prebuilt(name) if shipped and not defines and not checked else None
    if path is None:
        path = build(source, defines=defines, checked=checked)
    library = _core.Library(str(path), source)
    return Resolved(library, EnvSpec.from_library(library), source)


def _locate(env: Any) -> tuple[str, Path, bool]:
    """(name, source file, whether it is a shipped environment)."""
    if callable(env) or isinstance(env, (list, tuple)):
        raise ArgumentError(
            "env is a Python callable: these need the 'processes' executor, which this version "
            "does not have yet; give a shipped name or a C file"
        )
    if not isinstance(env, (str, os.PathLike)):
        raise ArgumentTypeError(
            f"env is a {type(env).__name__}: expected the name of an environment or a file"
        )
    text = os.fspath(env)
    known = registered()
    if isinstance(env, str) and text in known:
        return text, known[text].path, known[text].shipped
    path = Path(text).expanduser()
    if path.suffix == ".c":
        if not path.is_file():
            raise ArgumentError(f"env {text!r}: there is no such file")
        return path.stem, path.resolve(), False
    raise ArgumentError(_unknown(text, path, list(known)))


def _unknown(text: str, path: Path, names: list[str]) -> str:
    for prefix in ("gymnasium", "pettingzoo"):
        if text.startswith(f"{prefix}:"):
            return (
                f"env {text!r}: environments of {prefix} need the 'processes' executor, which "
                "this version does not have yet; give a shipped name or a C file"
            )
    suffix = Path(text.split(":")[0]).suffix
    if suffix in _COMPILED_LATER:
        return (
            f"env {text!r}: environments in {_COMPILED_LATER[suffix]} cannot be used yet; give a "
            "shipped name or a C file"
        )
    for name in names:
        if text in (f"headrace/{name}", name.lower()) or text.lower() == name:
            return f"env {text!r} is unknown: did you mean {name!r}?"
    close = difflib.get_close_matches(text, names, 1)
    if close:
        return f"env {text!r} is unknown: did you mean {close[0]!r}?"
    if path.exists():
        return f"env {text!r} is not a C file: its name must end in .c"
    shipped = ", ".join(names) or "none"
    return f"env {text!r} is unknown: give a C file or one of the registered names ({shipped})"
