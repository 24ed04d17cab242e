"""Python files of a user's: run as modules, with the constants that they are to have."""

from __future__ import annotations

import ast
import functools
import hashlib
import operator
import sys
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .compile import unknown_size
from .errors import ArgumentTypeError, EnvDefinitionError


def split_class(text: str) -> tuple[str, str]:
    """File and class of "my_env.py:Snake"; no class ("") for anything else."""
    file, colon, name = text.rpartition(":")
    return (file, name) if colon and file.endswith(".py") else (text, "")


def module_of(
    path: Path, sizes: Mapping[str, int] | None = None, *, anew: bool = False
) -> types.ModuleType:
    """The module that a Python file makes; the same for the same text.

    sizes: values for module constants in capitals, in place of those in the file; anew: run the
        file though it has been, so that nothing it makes is shared.

    Raises:
        EnvDefinitionError: the file cannot be run; ArgumentError: it has no such size, or one
            that is no integer.
    """
    path = path.resolve()
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as fault:
        raise EnvDefinitionError(f"{path} cannot be read: {fault}") from None
    # Whole numbers only: as keys of a cache, 1, 1.0 and True are the same.
    whole = {name: _whole(name, value) for name, value in (sizes or {}).items()}
    execute = _executed.__wrapped__ if anew else _executed
    return execute(path, text, tuple(sorted(whole.items())))


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ArgumentTypeError(f"size {name} is {value!r}: give an integer")
    return operator.index(value)


@functools.lru_cache(maxsize=64)
def _executed(path: Path, text: str, sizes: tuple[tuple[str, int], ...]) -> types.ModuleType:
    digest = hashlib.sha256(repr((str(path), text, sizes)).encode()).hexdigest()[:12]
    try:
        tree = ast.parse(text, str(path))
    except SyntaxError as fault:
        raise EnvDefinitionError(f"{path}:{fault.lineno}: {fault.msg}") from None
    _set_sizes(tree, path.name, dict(sizes))
    shipped = path.parent == Path(__file__).resolve().parent.parent / "envs"
    module = types.ModuleType(f"headrace_file_{path.stem}_{digest}")
    module.__file__ = str(path)
    if shipped:  # its imports are relative
        module.__package__ = f"{__name__.rsplit('.', 2)[0]}.envs"
    sys.modules[module.__name__] = module
    try:
        with _importing_from(path.parent):
            exec(compile(tree, str(path), "exec"), vars(module))
    except Exception as fault:
        del sys.modules[module.__name__]
        raise EnvDefinitionError(f"{_line_in(path, fault)}: {_said(fault)}") from fault
    return module


def _set_sizes(tree: ast.Module, file: str, sizes: dict[str, int]) -> None:
    """Puts other values into the file's `SIZE = 11`."""
    places = {}
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if (
            isinstance(node, (ast.Assign, ast.AnnAssign))
            and isinstance(target, ast.Name)
            and target.id.isupper()
            and isinstance(node.value, ast.Constant)
            and type(node.value.value) is int
        ):
            places[target.id] = node.value
    for name, value in sizes.items():
        if name not in places:
            raise unknown_size(file, name, places, "NAME = integer")
        places[name].value = value


@contextmanager
def _importing_from(folder: Path) -> Iterator[None]:
    """Modules beside the author's file can be imported while it is run."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def _line_in(path: Path, fault: BaseException) -> str:
    trace, line = fault.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return str(path) if line is None else f"{path}:{line}"


def _said(fault: BaseException) -> str:
    if isinstance(fault, ModuleNotFoundError):
        return f"it needs the module {fault.name!r}, which is not installed"
    return str(fault) if isinstance(fault, ValueError) else f"{type(fault).__name__}: {fault}"
