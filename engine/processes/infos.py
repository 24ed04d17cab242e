"""The infos of a batch of Python environments, in Gymnasium's form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector import VectorEnv

from ..infos import map_arrays
from ._board import talking
from .memory import BatchBuffers, Memory

if TYPE_CHECKING:
    from .crew import Crew
    from .local import LocalCrew
    from .share import RowInfo


class BatchInfos:
    """Merges what rows say into one dict, as Gymnasium's vector environments do.

    Each key comes with a mask `_key` of the rows that have it. With SameStep, `final_obs` and
    `final_info` are those of the episodes that ended.
    """

    def __init__(
        self,
        crew: Crew | LocalCrew,
        memory: Memory,
        buffers: BatchBuffers,
        same_step: bool,
        objects: bool,
        present: np.ndarray | None,
    ) -> None:
        """objects: final observations as an array of objects, else as one dense batch;
        present: which rows are there, None where all always are."""
        self._crew = crew
        self._info_bytes = memory.arrays["info_bytes"]
        self._terminated = memory.arrays["terminated"]
        self._truncated = memory.arrays["truncated"]
        self._final = buffers.final_obs
        self._same_step = same_step
        self._objects = objects
        self._agents = len(self._terminated) // len(self._info_bytes)
        self._present = present

    def of_reset(self, told: list[RowInfo], rows: int) -> dict[str, Any]:
        """Infos of a reset, of a batch of `rows` rows."""
        merger = _Merger(rows)
        infos: dict[str, Any] = {}
        for row, info, _ in told:
            infos = merger.add(infos, info, row)
        return self._completed(infos, None)

    def of_step(self, rows: np.ndarray | None, ended: int) -> dict[str, Any]:
        """Infos of a step of `rows` (int64, ascending; None: all), of which `ended` ended."""
        dense = self._same_step and not self._objects
        infos = self._endings(rows) if ended and dense else {}
        worlds = rows
        if rows is not None and self._agents > 1:
            worlds = rows[:: self._agents] // self._agents
        if worlds_with_infos := talking(self._info_bytes, worlds):
            merger = _Merger(len(self._terminated) if rows is None else len(rows))
            for world in worlds_with_infos:
                for row, info, ending in self._crew.infos(world):
                    at = row if rows is None else int(np.searchsorted(rows, row))
                    if ending is not None:
                        infos = self._add_ending(merger, infos, ending, at)
                    infos = merger.add(infos, info, at)
        return self._completed(infos, rows)

    def _endings(self, rows: np.ndarray | None) -> dict[str, Any]:
        """Dense final observations, and who has one."""
        ended = self._terminated | self._truncated
        if rows is not None:
            ended = ended[rows]
        return {
            "final_obs": map_arrays(
                lambda array: array.copy() if rows is None else array[rows], self._final
            ),
            "_final_obs": ended,
            "final_info": {},
            "_final_info": ended.copy(),
        }

    def _add_ending(
        self, merger: _Merger, infos: dict[str, Any], ending: Any, at: int
    ) -> dict[str, Any]:
        final_obs, final_info = ending
        if self._objects:
            return merger.add(infos, {"final_obs": final_obs, "final_info": final_info}, at)
        return merger.add(infos, {"final_info": final_info}, at)

    def _completed(self, infos: dict[str, Any], rows: np.ndarray | None) -> dict[str, Any]:
        if self._present is not None:
            infos["present"] = self._present.copy() if rows is None else self._present[rows]
        return infos


class _Merger(VectorEnv):
    """Gymnasium's own way of merging infos, for a batch of any size."""

    def __init__(self, rows: int) -> None:
        self.num_envs = rows

    def add(self, infos: dict[str, Any], info: dict[str, Any], row: int) -> dict[str, Any]:
        """`infos` with what one row says."""
        return self._add_info(infos, info, row)
