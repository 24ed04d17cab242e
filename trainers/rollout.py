"""Rollouts: what a collector writes and a learner reads; and what goes wrong in them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine.errors import HeadraceError
from ..engine.spec import EnvSpec
from ._native import TILE, Net, Rollout, aligned

__all__ = ["TILE", "MaskError", "NonFiniteError", "Rollout", "SteppedRollout", "Stopped"]


class Stopped(Exception):
    """A StopFlag was raised: what was being collected or learned is void."""


class MaskError(HeadraceError, ValueError):
    """An action mask allows nothing to an agent that is to act; `row` and `step` say where (None:
    nobody counts steps)."""

    def __init__(self, env: str, row: int, step: int | None) -> None:
        at = "" if step is None else f" at step {step}"
        super().__init__(
            f"environment {env!r}: the action mask of row {row} allows no action{at}; "
            "allow one, or let the agent be absent"
        )
        self.row, self.step = row, step


def check_masks(
    spec: EnvSpec, mask: NDArray[Any], there: NDArray[np.bool_], step: int | None
) -> None:
    """Raises MaskError for the first agent that is to act and whose mask allows nothing.

    mask: [rows, mask_size]; there: which agents act, bool, one or [rows]; step: for the message.
    """
    open_: NDArray[np.bool_] = np.ones(len(mask), np.bool_)
    at = 0
    for field in spec.action_fields:
        if field.kind == "discrete":
            end = at + field.size * field.choices
            own = mask[:, at:end].reshape(len(mask), field.size, field.choices)
            open_ &= np.all(np.any(own, axis=2), axis=1)
            at = end
    shut = np.flatnonzero(~open_ & there)
    if len(shut):
        raise MaskError(spec.name, int(shut[0]), step)


class NonFiniteError(HeadraceError, ArithmeticError):
    """A NaN or an infinity where training met it; nothing was learned from it.

    Attributes:
        kind: "observation", "reward", "loss" or "gradient".
        value: the number.
        row, step: where an observation or reward came from; step counts from the run's start.
        name: of the observation's field, or of the parameter.
        update: version of the weights that were being updated (loss, gradient).
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str,
        value: float,
        row: int | None = None,
        step: int | None = None,
        name: str | None = None,
        update: int | None = None,
    ) -> None:
        super().__init__(message)
        self.kind, self.value, self.row, self.step = kind, value, row, step
        self.name, self.update = name, update


# What overflows, by what `Rollout.overflows` says; and what has to be scaled down.
_OVERFLOWS = {
    "observation": ("the squares of observations", "observation"),
    "reward": ("the discounted returns", "reward"),
    "return": ("the returns", "reward"),
}


def check_sums(rollout: Rollout, update: int) -> None:
    """NonFiniteError before an update learns from numbers that are finite each, but whose sums
    are not."""
    found = rollout.overflows()
    if found is None:
        return
    what, kind = _OVERFLOWS[found]
    raise NonFiniteError(
        f"{what} overflow in the rollout of update {update}: scale the {kind}s of the "
        "environment down",
        kind=kind,
        value=float("inf"),
        update=update,
    )


class SteppedRollout(Rollout):
    """A rollout in tiles (see Rollout), with what learners beside the native one need.

    Place of row r at step t, in arrays of all places: `place(r) + t * width`.

    Attributes:
        raw: uint8 [places, size]: Obs structs as the environment gave them.
        versions: int64 [places]: of the weights that acted.
        width: places of one block and step: agents * 64.
        rows: of the batch, without the padding to whole blocks.
        flat: logp, value, reward, … of all places, float32 [places], sharing memory.
    """

    def __init__(
        self, net: Net, *, horizon: int, worlds: int, agents: int, obs_size: int, state_size: int,
        normalize_obs: bool = False, normalize_reward: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(
            net, horizon=horizon, worlds=worlds, agents=agents, normalize_obs=normalize_obs,
            normalize_reward=normalize_reward, state_size=state_size,
        )  # fmt: skip
        places = len(self.logp) * TILE
        self.width = agents * TILE
        self.rows = worlds * agents
        self.blocks = places // (self.width * horizon)
        self.raw: NDArray[np.uint8] = aligned((places, obs_size), np.uint8)
        self.versions: NDArray[np.int64] = np.zeros(places, np.int64)
        names = ("logp", "value", "reward", "done", "bootstrap", "valid", "advantage", "ret")
        self.flat: dict[str, NDArray[np.float32]] = {
            name: getattr(self, name).reshape(-1) for name in names
        }

    def lag(self, version: int) -> tuple[float, int]:
        """See Rollout; here every step has a version of its own."""
        lags = version - self.versions[self.flat["valid"] > 0]
        return (float(lags.mean()), int(lags.max())) if len(lags) else (0.0, 0)

    def place(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Places of the rows' first steps."""
        return rows // self.width * (self.horizon * self.width) + rows % self.width

    def set_states(self, rows: NDArray[np.int64], state: NDArray[np.float32]) -> None:
        """What is remembered of some rows before their first step, [k, state_size]."""
        self.states[rows // TILE, :, rows % TILE] = state

    def by_step(self, array: NDArray[Any]) -> NDArray[Any]:
        """An array of all places [places, ...] (or [tiles, 64]) as [T, rows, ...], a copy."""
        rest = array.shape[1:] if len(array) == len(self.raw) else array.shape[2:]
        blocks = array.reshape(self.blocks, self.horizon, self.width, *rest)
        steps = np.moveaxis(blocks, 1, 0).reshape(self.horizon, -1, *rest)
        return np.ascontiguousarray(steps[:, : self.rows])
