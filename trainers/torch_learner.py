"""The PPO learner in torch: turns stepped rollouts into the next version of a module's weights."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..engine.errors import ArgumentError
from ._native import RunningMoments, StopFlag, sums_of_rows
from .learner import LearnStats
from .nn.memory import unroll
from .policy import seed_key
from .rollout import NonFiniteError, SteppedRollout, Stopped, check_sums
from .torch_data import RolloutData
from .torch_device import Transfer, called, recorder
from .torch_gradient import Gradient, LossGradient
from .torch_lag import LagCorrection
from .torch_loss import LossOptions
from .torch_optim import make_optimizers
from .torch_policy import TorchPolicy, TorchWeights


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
        correction: str = "clip",
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
        compiled: bool = False,
        graphs: bool = False,
        recall: bool = False,
        stop: StopFlag | None = None,
    ) -> None:
        """Arguments that NativeLearner has not:

        policy: whose module is trained, from the weights that it has.
        optimizer: "adam", or "muon" for matrices of hidden layers and Adam for the rest.
        compiled: forward and backward through torch.compile.
        graphs: on CUDA, record minibatches and replay them.
        recall: see NativeLearner.
        """
        for name, count in (("minibatches", minibatches), ("epochs", epochs)):
            if count < 1:
                raise ArgumentError(f"{name} is {count}: expected at least 1")
        self.policy = policy
        self._stop = stop
        self.module = policy.module
        self._call: Any = called(self.module, policy.device, compiled=compiled, graphs=graphs)
        self._parameters = dict(self.module.named_parameters())
        self._minibatches, self._epochs = minibatches, epochs
        self._target_kl = target_kl
        self._recall = recall and policy.state_size > 0
        self._past: dict[str, Tensor] | None = None  # the rollout before, where it is recalled
        forward = self._sequences if policy.state_size else self._rows
        self._correct = LagCorrection(policy, forward, correction, gamma, gae_lambda)
        self._gradient = LossGradient(
            policy,
            forward,
            LossOptions(clip, vf_clip, vf_coef, self._correct.weight_max),
            max_grad_norm,
            # sequences differ in where their episodes end
            None
            if policy.state_size
            else recorder(policy.device, compiled=compiled, graphs=graphs),
        )
        self._optimizers = make_optimizers(
            self._parameters, self._gradient.flats, optimizer, betas, eps
        )
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
        data = self._data(rollout)
        self.policy.use_threads(rollout.steps // self._minibatches, passes=3)
        lag, lag_max = rollout.lag(self.version)
        ess = self._correct(data, rollout, self._minibatches) if lag_max > 0 else 1.0
        sums = np.zeros(5)
        count, norms, updates = 0, 0.0, 0
        for _ in range(self._epochs):
            before, seen = sums.copy(), count
            for inputs, rows in data.minibatches(self._minibatches, self.tile_order):
                if self._stop is not None and self._stop.raised:
                    raise Stopped
                found = self._gradient(inputs, rows, ent_coef)
                self._step(found, updates)
                norms += found.norm
                sums += found.sums
                count += len(rows.value)
                updates += 1
            divergence = (sums - before)[3] / max(count - seen, 1)
            if 0 < self._target_kl < divergence:
                break
        self.version += 1
        self.observe(rollout)
        means = sums / max(count, 1)
        self._seconds += perf_counter() - start
        explained = data.explained_variance
        return LearnStats._make([*means, norms / max(updates, 1), explained, ess, lag, lag_max])

    def _data(self, rollout: SteppedRollout) -> RolloutData:
        """The rollout on the device, with what is remembered when it begins."""
        data = RolloutData(
            self.policy,
            self._transfer,
            self.weights,
            rollout,
            normalize_advantage=self._normalize_advantage,
        )
        if self._recall:
            if self._past is not None:
                data.recall(self.module, self._past)
            self._past = data.past()
        return data

    def _rows(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs and values of rows."""
        return self.policy.forward(self._call, x, x[:0])[:2]

    def _sequences(
        self, x: Tensor, states: Tensor, began: Tensor, live: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The same of whole sequences, steps first: of the rows that were steps."""
        with torch.autocast(x.device.type, torch.bfloat16, enabled=self.policy.bf16):
            outputs, value = unroll(self.module, x, states, began, live)
        return outputs.float()[live], value.float()[live]

    def _step(self, found: Gradient, minibatch: int) -> None:
        """The optimiser's step, by the gradient in the parameters."""
        if not np.isfinite(found.norm) or not np.isfinite(found.sums).all():
            self._refuse(found.sums, minibatch)
        for optimizer in self._optimizers:
            optimizer.step()

    def _refuse(self, sums: NDArray[np.float64], minibatch: int) -> None:
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

    # ---- normalisation and weights ----------------------------------------------------------

    def observe(self, rollout: SteppedRollout) -> None:
        """Takes in the rollout's statistics of observations and rewards, and publishes. `learn`
        does; by itself it serves to settle the normalisation before the first update."""
        if rollout.obs_sums is not None and not self.policy.picture:
            centre = self.weights.obs_mean
            x = self.policy.encode(torch.from_numpy(rollout.raw)).flatten(1).numpy()
            total, square = sums_of_rows(x, rollout.flat["valid"], centre)
            self._obs.merge(rollout.steps, total, square, centre)
        if rollout.reward_sums is not None:
            self._returns.merge_rewards(rollout)
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
        key = _random_bits(np.uint64(self._key), np.array([self._shuffles], np.uint64))[0]
        self._shuffles += 1
        order = list(range(tiles))
        ends = np.arange(tiles, dtype=np.uint64)
        half = _random_bits(key, ends) >> np.uint64(32)
        picks = (half * (ends + np.uint64(1)) >> np.uint64(32)).tolist()
        for k in range(tiles - 1, 0, -1):
            pick = picks[k]
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
        past = {} if self._past is None else {n: _array(t) for n, t in self._past.items()}
        return {
            "past": past,
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
        past = state.get("past", {}) if self._recall else {}
        there = {name: _tensor(array).to(self.policy.device) for name, array in past.items()}
        self._past = there or None
        self._obs.load_state_dict(state["observations"])
        self._returns.load_state_dict(state["returns"])
        self.weights = self._publish()


def _random_bits(key: np.uint64, numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64 of key + each number, as csrc/learn.c has it."""
    a, b, c = (np.uint64(k) for k in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
    z = key + (numbers + np.uint64(1)) * a
    z = (z ^ (z >> np.uint64(30))) * b
    z = (z ^ (z >> np.uint64(27))) * c
    return z ^ (z >> np.uint64(31))


def _array(value: Any) -> Any:
    """An array of its own for a tensor; a number for one without axes."""
    if not isinstance(value, Tensor):
        return value
    return value.item() if value.dim() == 0 else value.detach().cpu().numpy().copy()


def _tensor(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy())
    return torch.tensor(value)
