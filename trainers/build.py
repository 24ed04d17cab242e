"""What a run was made with: weights are promised bit for bit for one build and kind of CPU."""

from __future__ import annotations

import hashlib
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ..engine import _core
from ..engine.vector import VecEnv
from . import _native
from .policy import PolicySpec


def build_table(vec: VecEnv, policy: PolicySpec) -> dict[str, str]:
    """Names and hashes for the table [build] of a run's config.toml."""
    return {
        "headrace": _version(),
        "code": _hash([Path(_core.__file__), Path(_native.__file__)]),
        "environment": vec.spec_.source_hash,
        "isa": policy.net.isa,
        "machine": platform.machine(),
    }


def _version() -> str:
    try:
        return version("headrace")
    except PackageNotFoundError:
        return "unknown"


def _hash(files: list[Path]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()
