"""Modules by name: the files that importing one would execute, found without executing any."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path


def files_of(module: str) -> list[Path] | None:
    """The files that `import module` executes, those of the packages it is in first.

    None where they cannot be told: there is no such module, or it is built in or in an archive, or
    only code that runs can find it.
    """
    names = module.split(".")
    if not all(name.isidentifier() for name in names):
        return None
    files: list[Path] = []
    places: Sequence[str] | None = None
    for at in range(len(names)):
        name = ".".join(names[: at + 1])
        spec = _spec(name, places)
        if spec is None:
            return None
        # A package may look elsewhere once it runs; one that is loaded says where.
        places = getattr(sys.modules.get(name), "__path__", spec.submodule_search_locations)
        places = list(places or ())
        if spec.origin is None and places:  # a folder without __init__.py
            continue
        path = Path(spec.origin or "")
        if not spec.has_location or not path.is_file():
            return None
        files.append(path)
    return files or None


def _spec(name: str, places: Sequence[str] | None) -> ModuleSpec | None:
    """Of a module in the folders of its package; None: of one at the top."""
    try:
        if places is None:
            return importlib.util.find_spec(name)
        # The same without importing the package first.
        specs = (finder.find_spec(name, places) for finder in sys.meta_path)
        return next((spec for spec in specs if spec is not None), None)
    except (AttributeError, ImportError, KeyError, ValueError):
        return None
