"""Checks of the arguments of `make_vec` that are about worker processes."""

from __future__ import annotations

from typing import Any

from ..arguments import parse_count
from ..cpus import available_cpus
from ..errors import ArgumentError

MAX_WORKERS = 1024


def parse_workers(value: Any, caller_share: float) -> int:
    """How many processes; None: one for each CPU of this process, of which the caller uses one
    if it steps worlds itself."""
    if value is None:
        return min(max(1, available_cpus() - (caller_share > 0)), MAX_WORKERS)
    return parse_count("workers", value, most=MAX_WORKERS)


def parse_caller_share(value: Any) -> float:
    """What the caller steps itself, of as many worlds as a worker has: 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise ArgumentError(
            f"caller_share is {value!r}: expected a number from 0, all environments in worker "
            "processes, to 1, as many in the calling process as in each of them"
        )
    return float(value)


def parse_patience(value: Any) -> float | None:
    """Seconds that a step of one world may take; None: any."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise ArgumentError(f"timeout is {value!r}: expected seconds, more than 0, or None")
    return float(value)
