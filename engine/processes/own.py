"""The share of the worlds that the batch's own process steps, beside its worker processes."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import WorkerError
from ._board import Desk, Front
from .losses import raised_error
from .memory import Memory
from .share import Share

LEAST, MOST = 0.75, 1.25  # of its part of a batch


class OwnShare:
    """Worlds [first, end) of a batch: those of one more worker, which is no process.

    It has a desk on the board as every worker has, so that its worlds are handed out and come
    back in order with the others. What a world raises comes as a WorkerError.
    """

    def __init__(self, first: int, end: int, long_infos: dict[int, list[bytes]]) -> None:
        """long_infos: by world, what its steps had to say at length; filled here."""
        self._share = Share(first)
        self._worlds, self._of = end - first, end
        self._long_infos = long_infos
        self._least = self._most = 0.0  # steps that are owed, and allowed
        self._acts: dict[str, Callable[..., Any]] = {
            "make": self._share.make,
            "reset": self._share.reset,
            "call": self._share.call,
            "set": self._share.set,
        }

    def attach(
        self, front: Front, starts: np.ndarray, memory: Memory, observation: Any, mode: int,
        objects: bool,
    ) -> None:  # fmt: skip
        """Gives it the batch's board, whose last desk is its own, and memory."""
        self._front, self._number, self._memory = front, len(starts) - 2, memory
        self._share.attach(memory, observation, mode, objects)
        self._desk = Desk(memory.arrays["board"], starts, self._number)

    def answer(self, name: str, *rest: Any) -> Any:
        """What a worker would answer to such a letter."""
        try:
            return self._acts[name](*rest)
        except Exception as error:
            raise self._raised(error, self._share.working_on) from error

    def step(self, count: int) -> None:
        """Steps worlds that were posted, for a batch of `count` that is being waited for.

        At least LEAST of its part of the batch, so that none of its worlds starves beside quick
        workers; at most MOST, so that it waits for slow ones rather than let theirs starve. In
        between, whoever is quicker steps more.
        """
        part = count * self._worlds / self._of
        self._least += LEAST * part
        self._most = min(self._most + MOST * part, self._worlds + MOST * part)
        stepper = self._share.stepper
        least, most = int(self._least), int(self._most)
        try:
            done = self._desk.work_beside(self._front, stepper, self._keep, count, least, most)
            self._least -= least
            self._most = max(0.0, self._most - done)
        except Exception as error:
            raise self._raised(error, stepper.working_on) from error
        except BaseException:  # an interrupt: a world may be half stepped
            world, _ = self._front.doing(self._number)
            if world >= 0:
                self._memory.arrays["lost"][world] = True  # its episode is cut at its next step
                self._memory.arrays["info_bytes"][world] = 0
                self._long_infos.pop(world, None)
                self._front.post(np.array([world]))
            raise

    def close(self) -> None:
        """Closes the worlds."""
        self._share.close()

    def _keep(self, world: int, letter: bytes) -> None:
        self._long_infos.setdefault(world, []).append(letter)

    def _raised(self, error: Exception, world: int) -> WorkerError:
        where = f"environment {world} (in the calling process)"
        text = "".join(traceback.format_exception(error))
        return raised_error(where, type(error).__name__, text, error)


def worlds_of_caller(share: float, worlds: int, workers: int) -> int:
    """How many of the worlds the batch's own process steps, beside so many workers."""
    return max(1, round(worlds * share / (workers + share))) if share > 0 else 0
