"""The infos of a batch: what Gymnasium's vector environments say beside the transition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector import AutoresetMode

from .asynchronous import index_of, taken, worlds_of
from .errors import ArgumentError

if TYPE_CHECKING:
    from .asynchronous import Numbers
    from .buffers import Buffers
    from .spec import EnvSpec

FINAL_OBS = ("dense", "object")
_NONE = np.int8(0)


class Infos:
    """Builds the infos of a step or reset.

    action_mask: int8 [rows, sum of choices], where the environment has masks; `_action_mask`
        says which rows may act. present: bool [rows], which agents act at the next step.
    final_obs, final_info: SameStep only, in steps in which an episode ended, with the masks
        `_final_obs` and `_final_info`. `final_obs` is an array of observations (dense), or of
        objects, None where no episode ended (object).
    metrics: {name: float64 [rows], _name: bool [rows]} of the episodes that ended; in SameStep
        inside final_info.
    """

    def __init__(
        self, spec: EnvSpec, buffers: Buffers, mode: AutoresetMode, final_obs: str, copy: bool
    ) -> None:
        if final_obs not in FINAL_OBS:
            raise ArgumentError(f"final_obs is {final_obs!r}: expected 'dense' or 'object'")
        arrays = buffers.arrays
        self._objects = final_obs == "object"
        self._copy = copy
        self._agents = spec.agents
        self._same_step = mode is AutoresetMode.SAME_STEP
        self._terminated = arrays["terminated"]
        self._truncated = arrays["truncated"]
        self._world_over = arrays["world_over"]
        self._pending = arrays["pending"]
        self._final_obs = buffers.final_obs
        self._mask = arrays["mask"].view(np.int8) if spec.mask_size else None
        self._present = arrays["present"] if spec.has_present else None
        self._metric_names = spec.metric_names
        self._metrics = arrays["last_metrics"] if spec.metric_names else None
        self.always = self._mask is not None or self._present is not None

    def build(
        self, ended: int, rows: Numbers | None = None, worlds: np.ndarray | None = None
    ) -> dict[str, Any]:
        """Infos after a step in which `ended` rows ended, of `rows` (ascending, whole worlds;
        None: all); or after a reset (ended 0), with the masks of `worlds` (bool; None:
        all)."""
        infos: dict[str, Any] = {}
        if self._mask is not None:
            shown = ~self._pending if worlds is None else worlds & ~self._pending
            shown = self._of_rows(shown, rows)
            mask = self._taken(self._mask, rows)
            # zeros where nothing is said, as in Gymnasium
            infos["action_mask"] = mask if shown.all() else np.where(shown[:, None], mask, _NONE)
            infos["_action_mask"] = shown
        if self._present is not None:
            infos["present"] = self._taken(self._present, rows)
        if ended:
            self._add_ended(infos, rows)
        return infos

    def _add_ended(self, infos: dict[str, Any], rows: Numbers | None) -> None:
        if not self._same_step and self._metrics is None:
            return
        if rows is None:
            ends = self._terminated | self._truncated
        else:
            index = index_of(rows)
            ends = taken(self._terminated, index, False) | taken(self._truncated, index, False)
        final = infos
        if self._same_step:
            final = {}
            infos["final_obs"] = self._final(ends, rows)
            infos["_final_obs"] = ends
            infos["final_info"] = final
            infos["_final_info"] = ends.copy()
        if self._metrics is not None:
            over = self._of_rows(self._world_over, rows) & ends
            values = self._of_rows(self._metrics, rows)
            metrics: dict[str, np.ndarray] = {}
            for column, name in enumerate(self._metric_names):
                metrics[name] = np.where(over, values[:, column], np.float64(0.0))
                metrics[f"_{name}"] = over.copy()
            final["metrics"] = metrics
            final["_metrics"] = over

    def _final(self, ends: np.ndarray, rows: Numbers | None) -> Any:
        if not self._objects:
            return map_arrays(lambda array: self._taken(array, rows), self._final_obs)
        objects = np.full(len(ends), None, dtype=object)
        for i in np.flatnonzero(ends):
            row = i if rows is None else rows[i]
            objects[i] = map_arrays(lambda array, row=row: array[row].copy(), self._final_obs)
        return objects

    def _taken(self, array: np.ndarray, rows: Numbers | None) -> np.ndarray:
        if rows is not None:
            return taken(array, index_of(rows), self._copy)
        return array.copy() if self._copy else array

    def _of_rows(self, per_world: np.ndarray, rows: Numbers | None) -> np.ndarray:
        """Values of each row's world."""
        if rows is not None:
            per_world = taken(per_world, index_of(worlds_of(rows, self._agents)))
        return per_world if self._agents == 1 else np.repeat(per_world, self._agents, axis=0)


def map_arrays(function: Any, value: Any) -> Any:
    """`function` of an observation array, or of each array of dicts and tuples of them."""
    if isinstance(value, dict):
        return {name: map_arrays(function, part) for name, part in value.items()}
    if isinstance(value, tuple):
        return tuple(map_arrays(function, part) for part in value)
    return function(value)
