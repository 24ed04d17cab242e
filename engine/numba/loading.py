"""From a class, or a file that holds one, to a loaded Library; the cache of machine code."""

from __future__ import annotations

import ast
import difflib
import functools
import hashlib
import importlib.util
import inspect
import json
import os
import sys
import tempfile
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .. import _core
from ..compile import cache_dir
from ..errors import (
    ArgumentError,
    ArgumentTypeError,
    CacheError,
    EnvDefinitionError,
    MissingPackageError,
)
from .define import options_of
from .layout import Layout, lay_out


def library_of(cls: type, *, checked: bool = False) -> _core.Library:
    """The environment that `numba_env` made of a class, compiled when it is not cached.

    Raises:
        EnvDefinitionError: the class cannot be used or compiled; the message names the line.
        ArgumentError: numba is not installed, or switched off.
    """
    layout = lay_out(cls)
    _require_numba(layout.name)
    identity, complete = _identity(layout)
    parts = _Parts(layout)
    if checked:
        from .checking import CheckedKernels

        kernels = CheckedKernels(layout)
        parts.kept, addresses = kernels, dict(kernels.addresses)
    else:
        code = _object(layout, identity, complete)
        parts.kept, addresses = _loaded(code, layout)
    if parts.drawing is not None:
        addresses["draw"] = parts.drawing.address
    description = _core.Description(layout.description(identity), addresses, checked)
    if checked:
        parts.kept.report = description.fail
    return _core.Library.from_capsule(description.capsule, parts, layout.where)


def classes_in(path: Path, sizes: Mapping[str, int]) -> dict[str, type]:
    """The environments of a Python file by the names of their classes, in its order.

    sizes: values for module constants in capitals, in place of those in the file.

    Raises:
        EnvDefinitionError: the file cannot be run; ArgumentError: it has no such size.
    """
    module = _module(path.resolve(), tuple(sorted(sizes.items())))
    return {
        name: value
        for name, value in vars(module).items()
        if options_of(value) and value.__module__ == module.__name__
    }


def resized(cls: type, sizes: Mapping[str, int]) -> type:
    """The class as its file would define it with other sizes."""
    if not sizes:
        return cls
    file = inspect.getsourcefile(cls)
    found = classes_in(Path(file), sizes) if file and Path(file).is_file() else {}
    if cls.__qualname__ not in found:
        raise ArgumentError(
            f"class {cls.__name__} is not at the top level of a file, so that its sizes "
            f"({', '.join(sizes)}) cannot be set"
        )
    return found[cls.__qualname__]


# ---- the author's file ------------------------------------------------------------------


def _module(path: Path, sizes: tuple[tuple[str, int], ...]) -> types.ModuleType:
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as fault:
        raise EnvDefinitionError(f"{path} cannot be read: {fault}") from None
    return _executed(path, text, sizes)


@functools.lru_cache(maxsize=64)
def _executed(path: Path, text: str, sizes: tuple[tuple[str, int], ...]) -> types.ModuleType:
    digest = hashlib.sha256(repr((str(path), text, sizes)).encode()).hexdigest()[:12]
    try:
        tree = ast.parse(text, str(path))
    except SyntaxError as fault:
        raise EnvDefinitionError(f"{path}:{fault.lineno}: {fault.msg}") from None
    _set_sizes(tree, path.name, dict(sizes))
    shipped = path.parent == Path(__file__).resolve().parent.parent.parent / "envs"
    module = types.ModuleType(f"headrace_env_{path.stem}_{digest}")
    module.__file__ = str(path)
    if shipped:  # its imports are relative
        module.__package__ = f"{__name__.rsplit('.', 3)[0]}.envs"
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
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise ArgumentTypeError(f"size {name} is {value!r}: give an integer")
        if name not in places:
            close = difflib.get_close_matches(name, places, 1)
            known = f"it has {', '.join(places)}" if places else "it has none"
            raise ArgumentError(
                f"{file} has no compile-time size {name}: "
                + (f"did you mean {close[0]}?" if close else f"{known} (NAME = integer)")
            )
        places[name].value = int(value)


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


# ---- machine code -----------------------------------------------------------------------


class _Parts:
    """What a Library keeps alive: machine code, and the functions that stay in Python."""

    def __init__(self, layout: Layout) -> None:
        from .drawing import Drawing

        self.kept: Any = None
        self.drawing = Drawing(layout) if "draw" in layout.functions else None

    def raise_pending(self) -> None:
        """Raises what `draw` raised."""
        if self.drawing is not None:
            self.drawing.raise_pending()


def _require_numba(name: str) -> None:
    if importlib.util.find_spec("numba") is None:
        raise MissingPackageError(
            f"environment {name!r} is compiled by numba, which is not installed: "
            "run `pip install 'headrace[numba]'`"
        )
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        raise ArgumentError(
            f"environment {name!r} is compiled by numba, which NUMBA_DISABLE_JIT switches off: "
            "unset it (or call the functions of the class from Python)"
        )


def _identity(layout: Layout) -> tuple[str, bool]:
    """(digest of all that defines the environment, whether nothing of it is unknown)."""
    from . import source

    prints = {
        name: source.prepare(function, checked=False).fingerprint()
        for name, function in layout.functions.items()
        if name != "draw"
    }
    told = {**layout.description(""), "state": repr(layout.state), "functions": prints}
    digest = hashlib.sha256(json.dumps(told, sort_keys=True, default=repr).encode()).hexdigest()
    return digest, None not in prints.values()


def _object(layout: Layout, identity: str, complete: bool) -> bytes:
    """The environment's object code, out of the cache where it is there."""
    path = _cache_path(layout, identity)
    kept = path.read_bytes() if complete and path.is_file() else b""
    if kept[:32] == hashlib.sha256(kept[32:]).digest():
        return kept[32:]
    from .build import object_code

    code = object_code(layout, _core.BATCH_OFFSETS)
    if complete:
        try:
            with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as partial:
                partial.write(hashlib.sha256(code).digest() + code)
            Path(partial.name).replace(path)
        except OSError as fault:
            raise CacheError(f"{path} cannot be written: {fault.strerror}") from None
    return code


def _cache_path(layout: Layout, identity: str) -> Path:
    import llvmlite.binding as llvm

    digest = hashlib.sha256(identity.encode())
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    parts = [version("numba"), version("llvmlite"), version("numpy"), sys.version]
    parts += [llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()]
    parts += [repr(_core.BATCH_OFFSETS)]
    digest.update("\0".join(parts).encode())
    return cache_dir() / f"{layout.name}-{digest.hexdigest()[:24]}.o"


def _loaded(code: bytes, layout: Layout) -> tuple[Any, dict[str, int]]:
    """(engine that holds the code, addresses of the kernels by their names in hr_env)."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    names = [name for name in layout.functions if name != "draw"]
    return engine, {name: engine.get_function_address(f"hr_{name}") for name in names}
