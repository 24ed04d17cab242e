"""From what a user names — a shipped environment, a file — to its loaded library."""

from __future__ import annotations

import difflib
import inspect
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _core
from .compile import build, prebuilt
from .errors import ArgumentError, ArgumentTypeError, EnvDefinitionError, kind_of
from .numba.define import options_of
from .pyfile import module_of, split_class
from .registration import registered
from .spec import EnvSpec

_IN_PYTHON = (
    "env {!r} is written in Python, and this needs a native environment: give a shipped name or a "
    "source file"
)


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

    env: a registered name, the path of a C or Cython file, of a Python file that holds one Numba
        environment or with the name of one (my_env.py:Snake), or a Numba environment's class;
    defines: compile-time sizes.

    Raises:
        ArgumentError: an unknown name, no such file, a kind that cannot be used yet.
        CompileError, EnvDefinitionError: the file does not compile or defines no environment.
    """
    defines = dict(defines or {})
    if options_of(env):
        return _numba(env, defines, checked)
    name, source, shipped = _locate(env)
    if source.suffix == ".py":
        return _numba(_class_in(source, name, defines), {}, checked)
    path = prebuilt(name) if shipped and not defines and not checked else None
    if path is None:
        path = build(source, defines=defines, checked=checked)
    library = _core.Library(str(path), source)
    language = "cython" if source.suffix == ".pyx" else "c"
    return Resolved(library, EnvSpec.from_library(library, language), source)


def sizes_of(source: Path) -> dict[str, str]:
    """Compile-time sizes that can be set, with their values as the source has them."""
    text = source.read_text(errors="replace")
    if source.suffix == ".py":
        return dict(re.findall(r"^([A-Z][A-Z0-9_]*) *(?::[^=\n]*)?= *(\d+)\b", text, re.M))
    pattern = r"#[ \t]*ifndef[ \t]+([A-Z]\w*)\s*#[ \t]*define[ \t]+\1[ \t]+(\S+)"
    return dict(re.findall(pattern, text))


def _numba(cls: type, defines: Mapping[str, int], checked: bool) -> Resolved:
    from .numba.loading import library_of, resized

    library = library_of(resized(cls, defines), checked=checked)
    source = Path(inspect.getsourcefile(cls) or "")
    return Resolved(library, EnvSpec.from_library(library, "numba"), source)


def _class_in(source: Path, name: str, defines: Mapping[str, int]) -> type:
    """The Numba environment `name` ("": the only one) of a Python file."""
    from .numba.loading import classes_in

    found = classes_in(source, defines)
    if name not in found and callable(getattr(module_of(source, defines), name, None)):
        raise ArgumentError(_IN_PYTHON.format(f"{source.name}:{name}"))
    if name in found or (not name and len(found) == 1):
        return found[name or next(iter(found))]
    if not found:
        raise EnvDefinitionError(
            f"{source} defines no environment: put @headrace.numba_env in front of a class, or "
            "derive one from gymnasium.Env"
        )
    if not name:
        raise ArgumentError(
            f"{source.name} defines {len(found)} environments ({', '.join(found)}): say which one, "
            f"{source.name}:{next(iter(found))}"
        )
    raise ArgumentError(f"{source.name} has no environment {name}: it has {', '.join(found)}")


def _locate(env: Any) -> tuple[str, Path, bool]:
    """(name, source file, whether it is a shipped environment); the name of a class in Python."""
    if callable(env) or isinstance(env, (list, tuple)):
        raise ArgumentError(
            "env is a Python callable, and this needs a native environment: give a shipped name or "
            "a source file"
        )
    if not isinstance(env, (str, os.PathLike)):
        raise ArgumentTypeError(
            f"env is {kind_of(env)}: expected the name of an environment or a file"
        )
    text = os.fspath(env)
    known = registered()
    if isinstance(env, str) and text in known:
        path = known[text].path
        return "" if path.suffix == ".py" else text, path, known[text].shipped
    file, name = split_class(text)
    path = Path(file).expanduser()
    if path.suffix in (".c", ".pyx", ".py"):
        if not path.is_file():
            raise ArgumentError(f"env {text!r}: there is no such file")
        return name if path.suffix == ".py" else path.stem, path.resolve(), False
    raise ArgumentError(_unknown(text, path, list(known)))


def _unknown(text: str, path: Path, names: list[str]) -> str:
    for prefix in ("gymnasium", "pettingzoo"):
        if text.startswith(f"{prefix}:"):
            return _IN_PYTHON.format(text)
    plain = {name.replace("_", "").lower(): name for name in names}
    word = re.sub(r"-v\d+$", "", text.removeprefix("headrace/")).replace("_", "").lower()
    close = difflib.get_close_matches(word, plain, 1)
    if close:
        return f"env {text!r} is unknown: did you mean {plain[close[0]]!r}?"
    if path.exists():
        return f"env {text!r} is no source file: its name must end in .c, .pyx or .py"
    shipped = ", ".join(names) or "none"
    return f"env {text!r} is unknown: give a source file or one of the registered names ({shipped})"
