"""A rollout on the learner's device, cut into minibatches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..engine.errors import ArgumentError
from ._native import TILE
from .nn.memory import remembered
from .rollout import SteppedRollout
from .tiles import from_tiles
from .torch_device import Transfer
from .torch_loss import LossRows
from .torch_policy import Normalizer, TorchPolicy, TorchWeights

LARGE = 1 << 22  # numbers of encoded observations: more are encoded a minibatch at a time

# what the module takes; actions, masks and places of the rows that it gives
Surveyed = tuple[tuple[Tensor, ...], Tensor, Tensor | None, NDArray[np.int64]]
Minibatch = tuple[tuple[Tensor, ...], LossRows]  # what the module takes, and the rows it gives


class RolloutData:
    """The tensors of a rollout: of all places [places, ...], or by step [T, rows, ...] where the
    policy remembers.

    Attributes:
        explained_variance: share of the returns' variance that the values explain.
        valid: bool [tiles, 64].
    """

    def __init__(
        self,
        policy: TorchPolicy,
        transfer: Transfer,
        weights: TorchWeights,
        ro: SteppedRollout,
        *,
        normalize_advantage: bool,
    ) -> None:
        """weights: whose normalisation counts.

        Raises:
            ArgumentError: a rollout without any step.
        """
        self._policy, self._ro, self._transfer = policy, ro, transfer
        self._normalize_advantage = normalize_advantage
        flat = ro.flat
        valid = flat["valid"] > 0
        if not valid.any():
            raise ArgumentError("rollout has no valid row: nothing can be learned from it")
        self.valid = valid.reshape(-1, TILE)
        self._whole = bool(valid.all())
        arrays: dict[str, NDArray[Any]] = {
            "raw": ro.raw,
            "actions": np.moveaxis(ro.actions, 1, 2).reshape(len(ro.raw), -1),
            "advantage": self._scaled(),
            **{name: flat[name] for name in ("logp", "value", "ret")},
        }
        if ro.mask is not None:
            arrays["mask"] = np.moveaxis(ro.mask, 1, 2).reshape(len(ro.raw), -1)
        if policy.state_size:
            arrays["valid"], arrays["done"] = valid, flat["done"] > 0
            arrays = {name: ro.by_step(array) for name, array in arrays.items()}
            arrays["states"] = from_tiles(ro.states, ro.rows)
        normalize = ro.obs_sums is not None and not policy.picture
        self._normalizer = Normalizer(weights, policy.device) if normalize else None
        self._tensors = {name: transfer(name, array) for name, array in arrays.items()}
        self._seen: Tensor | None = None  # what the module sees of all of it, if it is little

    def _scaled(self) -> NDArray[np.float32]:
        """Advantages as the loss has them; takes the explained variance on the way."""
        flat, valid = self._ro.flat, self.valid.reshape(-1)
        advantage, ret, value = (flat[k].astype(np.float64) for k in ("advantage", "ret", "value"))
        if not self._whole:
            advantage, ret, value = advantage[valid], ret[valid], value[valid]
        spread, unexplained = _variance(ret), _variance(ret - value)
        self.explained_variance = float(1.0 - unexplained / spread) if spread > 0 else np.nan
        if not self._normalize_advantage or len(advantage) < 2:
            return flat["advantage"].copy()
        deviation = np.sqrt(_variance(advantage) * len(advantage) / (len(advantage) - 1))
        mean, scale = np.float32(advantage.mean()), np.float32(1.0 / (deviation + 1e-8))
        scaled: NDArray[np.float32] = (flat["advantage"] - mean) * scale
        return scaled

    def put(self, name: str, array: NDArray[np.float32]) -> None:
        """Another column of LossRows, or other numbers for it, float32 [places]."""
        column = self._ro.by_step(array) if self._policy.state_size else array
        self._tensors[name] = self._transfer(name, column)

    def put_advantages(self) -> None:
        """Other advantages and value targets: those that the rollout has by now."""
        self.put("advantage", self._scaled())
        self.put("ret", self._ro.flat["ret"])

    def minibatches(self, parts: int, order: Any) -> Iterator[Minibatch]:
        """One epoch: inputs of the module and the rows that they give, valid ones alone.

        order: a function of n that gives the next shuffle of n things.
        """
        return (
            self._sequences(parts, order) if self._policy.state_size else self._flat(parts, order)
        )

    def _encoded(self, raw: Tensor) -> Tensor:
        """Encoded and normalised observations of rows [k, size]."""
        x = self._policy.encode(raw)
        return x if self._normalizer is None else self._normalizer(x)

    def _flat(self, parts: int, order: Any) -> Iterator[Minibatch]:
        """Minibatches of shuffled tiles of 64 rows: those of the native learner's, shuffled."""
        tiles = len(self.valid)
        chosen = order(tiles)
        valid = self.valid[chosen]
        index = torch.from_numpy(chosen).to(self._policy.device)
        live = None if self._whole else torch.from_numpy(valid.ravel()).to(self._policy.device)
        ends = np.concatenate(([0], np.cumsum(valid.sum(1))))
        columns = {
            name: _of_tiles(tensor, index, live)
            for name, tensor in self._tensors.items()
            if name != "raw"
        }
        parts = min(parts, tiles)
        for part in range(parts):
            first, last = (k * tiles // parts for k in (part, part + 1))
            lo, hi = int(ends[first]), int(ends[last])
            if lo == hi:
                continue
            counts = None if live is None else live[first * TILE : last * TILE]
            x = self._observations(index[first:last], counts)
            rows = {name: column[lo:hi] for name, column in columns.items()}
            yield (x,), LossRows(mask=rows.pop("mask", None), **rows)

    def _observations(self, tiles: Tensor, live: Tensor | None) -> Tensor:
        """What the module sees of the rows of some tiles: all encoded at once, if they are few."""
        raw = self._tensors["raw"]
        if self._policy.features * len(raw) > LARGE:
            return self._encoded(_of_tiles(raw, tiles, live))
        if self._seen is None:
            self._seen = self._encoded(raw)
        return _of_tiles(self._seen, tiles, live)

    def survey(self, parts: int, stride: int) -> Iterator[Surveyed]:
        """The rows in order, in about so many parts, of one in `stride` of the units that stay
        together: tiles, or where the policy remembers 64 rows with all their steps."""
        sequences = self._policy.state_size > 0
        units = np.arange(0, len(self._ro.states) if sequences else len(self.valid), stride)
        of_units = self._unit_sequences if sequences else self._unit_rows
        for some in np.array_split(units, min(parts, len(units))):
            inputs, rows, places = of_units(some)
            if len(places):
                yield inputs, rows["actions"], rows.get("mask"), places

    def _unit_rows(self, tiles: NDArray[np.int64]) -> tuple[Any, dict[str, Tensor], Any]:
        """(what the module takes, columns of the rows, their places) of some tiles."""
        places = (tiles[:, None] * TILE + np.arange(TILE))[self.valid[tiles]]
        index = torch.from_numpy(places).to(self._policy.device)
        rows = self._picked(0, index)
        return (self._encoded(rows["raw"]),), rows, places

    def _picked(self, axis: int, index: Tensor) -> dict[str, Tensor]:
        """What a policy is asked and the answer, of some rows."""
        names = ("raw", "actions", "mask", "valid", "done")
        there = {name: self._tensors[name] for name in names if name in self._tensors}
        return {name: tensor.index_select(axis, index) for name, tensor in there.items()}

    # ---- memory --------------------------------------------------------------------------

    def _sequences(self, parts: int, order: Any) -> Iterator[Minibatch]:
        """Minibatches of shuffled rows with all their steps: of 64 rows that stay together, as the
        native learner takes them, where there are enough of them, else of single rows."""
        ro, all_of = self._ro, self._tensors
        tiles = len(ro.states)
        size, units = (TILE, tiles) if tiles >= parts else (1, ro.rows)
        shuffled = order(units)
        parts = min(parts, units)
        for part in range(parts):
            some = shuffled[part * units // parts : (part + 1) * units // parts]
            chosen = np.sort((some[:, None] * size + np.arange(size)).ravel())
            chosen = chosen[chosen < ro.rows]
            index = torch.from_numpy(chosen).to(self._policy.device)
            picked = {
                name: t.index_select(1, index) for name, t in all_of.items() if name != "states"
            }
            live, done, raw = picked.pop("valid"), picked.pop("done"), picked.pop("raw")
            if not bool(live.any()):
                continue
            states = all_of["states"].index_select(0, index)
            rows = {name: t[live] for name, t in picked.items()}
            inputs = (self._steps(raw), states, _began(done), live)
            yield inputs, LossRows(mask=rows.pop("mask", None), **rows)

    def _unit_sequences(self, units: NDArray[np.int64]) -> tuple[Any, dict[str, Tensor], Any]:
        """The same of units of 64 rows."""
        chosen = (units[:, None] * TILE + np.arange(TILE)).ravel()
        chosen = chosen[chosen < self._ro.rows]
        index = torch.from_numpy(chosen).to(self._policy.device)
        rows = self._picked(1, index)
        live, done, raw = rows.pop("valid"), rows.pop("done"), rows.pop("raw")
        states = self._tensors["states"].index_select(0, index)
        steps = np.arange(self._ro.horizon)[:, None] * self._ro.width
        places = (steps + self._ro.place(chosen))[live.cpu().numpy()]
        inputs = (self._steps(raw), states, _began(done), live)
        return inputs, {name: t[live] for name, t in rows.items()}, places

    def _steps(self, raw: Tensor) -> Tensor:
        return self._encoded(raw.flatten(0, 1)).unflatten(0, raw.shape[:2])

    def past(self) -> dict[str, Tensor]:
        """What `recall` needs of this rollout, once the next one is there."""
        kept = {name: self._tensors[name].clone() for name in ("valid", "done", "states")}
        return {"obs": self._steps(self._tensors["raw"]).clone(), **kept}

    def recall(self, module: Any, past: dict[str, Tensor]) -> None:
        """What is remembered when the rollout begins, anew from the rollout before."""
        done = past["done"]
        state = remembered(module, past["obs"], past["states"], _began(done), past["valid"])
        self._tensors["states"] = torch.where(done[-1, :, None], 0.0, state)


def _variance(x: NDArray[np.float64]) -> float:
    away = x - x.mean()
    return float(away.dot(away)) / len(x)


def _of_tiles(rows: Tensor, tiles: Tensor, live: Tensor | None) -> Tensor:
    """Those of some tiles, [k, ...] of rows of all places [places, ...]; live: which count."""
    blocks = rows.view(-1, TILE * rows[0].numel()).index_select(0, tiles)
    picked = blocks.view(-1, *rows.shape[1:])
    return picked if live is None else picked[live]


def _began(done: Tensor) -> Tensor:
    """bool [T, rows]: an episode begins here, by where episodes ended."""
    return torch.cat((torch.zeros_like(done[:1]), done[:-1]))
