"""From a class, or a file that holds one, to a loaded Library; the cache of machine code."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .. import _core
from ..compile import cache_dir
from ..errors import ArgumentError, CacheError, MissingPackageError
from ..pyfile import module_of
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
    module = module_of(path, sizes)
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
