"""Torch policies: any module that maps encoded observations to outputs and a value.

What a module looks like is in nn/. Here it gets its observations, its actions are drawn (by
the native kernels, so that draws belong to (seed, row, step) as those of native policies do),
and its weights travel from learner to actor and to disk.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from ..engine.cpus import available_cpus
from ..engine.errors import ArgumentError
from ..engine.spec import EnvSpec, FieldSpec
from . import encoding
from ._native import Net, normalize_rows
from .actor import Acted, Draw, Floats
from .description import heads_of
from .nn.sizes import image_shape
from .policy import OBS_CLIP, Head, PolicySpec, TensorError, check_divisors
from .torch_device import Recorded, Transfer, acting_mode, called, recorder, torch_device

PARALLEL_FLOPS = 3e8  # work of a call from which on more than one thread pays


@dataclass(frozen=True)
class TorchWeights:
    """A module's tensors of one version, with the normalisation that belongs to them; never
    changed once published."""

    tensors: Mapping[str, Tensor]
    obs_mean: Floats  # [features]
    obs_scale: Floats  # 1 / standard deviation
    reward_mean: float = 0.0
    reward_scale: float = 1.0
    version: int = 0


class Normalizer:
    """Encoded observations by the running statistics in some weights."""

    def __init__(self, weights: TorchWeights, device: torch.device) -> None:
        self._mean = torch.tensor(weights.obs_mean, device=device)
        self._scale = torch.tensor(weights.obs_scale, device=device)
        self._native = device.type == "cpu"  # one call there in the place of six
        self._arrays = weights.obs_mean, weights.obs_scale

    def load(self, weights: TorchWeights) -> None:
        """Other weights' statistics, in the same tensors."""
        self._arrays = weights.obs_mean, weights.obs_scale
        if not self._native:
            self._mean.copy_(torch.from_numpy(weights.obs_mean))
            self._scale.copy_(torch.from_numpy(weights.obs_scale))

    def __call__(self, x: Tensor) -> Tensor:
        """(x - mean) * scale within the bounds, [k, ...]."""
        if self._native:
            scaled = torch.from_numpy(normalize_rows(x.numpy(), *self._arrays, OBS_CLIP))
            return scaled if x.dim() == 2 else scaled.view(x.shape)
        flat = torch.sub(x.flatten(1), self._mean).mul_(self._scale)
        return flat.clamp_(-OBS_CLIP, OBS_CLIP).view(x.shape)


class Encoder:
    """Obs structs as bytes to what a module reads, on the device where the bytes are."""

    def __init__(self, spec: EnvSpec, divisors: encoding.Divisors | None = None) -> None:
        """divisors: of the members; default: as `encoding.divisors_of` has them."""
        divisors = encoding.divisors_of(spec) if divisors is None else divisors
        self._fields = tuple(zip(spec.obs_fields, divisors, strict=True))
        space = spec.single_observation_space
        self._shape = space.shape if isinstance(space, spaces.Box) else None
        self._plain = (
            self._shape is not None
            and {field.dtype for field in spec.obs_fields} == {"float32"}
            and 4 * sum(field.size for field in spec.obs_fields) == spec.obs_dtype.itemsize
        )

    def __call__(self, raw: Tensor) -> Tensor:
        """float32 [k, *shape] of a Box, else [k, features], of raw uint8 [k, size]."""
        if self._plain:
            flat = raw.view(torch.float32)
        elif len(self._fields) == 1:
            flat = _encoded(*self._fields[0], raw)
        else:
            flat = torch.cat([_encoded(*field, raw) for field in self._fields], dim=1)
        return flat if self._shape is None else flat.reshape(len(raw), *self._shape)


_DTYPES = {
    "float32": torch.float32,
    "uint8": torch.uint8,
    "int8": torch.int8,
    "int16": torch.int16,
    "int32": torch.int32,
}


def _encoded(field: FieldSpec, divisor: float, raw: Tensor) -> Tensor:
    dtype = _DTYPES[field.dtype]
    end = field.offset + field.size * dtype.itemsize
    part = raw[:, field.offset : end]
    value = part if dtype == torch.uint8 else part.clone().view(dtype)
    if field.choices:
        choices = torch.arange(field.choices, device=raw.device)
        return (value.unsqueeze(-1) == choices).flatten(1).float()
    return value.float() if divisor == 1.0 else value.float() * (1.0 / divisor)


class TorchPolicy:
    """A module as the policy of one environment.

    Attributes:
        env, module: what it acts in; what is trained.
        heads, outputs: elements of the action; columns of the module's outputs.
        state_size: floats of recurrent state per row, 0 for a module without memory.
        divisors: of the observation's members, see encoding.py.
        features: of the encoded observation; picture: whether it is one, and so never
            normalised by running statistics.
    """

    def __init__(
        self,
        env: EnvSpec,
        module: nn.Module,
        *,
        device: str = "cpu",
        bf16: bool = False,
        threads: int | None = None,
        divisors: encoding.Divisors | None = None,
    ) -> None:
        """device: of the learner; bf16: products in bfloat16; threads: that torch may use on the
        CPU, default: every CPU of this process; divisors: see `PolicySpec.from_env`.

        Raises:
            ArgumentError: a module whose outputs do not fit, or a device that is not there.
        """
        self.env = env
        self.device = torch_device(device)
        self.bf16 = bf16
        self._threads = available_cpus() if threads is None else threads
        shapes = PolicySpec.from_env(env, (), divisors=divisors)
        self.divisors = shapes.divisors
        self.heads: tuple[Head, ...] = shapes.heads
        self.outputs = shapes.outputs - 1
        self.features = shapes.features
        self.feature_name = shapes.feature_name
        self._native_heads = heads_of(shapes, 0)
        self.picture = image_shape(env.single_observation_space) is not None
        self.numbers = sum(head.size == 0 for head in self.heads)
        self.state_size = int(getattr(module, "state_size", 0))
        self.encode = Encoder(env, self.divisors)
        self.module = module.to(self.device)
        self.log_std_name = self._find_log_std()
        self._check_module()

    @cached_property
    def net(self) -> Net:
        """Shapes of rollouts and of the heads, for the native kernels; no observation."""
        return Net(
            features=0,
            outputs=self.outputs + 1,
            hidden=0,
            width=1,
            towers=[],
            heads=self._native_heads,
            inputs=[],
            mask_size=self.env.mask_size,
            action_size=self.env.action_dtype.itemsize,
            obs_size=self.env.obs_dtype.itemsize,
            plain=False,
            params=self.numbers,
        )

    def _find_log_std(self) -> str | None:
        """The parameter of the log deviations; added where the module has none."""
        if not self.numbers:
            return None
        for name, parameter in self.module.named_parameters():
            if name.rpartition(".")[2] == "log_std":
                if parameter.shape != (self.numbers,):
                    raise ArgumentError(
                        f"policy: {name} has shape {list(parameter.shape)}: expected "
                        f"[{self.numbers}], one for each continuous element of the action"
                    )
                return name
        zeros = torch.zeros(self.numbers, device=self.device)
        self.module.register_parameter("log_std", nn.Parameter(zeros))
        return "log_std"

    @property
    def log_std(self) -> nn.Parameter | None:
        """The log deviations of continuous elements."""
        return dict(self.module.named_parameters()).get(self.log_std_name or "")

    def _check_module(self) -> None:
        """One row through the module, whose shapes must fit."""
        name = type(self.module).__name__
        if type(self.module).forward is nn.Module.forward:
            raise ArgumentError(f"policy {name} has no forward: define forward(self, obs)")
        raw = torch.zeros((2, self.env.obs_dtype.itemsize), dtype=torch.uint8, device=self.device)
        state = torch.zeros((2, self.state_size), device=self.device)
        counted = FlopCounterMode(display=False)
        with torch.no_grad(), acting_mode(self.module), counted as counter:
            found = self._called(self.module, self.encode(raw), state)
        self._flops = counter.get_total_flops() / len(raw)  # of one row forward
        wanted = [("outputs", (2, self.outputs)), ("value", (2,))]
        if self.state_size:
            wanted.append(("state", (2, self.state_size)))
        for (what, shape), tensor in zip(wanted, found, strict=False):
            got = tuple(tensor.shape)
            if got != shape and not (what == "value" and got == (2, 1)):
                raise ArgumentError(
                    f"policy {name} gives {what} of shape {list(got)} for 2 rows: expected "
                    f"{list(shape)}"
                )

    def _called(self, module: Any, x: Tensor, state: Tensor) -> tuple[Tensor, ...]:
        found = module(x, state) if self.state_size else module(x)
        count = 3 if self.state_size else 2
        if not isinstance(found, tuple) or len(found) != count:
            raise ArgumentError(
                f"policy {type(self.module).__name__}: forward must return "
                f"{'(outputs, value, state)' if self.state_size else '(outputs, value)'}"
            )
        return found

    def use_threads(self, rows: int, passes: int = 1) -> None:
        """Sets torch's threads for a call of so many rows and passes through the module (3:
        forward and backward): one where the work would not pay for waking the others, who
        would take turns with those that step environments. It depends on the work alone, so
        that runs repeat."""
        work = self._flops * rows * passes
        threads = self._threads if work >= PARALLEL_FLOPS else 1
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)

    def forward(self, module: Any, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Outputs [k, outputs], values [k] and state, float32, of encoded observations."""
        if self.bf16:
            with torch.autocast(x.device.type, torch.bfloat16):
                outputs, value, *after = self._called(module, x, state)
        else:
            outputs, value, *after = self._called(module, x, state)
        next_state = after[0].float() if after else state
        return outputs.float(), value.float().reshape(-1), next_state

    # ---- weights --------------------------------------------------------------------------

    def weights(self, version: int = 0, **scales: Any) -> TorchWeights:
        """A copy of the module's tensors as they are; scales: the normalisation, default none."""
        tensors = {name: tensor.clone() for name, tensor in self.module.state_dict().items()}
        plain = {
            "obs_mean": np.zeros(self.features, np.float32),
            "obs_scale": np.ones(self.features, np.float32),
        }
        return TorchWeights(tensors, **{**plain, **scales}, version=version)

    def to_tensors(self, weights: TorchWeights) -> dict[str, NDArray[Any]]:
        """Every tensor by name, with the normalisation of observations that belongs to them."""
        named = {name: tensor.cpu().numpy() for name, tensor in weights.tensors.items()}
        if np.any(weights.obs_mean != 0) or np.any(weights.obs_scale != 1):
            named["obs.mean"], named["obs.scale"] = weights.obs_mean, weights.obs_scale
        return encoding.with_divisors(named, self.env, self.divisors)

    def from_tensors(self, tensors: Mapping[str, NDArray[Any]]) -> TorchWeights:
        """The inverse of `to_tensors`.

        Raises:
            TensorError: a tensor is missing, has another shape, or the weights were trained with
                other divisors.
        """
        check_divisors(tensors, self.env, self.divisors)
        own = self.module.state_dict()
        for name, tensor in own.items():
            if name not in tensors or tensors[name].size != tensor.numel():
                got = list(tensors[name].shape) if name in tensors else "missing"
                raise TensorError(f"tensor {name!r} is {got}: expected {list(tensor.shape)}")
        found = {
            name: torch.from_numpy(np.array(tensors[name])).reshape(tensor.shape).to(tensor.device)
            for name, tensor in own.items()
        }
        plain = self.weights()
        mean = np.array(tensors.get("obs.mean", plain.obs_mean), np.float32)
        scale = np.array(tensors.get("obs.scale", plain.obs_scale), np.float32)
        return TorchWeights(found, mean, scale)


class TorchActor:
    """A module that acts: a copy of the policy's, with the weights that it is given."""

    def __init__(
        self,
        policy: TorchPolicy,
        *,
        normalize_obs: bool = False,
        device: str | None = None,
        compiled: bool = False,
        graphs: bool = False,
    ) -> None:
        """Arguments:

        normalize_obs: by the running statistics in the weights; pictures never are.
        device: where it acts; default: where the policy's module is.
        compiled: through torch.compile.
        graphs: on CUDA, record what acting does and replay it.
        """
        self.policy = policy
        self.state_size = policy.state_size
        self.rollout_net = policy.net
        self.device = policy.device if device is None else torch_device(device)
        self._normalize = normalize_obs and not policy.picture
        self._module = copy.deepcopy(policy.module).to(self.device).eval().requires_grad_(False)
        self._call: Any = called(self._module, self.device, compiled=compiled, graphs=graphs)
        record = recorder(self.device, compiled=compiled, graphs=graphs)
        self._work = Recorded(self._joined, record)
        self._transfer = Transfer(self.device)
        self._own = self._module.state_dict()
        self._loaded: TorchWeights | None = None
        self._normalizer: Normalizer | None = None
        self._seconds = 0.0
        self._log_std = np.zeros(policy.numbers, np.float32)

    def act(
        self,
        weights: TorchWeights,
        raw: NDArray[np.uint8],
        mask: NDArray[np.uint8] | None,
        state: Floats,
        draw: Draw,
    ) -> Acted:
        """See Actor."""
        outputs, value, after = self._forward(weights, raw, state)
        actions, logp = self.rollout_net.sample_rows(self._log_std, outputs, mask, *draw)
        return Acted(actions, logp, value, after)

    def value(self, weights: TorchWeights, raw: NDArray[np.uint8], state: Floats) -> Floats:
        """See Actor."""
        return self._forward(weights, raw, state)[1]

    def _forward(
        self, weights: TorchWeights, raw: NDArray[np.uint8], state: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """(outputs [k, outputs], the value's column behind them or not; value [k]; state
        [k, state_size])."""
        start = perf_counter()
        with torch.inference_mode():
            found = self._inferred(weights, raw, state)
        self._seconds += perf_counter() - start
        return found

    def _inferred(
        self, weights: TorchWeights, raw: NDArray[np.uint8], state: Floats
    ) -> tuple[Floats, Floats, Floats]:
        if weights is not self._loaded:
            self._load(weights)
        self.policy.use_threads(len(raw))
        given = [self._transfer("raw", raw)]
        if self.state_size:
            given.append(self._transfer("state", state))
        if self.device.type == "cpu":
            outputs, value, *rest = (tensor.numpy() for tensor in self._computed(*given))
        else:
            outputs, *rest = (tensor.cpu().numpy() for tensor in self._work(*given))
            value = outputs[:, -1]
        after = rest[0] if rest else state
        return np.ascontiguousarray(outputs), np.ascontiguousarray(value), after

    def _joined(self, *given: Tensor) -> tuple[Tensor, ...]:
        """The same as `_computed`, outputs and value side by side: one copy from the device."""
        outputs, value, *after = self._computed(*given)
        return (torch.cat((outputs, value.unsqueeze(1)), dim=1), *after)

    def _computed(self, raw: Tensor, state: Tensor | None = None) -> tuple[Tensor, ...]:
        """(outputs, value, state where there is one) on the device."""
        x = self.policy.encode(raw)
        if self._normalizer is not None:
            x = self._normalizer(x)
        before = x[:0] if state is None else state
        outputs, value, after = self.policy.forward(self._call, x, before)
        return (outputs, value) if state is None else (outputs, value, after)

    def profile(self) -> dict[str, float]:
        """Seconds spent in torch since the start: encoding and the module."""
        return {"forward": self._seconds}

    def _load(self, weights: TorchWeights) -> None:
        for name, tensor in self._own.items():
            tensor.copy_(weights.tensors[name])
        if self.policy.log_std_name is not None:
            log_std = weights.tensors[self.policy.log_std_name]
            self._log_std = np.ascontiguousarray(log_std.float().cpu().numpy())
        if self._normalizer is not None:
            self._normalizer.load(weights)
        elif self._normalize:
            self._normalizer = Normalizer(weights, self.device)
        self._loaded = weights
