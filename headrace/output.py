"""What the verbs print: one JSON document, or a table for people."""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

_stdout: TextIO | None = None  # the real one, while the document alone may go there


@contextlib.contextmanager
def document_alone() -> Iterator[None]:
    """Meanwhile what anybody prints on stdout goes to stderr, but for `print_json`: what an
    environment prints, in Python or in C, here or in the processes that are started."""
    global _stdout
    printed, sys.stdout = sys.stdout, sys.stderr
    printed.flush()
    kept = os.dup(1)
    try:
        own = printed.fileno() == 1
    except (io.UnsupportedOperation, AttributeError):  # replaced by an object of Python's
        own = False
    _stdout = os.fdopen(os.dup(1), "w", encoding="utf-8") if own else printed
    try:
        os.dup2(2, 1)
        yield
    finally:
        sys.stdout = printed
        with contextlib.suppress(OSError):
            printed.flush()
        ctypes.CDLL(None).fflush(None)  # what C code has printed
        os.dup2(kept, 1)
        os.close(kept)
        if own:
            with contextlib.suppress(OSError):  # whoever read it went away
                _stdout.close()
        _stdout = None


def print_json(document: Any) -> None:
    """Exactly one JSON document on stdout; ValueError rather than a NaN in it."""
    stream = _stdout or sys.stdout
    stream.write(json.dumps(document, indent=2, allow_nan=False) + "\n")
    stream.flush()


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A plain table on stdout, columns as wide as their widest cell."""
    lines = [header, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip())
