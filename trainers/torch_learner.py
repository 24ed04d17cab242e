"""The PPO learner in torch: turns stepped rollouts into the next version of a module's weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..engine.errors import ArgumentError
from ._native import TILE, StopFlag
from .learner import LearnStats
from .nn import unroll
from .normalize import RunningMoments
from .policy import seed_key
from .rollout import NonFiniteError, SteppedRollout, Stopped, check_sums
from .tiles import from_tiles
from .torch_loss import LossOptions, LossRows, logp_and_entropy, ppo_loss
from .torch_policy import Normalizer, TorchPolicy, TorchWeights

OPTIMIZERS = ("adam", "muon")
_BITS = (1 << 64) - 1


class TorchLearner:
    """Proximal policy optimisation (Schulman et al. 2017) of a torch module.

    Loss, clipping, Adam, the order of minibatches and the normalisation of advantages are those
    of NativeLearner: from equal weights and rollouts come equal updates, to float tolerance.
    A module with memory learns from whole segments of rows, its state 0 where episodes begin.
    """

    def __init__(
        self,
        policy: TorchPolicy,
        *,
        seed: int,
        minibatches: int = 4,
        epochs: int = 1,
        clip: float = 0.2,
        vf_coef: float = 0.5,
        vf_clip: float = 0.0,
        max_grad_norm: float = 0.5,
        normalize_advantage: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-5,
        optimizer: str = "adam",
        target_kl: float = 0.0,
        compiled: bool = False,
        stop: StopFlag | None = None,
    ) -> None:
        """Arguments that NativeLearner has not:

        policy: whose module is trained, from the weights that it has.
        optimizer: "adam", or "muon" for matrices of hidden layers and Adam for the rest.
        target_kl: nats; an update ends after the epoch whose mean KL divergence is above; 0:
            never.
        compiled: forward and backward through torch.compile.
        """
        for name, count in (("minibatches", minibatches), ("epochs", epochs)):
            if count < 1:
                raise ArgumentError(f"{name} is {count}: expected at least 1")
        self.policy = policy
        self._stop = stop
        self.module = policy.module
        self._call: Any = torch.compile(self.module) if compiled else self.module
        self._parameters = dict(self.module.named_parameters())
        self._optimizers = make_optimizers(self._parameters, optimizer, betas, eps)
        self._minibatches, self._epochs = minibatches, epochs
        self._options = (clip, vf_clip, vf_coef)
        self._max_grad_norm, self._target_kl = max_grad_norm, target_kl
        self._normalize_advantage = normalize_advantage
        self._key = seed_key(seed) ^ 0x6C6561726E
        self._shuffles = 0
        self._transfer = Transfer(policy.device)
        self._obs = RunningMoments(policy.features)
        self._returns = RunningMoments(1)
        self._seconds = 0.0
        self.version = 0  # updates so far
        self.weights = self._publish()

    # ---- one update ---------------------------------------------------------------------

    def learn(self, rollout: SteppedRollout, *, lr: float, ent_coef: float = 0.0) -> LearnStats:
        """One update from one rollout; `weights` are the next version afterwards.

        Raises:
            NonFiniteError: the loss or the gradient is NaN or infinite, or sums overflow.
            Stopped: see NativeLearner.
        """
        start = perf_counter()
        check_sums(rollout, self.version)
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                group["lr"] = lr
        clip, vf_clip, vf_coef = self._options
        options = LossOptions(clip, vf_clip, vf_coef, ent_coef)
        data = _Data(self, rollout)
        self.policy.use_threads(rollout.steps // self._minibatches, passes=3)
        sums = torch.zeros(5, dtype=torch.float64, device=self.policy.device)
        count, norms, updates = 0, 0.0, 0
        for _ in range(self._epochs):
            before, seen = sums.clone(), count
            for outputs, value, rows in data.minibatches(self._minibatches):
                if self._stop is not None and self._stop.raised:
                    raise Stopped
                log_std = self._log_std()
                logp, entropy = logp_and_entropy(
                    self.policy.heads, outputs, log_std, rows.actions, rows.mask
                )
                loss, own = ppo_loss(options, rows, logp, entropy, value)
                norms += self._step(loss, own, updates)
                sums += own
                count += len(value)
                updates += 1
            divergence = float((sums - before)[3]) / max(count - seen, 1)
            if 0 < self._target_kl < divergence:
                break
        lag, lag_max = rollout.lag(self.version)
        self.version += 1
        self.observe(rollout)
        means = (sums / max(count, 1)).tolist()
        self._seconds += perf_counter() - start
        explained = data.explained_variance
        return LearnStats._make([*means, norms / max(updates, 1), explained, np.nan, lag, lag_max])

    def _step(self, loss: Tensor, sums: Tensor, minibatch: int) -> float:
        """Gradient, clipping and the optimiser's step; returns the gradient's norm."""
        for optimizer in self._optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss.backward()
        limit = self._max_grad_norm if self._max_grad_norm > 0 else float("inf")
        norm = float(nn.utils.clip_grad_norm_(self._parameters.values(), limit))
        if not np.isfinite(norm) or not np.isfinite(float(loss.detach())):
            self._refuse(sums, minibatch)
        for optimizer in self._optimizers:
            optimizer.step()
        return norm

    def _refuse(self, sums: Tensor, minibatch: int) -> None:
        """Raises for a loss or a gradient that is not finite."""
        for name, value in zip(LearnStats._fields, sums.tolist(), strict=False):
            if not np.isfinite(value):
                raise self._error("loss", name, value, f"{name} is {value}", minibatch)
        for name, parameter in self._parameters.items():
            if parameter.grad is not None and not torch.isfinite(parameter.grad).all():
                bad = parameter.grad[~torch.isfinite(parameter.grad)]
                what = f"the gradient of {name!r} is {float(bad[0])}"
                raise self._error("gradient", name, float(bad[0]), what, minibatch)

    def _error(
        self, kind: str, name: str, value: float, what: str, minibatch: int
    ) -> NonFiniteError:
        return NonFiniteError(
            f"{what} in update {self.version}, minibatch {minibatch}: a lower learning rate or "
            "normalisation may help",
            kind=kind,
            value=value,
            name=name,
            update=self.version,
        )

    def _log_std(self) -> Tensor | None:
        name = self.policy.log_std_name
        return None if name is None else self._parameters[name]

    # ---- normalisation and weights ----------------------------------------------------------

    def observe(self, rollout: SteppedRollout) -> None:
        """Takes in the rollout's statistics of observations and rewards, and publishes. `learn`
        does; by itself it serves to settle the normalisation before the first update."""
        if rollout.obs_sums is not None and not self.policy.picture:
            valid = np.flatnonzero(rollout.flat["valid"] > 0)
            x = self.policy.encode(torch.from_numpy(rollout.raw[valid])).flatten(1).double()
            away = x - torch.from_numpy(self.weights.obs_mean).double()
            total, square = away.sum(0).numpy(), (away * away).sum(0).numpy()
            self._obs.merge(len(valid), total, square, self.weights.obs_mean)
        if rollout.reward_sums is not None:
            count, total, square = rollout.reward_sums.sum(0)
            centre = rollout.reward_centres[:1]
            self._returns.merge(count, np.array([total]), np.array([square]), centre)
        self.weights = self._publish()

    def _publish(self) -> TorchWeights:
        return self.policy.weights(
            self.version,
            obs_mean=self._obs.mean.astype(np.float32),
            obs_scale=self._obs.scale().astype(np.float32),
            reward_mean=float(self._returns.mean[0]),
            reward_scale=float(self._returns.scale()[0]),
        )

    def tile_order(self, tiles: int) -> NDArray[np.int64]:
        """The tiles of a rollout in the order of the next epoch: the native learner's shuffle
        (csrc/learn.c), number by number."""
        key = _random_bits(self._key, self._shuffles)
        self._shuffles += 1
        order = list(range(tiles))
        for k in range(tiles - 1, 0, -1):
            pick = (_random_bits(key, k) >> 32) * (k + 1) >> 32
            order[k], order[pick] = order[pick], order[k]
        return np.array(order, np.int64)

    def profile(self) -> dict[str, float]:
        """Seconds of learning since the start."""
        return {"learn": self._seconds}

    # ---- saving -------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Everything that `load_state_dict` needs: arrays and numbers."""
        tensors = {name: _array(t) for name, t in self.module.state_dict().items()}
        optimizers = {}
        for at, optimizer in enumerate(self._optimizers):
            for number, entries in optimizer.state_dict()["state"].items():
                for name, value in entries.items():
                    optimizers[f"{at}.{number}.{name}"] = _array(value)
        return {
            "version": self.version,
            "shuffles": self._shuffles,
            "module": tensors,
            "optimizers": optimizers,
            "observations": self._obs.state_dict(),
            "returns": self._returns.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues where `state_dict` was taken."""
        self.version, self._shuffles = int(state["version"]), int(state["shuffles"])
        with torch.no_grad():
            for name, tensor in self.module.state_dict().items():
                tensor.copy_(_tensor(state["module"][name]).reshape(tensor.shape))
        for at, optimizer in enumerate(self._optimizers):
            entries: dict[int, dict[str, Any]] = {}
            for key, value in state.get("optimizers", {}).items():
                own, number, name = key.split(".", 2)
                if int(own) == at:
                    entries.setdefault(int(number), {})[name] = _tensor(value)
            groups = optimizer.state_dict()["param_groups"]
            optimizer.load_state_dict({"state": entries, "param_groups": groups})
        self._obs.load_state_dict(state["observations"])
        self._returns.load_state_dict(state["returns"])
        self.weights = self._publish()


class _Data:
    """A rollout on the learner's device, cut into minibatches."""

    def __init__(self, learner: TorchLearner, ro: SteppedRollout) -> None:
        self._learner, self._ro = learner, ro
        valid = ro.flat["valid"] > 0
        if not valid.any():
            raise ArgumentError("rollout has no valid row: nothing can be learned from it")
        advantage, ret = (ro.flat[k][valid].astype(np.float64) for k in ("advantage", "ret"))
        spread = ret.var()
        self.explained_variance = float(1.0 - advantage.var() / spread) if spread > 0 else np.nan
        mean, scale = 0.0, 1.0
        if learner._normalize_advantage and len(advantage) > 1:
            mean, scale = advantage.mean(), 1.0 / (advantage.std(ddof=1) + 1e-8)
        scaled = (ro.flat["advantage"] - np.float32(mean)) * np.float32(scale)
        names = ("logp", "value", "ret")
        arrays: dict[str, NDArray[Any]] = {
            "raw": ro.raw,
            "actions": np.moveaxis(ro.actions, 1, 2).reshape(len(ro.raw), -1),
            "advantage": scaled,
            **{name: ro.flat[name] for name in names},
        }
        if ro.mask is not None:
            arrays["mask"] = np.moveaxis(ro.mask, 1, 2).reshape(len(ro.raw), -1)
        if learner.policy.state_size:
            arrays["valid"], arrays["done"] = valid, ro.flat["done"] > 0
            arrays = {name: ro.by_step(array) for name, array in arrays.items()}
            arrays["states"] = from_tiles(ro.states, ro.rows)
        self._valid = valid.reshape(-1, TILE)
        policy = learner.policy
        normalize = ro.obs_sums is not None and not policy.picture
        self._normalizer = Normalizer(learner.weights, policy.device) if normalize else None
        self._tensors = {name: learner._transfer(name, a) for name, a in arrays.items()}

    def minibatches(self, parts: int) -> Iterator[tuple[Tensor, Tensor, LossRows]]:
        """One epoch: (outputs, values, rows) of each minibatch, valid rows alone."""
        if self._learner.policy.state_size:
            return self._sequences(parts)
        return self._shuffled(parts)

    def _encoded(self, raw: Tensor) -> Tensor:
        """Encoded and normalised observations of rows [k, size]."""
        x = self._learner.policy.encode(raw)
        return x if self._normalizer is None else self._normalizer(x)

    def _shuffled(self, parts: int) -> Iterator[tuple[Tensor, Tensor, LossRows]]:
        """Minibatches of shuffled tiles of 64 rows, as the native learner takes them."""
        learner, tiles = self._learner, len(self._valid)
        order = learner.tile_order(tiles)
        places = order[:, None] * TILE + np.arange(TILE)
        valid = self._valid[order]
        index = torch.from_numpy(places[valid]).to(learner.policy.device)
        ends = np.concatenate(([0], np.cumsum(valid.sum(1))))
        columns = {
            name: tensor.index_select(0, index)
            for name, tensor in self._tensors.items()
            if name != "raw"  # large ones, picked when they are needed
        }
        state = torch.zeros((0, 0), device=learner.policy.device)
        parts = min(parts, tiles)
        for part in range(parts):
            lo, hi = (int(ends[k * tiles // parts]) for k in (part, part + 1))
            if lo == hi:
                continue
            rows = {name: column[lo:hi] for name, column in columns.items()}
            x = self._encoded(self._tensors["raw"].index_select(0, index[lo:hi]))
            outputs, value, _ = learner.policy.forward(learner._call, x, state)
            yield outputs, value, LossRows(mask=rows.pop("mask", None), **rows)

    def _sequences(self, parts: int) -> Iterator[tuple[Tensor, Tensor, LossRows]]:
        """Minibatches of shuffled rows with all their steps: of 64 rows that stay together, as the
        native learner takes them, where there are enough of them, else of single rows."""
        learner, ro, all_of = self._learner, self._ro, self._tensors
        tiles = len(ro.states)
        size, units = (TILE, tiles) if tiles >= parts else (1, ro.rows)
        order = learner.tile_order(units)
        parts = min(parts, units)
        for part in range(parts):
            some = order[part * units // parts : (part + 1) * units // parts]
            chosen = np.sort((some[:, None] * size + np.arange(size)).ravel())
            chosen = chosen[chosen < ro.rows]
            index = torch.from_numpy(chosen).to(learner.policy.device)
            picked = {
                name: t.index_select(1, index) for name, t in all_of.items() if name != "states"
            }
            live, done, raw = picked.pop("valid"), picked.pop("done"), picked.pop("raw")
            began = torch.cat((torch.zeros_like(done[:1]), done[:-1]))
            x = self._encoded(raw.flatten(0, 1)).unflatten(0, raw.shape[:2])
            states = all_of["states"].index_select(0, index)
            with torch.autocast(x.device.type, torch.bfloat16, enabled=learner.policy.bf16):
                outputs, value = unroll(learner.module, x, states, began, live)
            if not bool(live.any()):
                continue
            rows = {name: t[live] for name, t in picked.items()}
            yield (
                outputs.float()[live],
                value.float()[live],
                LossRows(mask=rows.pop("mask", None), **rows),
            )


class Transfer:
    """Arrays to the learner's device: as they are on the CPU, else through pinned memory that
    is kept, without waiting."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pinned: dict[str, Tensor] = {}

    def __call__(self, name: str, array: NDArray[Any]) -> Tensor:
        """The array as a tensor; on the CPU it shares the array's memory."""
        own = torch.from_numpy(np.ascontiguousarray(array))
        if self._device.type == "cpu":
            return own
        kept = self._pinned.get(name)
        if kept is None or kept.shape != own.shape:
            pin = self._device.type == "cuda"
            kept = self._pinned[name] = torch.empty(own.shape, dtype=own.dtype, pin_memory=pin)
        kept.copy_(own)
        return kept.to(self._device, non_blocking=True)


def make_optimizers(
    parameters: Mapping[str, nn.Parameter], name: str, betas: tuple[float, float], eps: float
) -> list[torch.optim.Optimizer]:
    """Adam for all; or Muon for the matrices between the first and the last layers.

    Raises:
        ArgumentError: an unknown name, or a torch without Muon.
    """
    if name not in OPTIMIZERS:
        raise ArgumentError(f"optimizer is {name!r}: expected {' or '.join(OPTIMIZERS)}")
    hidden: Sequence[str] = []
    if name == "muon":
        if not hasattr(torch.optim, "Muon"):
            raise ArgumentError(
                f"optimizer is 'muon', which torch {torch.__version__} has not: use torch 2.9 or "
                "newer, or 'adam'"
            )
        matrices = [n for n, p in parameters.items() if p.dim() == 2]
        hidden = [n for n in matrices[1:] if n.split(".")[-2] not in ("policy", "value")]
    rest = [p for n, p in parameters.items() if n not in hidden]
    fused = all(p.device.type in ("cpu", "cuda") for p in rest)
    found: list[torch.optim.Optimizer] = [torch.optim.Adam(rest, betas=betas, eps=eps, fused=fused)]
    if hidden:
        chosen = [parameters[n] for n in hidden]
        found.append(torch.optim.Muon(chosen, weight_decay=0.0, adjust_lr_fn="match_rms_adamw"))
    return found


def _random_bits(key: int, number: int) -> int:
    """SplitMix64 of key + number, as csrc/learn.c has it."""
    z = (key + (number + 1) * 0x9E3779B97F4A7C15) & _BITS
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _BITS
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _BITS
    return z ^ (z >> 31)


def _array(value: Any) -> Any:
    """An array of its own for a tensor; a number for one without axes."""
    if not isinstance(value, Tensor):
        return value
    return value.item() if value.dim() == 0 else value.detach().cpu().numpy().copy()


def _tensor(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy())
    return torch.tensor(value)
