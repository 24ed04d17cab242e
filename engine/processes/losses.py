"""How a batch sees that a worker hangs, and says what an environment raised."""

from __future__ import annotations

import pickle
import time
from pathlib import Path
from typing import Any

from ..errors import HeadraceError, WorkerError
from .signatures import STEP


class Watch:
    """How long each worker has been at the same thing, seconds."""

    def __init__(self, workers: int) -> None:
        self._seen: list[tuple[Any, float]] = [(None, 0.0)] * workers

    def stands(self, worker: int, doing: Any) -> float:
        """Seconds since `doing` of the worker last changed."""
        now = time.monotonic()
        if self._seen[worker][0] != doing:
            self._seen[worker] = (doing, now)
        return now - self._seen[worker][1]


def raised_by_worker(k: int, world: int, name: str, kept: bytes | None, text: str) -> WorkerError:
    """The exception that a worker's letter tells of; kept: it, pickled."""
    cause = None if kept is None else pickle.loads(kept)
    return raised_error(f"environment {world} (worker {k})", name, text, cause)


def raised_error(where: str, name: str, text: str, cause: BaseException | None) -> WorkerError:
    """An environment's exception as the batch raises it, with its traceback `text`; one of ours
    says all in its sentence."""
    if _is_old_step(text):
        return WorkerError(f"{where}: its step returned something else: expected {STEP}")
    own = isinstance(cause, HeadraceError)
    error = WorkerError(f"{where}: {cause}" if own else f"{where} raised {name}:\n\n{text}")
    error.__cause__ = cause
    return error


def _is_old_step(text: str) -> bool:
    """Whether a wrapper of Gymnasium's met a step that does not return five values."""
    file, _, rest = text.rpartition('File "')[2].partition('"')
    return "gymnasium" in Path(file).parts and "to unpack (expected 5" in rest
