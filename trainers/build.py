"""What a run was made with: weights are promised bit for bit for one build and kind of CPU, and a
run goes on only in the environment that it began in."""

from __future__ import annotations

import hashlib
import platform
import warnings
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..engine import _core
from ..engine.compile import source_hash
from ..engine.vector import VecEnv
from . import _native
from .config import TrainConfig
from .settings import ConfigError


class RunWarning(UserWarning):
    """Something that was made for a run has changed since."""


def hash_of(vec: Any) -> str:
    """Of the source of an environment; "" of one in Python."""
    return vec.spec_.source_hash if isinstance(vec, VecEnv) else ""


def hash_of_file(config: TrainConfig) -> str:
    """The same before anything of it is executed; "" where that cannot be known."""
    file = Path(config.env)
    if file.suffix not in (".c", ".pyx") or not file.is_file():
        return ""
    sizes = {name: int(value) for name, value in config.params if name.isupper()}
    return source_hash(file, sizes)


def refuse_other_source(config: TrainConfig, before: Mapping[str, str], now: str) -> None:
    """ConfigError where a run cannot be resumed since its environment's source is another one."""
    if _differ(before, now):
        raise ConfigError(
            f"the source of {config.env} (or of a header of headrace) has changed since, and the "
            "run cannot be resumed: train a new one, or restore the file as it was"
        )


def warn_of_other_source(config: TrainConfig, before: Mapping[str, str], now: str) -> None:
    """A RunWarning where an agent plays in something else than what it was trained in."""
    if _differ(before, now):
        warnings.warn(
            f"the source of {config.env} (or of a header of headrace) has changed since the run "
            "was trained: this is the agent in the environment as it is now",
            RunWarning,
            stacklevel=4,
        )


def _differ(before: Mapping[str, str], now: str) -> bool:
    return bool(now and before.get("environment")) and before["environment"] != now


def build_table(environment: str, isa: str, *, torch: bool) -> dict[str, str]:
    """Names and hashes for the table [build] of a run's config.toml: of the environment's
    source, the kernels' instruction set, and whether torch learns."""
    table = {
        "headrace": _version("headrace"),
        "code": _hash([Path(_core.__file__), Path(_native.__file__)]),
        "environment": environment,
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
