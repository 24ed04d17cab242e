"""What a run was made with: weights are promised bit for bit for one build and kind of CPU."""

from __future__ import annotations

import hashlib
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ..engine import _core
from . import _native


def build_table(source_hash: str, isa: str, *, torch: bool) -> dict[str, str]:
    """Names and hashes for the table [build] of a run's config.toml: of the environment's
    source, the kernels' instruction set, and whether torch learns."""
    table = {
        "headrace": _version("headrace"),
        "code": _hash([Path(_core.__file__), Path(_native.__file__)]),
        "environment": source_hash,
        "isa": isa,
        "machine": platform.machine(),
    }
    return {**table, "torch": _version("torch")} if torch else table


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _hash(files: list[Path]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()
