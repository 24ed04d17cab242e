"""A stand-in for a crew of worker processes, without processes."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..asynchronous import as_array
from .description import Description
from .memory import Layout, Memory
from .share import RowInfo, Share
from .sources import Source

if TYPE_CHECKING:
    from ..asynchronous import Numbers


class LocalCrew:
    """Steps the worlds in this process, one after the other: the plain reference.

    It is used as a Crew is; an environment's exceptions come as they are.
    """

    restarted = 0

    def __init__(self, source: Source) -> None:
        """Makes nothing yet."""
        self._source = source
        self._share = Share(0)
        self._todo: list[int] = []
        self._turns: dict[int, int] = {}  # when each world was stepped last
        self._turn = 0
        self._long_infos: dict[int, bytes] = {}

    def probe(self) -> Description:
        """Makes world 0 and describes it."""
        return self._share.make([self._source.of(0)])[0]

    def make(self, worlds: int) -> dict[int, Description]:
        """Makes all other worlds; descriptions of those that differ from the first."""
        self.starts = np.array([0, worlds])
        return self._share.make([self._source.of(w) for w in range(1, worlds)])

    def attach(self, layout: Layout, observation: Any, mode: int, objects: bool) -> Memory:
        """Gives the worlds the batch's memory."""
        block = np.zeros(layout.size + 64, np.uint8)
        start = -block.ctypes.data % 64
        self.memory = Memory(layout, block[start : start + layout.size])
        self._share.attach(self.memory, observation, mode, objects)
        return self.memory

    @property
    def alive(self) -> bool:
        """Its worlds may always be used, whatever they raised."""
        return True

    def pids(self) -> list[int]:
        """There are no processes."""
        return []

    def reset(
        self, worlds: Sequence[int], seeds: Sequence[int | None], options: Any
    ) -> list[RowInfo]:
        """Starts new episodes; the infos that are not empty."""
        return self._share.reset(worlds, seeds, options)

    def call(self, name: str, args: Any, kwargs: Any) -> list[Any]:
        """A method's result, or an attribute's value, for each world."""
        return self._share.call(name, args, kwargs)

    def set(self, name: str, values: Sequence[Any]) -> None:
        """Sets an attribute of each world."""
        self._share.set(name, values)

    def submit(self, worlds: Numbers) -> None:
        """Notes worlds that `wait` is to step: those that have waited longest first."""
        self._todo += sorted(as_array(worlds).tolist(), key=lambda world: self._turns.get(world, 0))

    def wait(self, count: int) -> np.ndarray:
        """Steps the first `count` worlds that were submitted, int64.

        What an environment raises comes as it is; nothing is left to be stepped or told then.
        """
        try:
            todo, self._todo = self._todo[:count], self._todo[count:]
            for world in todo:
                letter = self._share.stepper.step(world)
                if letter is not None:
                    self._long_infos[world] = letter
                self._turn += 1
                self._turns[world] = self._turn
        except BaseException:
            self._todo = []
            self.memory.arrays["info_bytes"][:] = 0
            self._long_infos.clear()
            raise
        return np.array(todo, np.int64)

    def infos(self, world: int) -> list[RowInfo]:
        """What a finished world had to say."""
        length = int(self.memory.arrays["info_bytes"][world])
        self.memory.arrays["info_bytes"][world] = 0
        if length > 0:
            return pickle.loads(self.memory.arrays["infos"][world, :length].data)
        return pickle.loads(self._long_infos.pop(world))

    def close(self) -> None:
        """Closes the worlds."""
        self._share.close()
