"""How much memory this process may still take, and a check before it takes a lot."""

from __future__ import annotations

import os
from pathlib import Path

from .cgroup import memory_left
from .errors import ArgumentError

_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB")


def available_memory(root: Path = Path("/")) -> int | None:
    """Bytes that can be had without swapping; None where the system does not tell.

    root: where "proc" and "sys" lie.
    """
    free = _system_memory(root)
    limited = memory_left(root)
    known = [amount for amount in (free, limited) if amount is not None]
    return min(known, default=None)


def check_memory(size: int, what: str, available: int | None) -> None:
    """Raises ArgumentError, before any memory is touched, when `size` bytes cannot be had.

    what: who needs them, the start of the sentence.
    """
    if available is not None and size > available:
        raise ArgumentError(
            f"{what} would need {show_bytes(size)} of memory, of which {show_bytes(available)} "
            "are available: use fewer environments"
        )


def show_bytes(size: int) -> str:
    """A size for people: "3.5 GB"."""
    amount, unit = float(size), 0
    while amount >= 1000 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1000, unit + 1
    return f"{amount:.0f} {_UNITS[unit]}" if unit == 0 else f"{amount:.1f} {_UNITS[unit]}"


def _system_memory(root: Path) -> int | None:
    try:
        for line in (root / "proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return None
