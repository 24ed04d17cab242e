"""What the verbs print: one JSON document, or a table for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any


def print_json(document: Any) -> None:
    """Exactly one JSON document on stdout; ValueError rather than a NaN in it."""
    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")
    sys.stdout.flush()


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A plain table on stdout, columns as wide as their widest cell."""
    lines = [header, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip())
