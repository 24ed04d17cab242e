"""Which actions a check takes: random ones, extreme ones, constant ones.

World w follows habit w % len(HABITS), whatever its neighbours do: its actions depend on its own
number, seed and step alone (and on its masks).
"""

from __future__ import annotations

import numpy as np

from ..spec import EnvSpec, FieldSpec

# random: each one anew; held: random, for 10 steps; low, high: always the first or last choice,
# or the bound; ends: the first or the last, at random; forbidden: random, whatever the mask says
HABITS = ("random", "low", "high", "held", "ends", "random", "forbidden", "random")
_HOLD = 10
_WIDE = 3.0  # deviation of the actions where there is no bound


class Plan:
    """The actions of `worlds` worlds for `steps` steps.

    habits: which worlds follow which; `random` makes all of them draw at random.
    """

    def __init__(
        self, spec: EnvSpec, worlds: int, steps: int, seed: int, *, random: bool = False
    ) -> None:
        self._spec = spec
        self.worlds, self.steps = worlds, steps
        self.habits = ["random" if random else HABITS[w % len(HABITS)] for w in range(worlds)]
        self._elements = sum(field.size for field in spec.action_fields)
        wishes = [self._wishes(w, seed) for w in range(worlds)]
        self._wishes_of = np.stack(wishes, axis=1)  # [steps, worlds, agents, elements] in [0, 1)
        self._heeds = np.array([habit != "forbidden" for habit in self.habits])
        self._actions = None if spec.mask_size else convert(spec, self._wishes_of, None)

    def _wishes(self, world: int, seed: int) -> np.ndarray:
        shape = (self.steps, self._spec.agents, self._elements)
        wish = np.random.default_rng([seed, world]).random(shape)
        habit = self.habits[world]
        if habit == "low":
            wish[:] = 0.0
        elif habit == "high":
            wish[:] = 1.0
        elif habit == "ends":
            wish = np.round(wish)
        elif habit == "held":
            wish = wish[np.arange(self.steps) // _HOLD * _HOLD]
        return np.minimum(wish, np.nextafter(1.0, 0.0))

    def at(self, step: int, mask: np.ndarray | None, worlds: slice | np.ndarray) -> np.ndarray:
        """The Action structs [rows] of `worlds` at `step`, counted from 0; mask: bool
        [rows of these worlds, mask_size], what is allowed."""
        if self._actions is not None:
            return self._actions[step, worlds].reshape(-1)
        assert mask is not None
        wishes = self._wishes_of[step, worlds]
        allowed = mask.reshape(*wishes.shape[:2], -1).copy()
        allowed[~self._heeds[worlds]] = True
        return convert(self._spec, wishes, allowed).reshape(-1)


def convert(spec: EnvSpec, wishes: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
    """Action structs [...] from wishes [..., elements] in [0, 1) and masks [..., mask_size] (None:
    everything is allowed)."""
    actions = np.zeros(wishes.shape[:-1], spec.action_dtype)
    element = column = 0
    for field in spec.action_fields:
        part = wishes[..., element : element + field.size]
        if field.kind != "discrete":
            values = _between(field, part)
        elif mask is None:
            values = (part * field.choices).astype(np.int32)
        else:
            width = field.size * field.choices
            allowed = mask[..., column : column + width]
            values = _allowed(part, allowed.reshape(*part.shape, field.choices))
        column += field.size * field.choices
        element += field.size
        actions[field.name] = values.reshape(*wishes.shape[:-1], *field.shape)
    return actions


def _between(field: FieldSpec, wish: np.ndarray) -> np.ndarray:
    """A share of the way from the lower to the upper bound."""
    low, high = field.low, field.high
    if abs(low) > 1e30:
        low = -_WIDE if abs(high) > 1e30 else high - _WIDE
    if abs(high) > 1e30:
        high = low + 2 * _WIDE
    top = np.where(wish > 0.999999, 1.0, wish)
    return np.clip(low + (high - low) * top, low, high).astype(np.float32)


def _allowed(wish: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """One of the allowed choices each; any where none is."""
    none = ~mask.any(axis=-1, keepdims=True)
    mask = mask | none
    nth = (wish * mask.sum(axis=-1)).astype(np.int64)
    return (np.cumsum(mask, axis=-1) <= nth[..., None]).sum(axis=-1).astype(np.int32)
