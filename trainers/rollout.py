"""Rollouts: what a collector writes and a learner reads; and what goes wrong in them."""

from __future__ import annotations

from ..engine.errors import HeadraceError
from ._native import TILE, Rollout

__all__ = ["TILE", "NonFiniteError", "Rollout"]


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
