"""Native policies: an MLP over the encoded observation, its heads, its parameters by name; and
an MLP with a memory behind its hidden layers (a MinGRU, nn/memory.py has it in torch).

Encoding, the same everywhere: float32 as it is, integers divided by the greatest that they can be
(encoding.py), discrete values one-hot, members of Obs concatenated in declared order. Where
observations are normalised, (x - mean) * scale follows, clipped to +-10.

Heads: every discrete element of the action is a categorical choice (masked where the
environment masks); every float element a Gaussian whose standard deviation does not depend on
the observation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..engine.errors import ArgumentError
from ..engine.spec import EnvSpec
from . import _native, description, encoding
from ._native import Net, Weights
from .encoding import TensorError
from .tiles import from_tiles, to_tiles

Params = NDArray[np.float32]

MAX_HEADS = 32768  # elements of an action: each draws from a stream of its own
OBS_CLIP = 10.0  # bound of normalised observations
HIDDEN_GAIN = math.sqrt(2.0)  # of the orthogonal initialisation, as CleanRL's PPO has it
POLICY_GAIN = 0.01  # actions start out near uniform
VALUE_GAIN = 1.0
MEMORY_GAIN = 1.0
GATE_BIAS = (-4.0, 0.0)  # of the first and the last unit: they remember for different whiles
MEMORIES = ("none", "mingru")


@dataclass(frozen=True)
class Head:
    """One element of the action."""

    size: int  # choices; 0 for a Gaussian
    offset: int  # bytes in the Action struct
    low: float  # bounds of what the environment gets (Gaussian)
    high: float

    @property
    def outputs(self) -> int:
        """Logits, or the one mean."""
        return self.size or 1


class Names(NamedTuple):
    """Names of tensors."""

    trunk: str  # of the shared hidden layers
    heads: str  # what comes before those of the last layers


@dataclass(frozen=True)
class PolicySpec:
    """Shapes of a policy for one environment. See `from_env`."""

    env: EnvSpec
    hidden: tuple[int, ...]
    activation: str
    separate: bool
    divisors: encoding.Divisors  # of the observation's members
    memory: str = "none"
    isa: str | None = None  # instruction-set level of the kernels; None: the best there is

    @classmethod
    def from_env(
        cls,
        spec: EnvSpec,
        hidden: Sequence[int] = (64,),
        activation: str = "tanh",
        separate: bool = False,
        memory: str = "none",
        divisors: encoding.Divisors | None = None,
    ) -> PolicySpec:
        """A policy for the environment's observations and actions.

        Args:
            spec: the environment.
            hidden: widths of the hidden layers, first to last.
            activation: "tanh" or "relu".
            separate: policy and value have trunks of their own instead of one for both.
            memory: "none", or "mingru": the last of `hidden` is the number of units that
                remember, behind layers of the widths before it (of the same width, where there
                is no other).
            divisors: of the members of the observation, of weights that were trained with
                others than `encoding.divisors_of` gives.

        Raises:
            ArgumentError: a width below 1, too many layers, an unknown activation or memory, a
                memory with separate trunks, or actions of more than MAX_HEADS elements.
        """
        elements = sum(field.size for field in spec.action_fields)
        if elements > MAX_HEADS:
            raise ArgumentError(
                f"environment {spec.name!r} has actions of {elements} elements: at most "
                f"{MAX_HEADS} are supported"
            )
        widths = tuple(int(width) for width in hidden)
        if any(width < 1 for width in widths):
            raise ArgumentError(f"hidden is {widths}: every width must be at least 1")
        if len(widths) > _native.MAX_DEPTH:
            raise ArgumentError(
                f"hidden has {len(widths)} layers: at most {_native.MAX_DEPTH} are supported"
            )
        if activation not in description.ACTIVATIONS:
            raise ArgumentError(f"activation is {activation!r}: expected 'tanh' or 'relu'")
        if memory not in MEMORIES:
            raise ArgumentError(f"memory is {memory!r}: expected 'none' or 'mingru'")
        if memory != "none" and (separate or not widths):
            raise ArgumentError(
                f"memory is {memory!r}: it needs hidden layers that policy and value share"
            )
        divisors = encoding.divisors_of(spec) if divisors is None else divisors
        return cls(spec, widths, activation, bool(separate), divisors, memory)

    # ---- shapes -------------------------------------------------------------------------

    @cached_property
    def heads(self) -> tuple[Head, ...]:
        """The elements of one action, in declared order."""
        found = []
        for field in self.env.action_fields:
            for k in range(field.size):
                offset = field.offset + 4 * k
                size = field.choices if field.kind == "discrete" else 0
                found.append(Head(size, offset, field.low, field.high))
        return tuple(found)

    @property
    def state_size(self) -> int:
        """Floats that are remembered of each row."""
        return self.hidden[-1] if self.memory != "none" else 0

    @property
    def trunk(self) -> tuple[int, ...]:
        """Widths of the hidden layers, those that remember left out."""
        return (self.hidden[:-1] or self.hidden) if self.state_size else self.hidden

    @cached_property
    def features(self) -> int:
        """Length of the encoded observation."""
        return sum(field.size * description.per_element(field) for field in self.env.obs_fields)

    @cached_property
    def outputs(self) -> int:
        """Logits and means, then the value."""
        return sum(head.outputs for head in self.heads) + 1

    @cached_property
    def tensors(self) -> tuple[tuple[str, int, tuple[int, ...]], ...]:
        """(name, offset in the flat parameters, shape) of every parameter, weights [out, in]."""
        found: list[tuple[str, int, tuple[int, ...]]] = []

        def add(name: str, *shape: int) -> None:
            at = found[-1][1] + math.prod(found[-1][2]) if found else 0
            found.append((name, at, shape))

        def add_trunk(name: str) -> int:
            width = self.features
            for k, out in enumerate(self.trunk):
                add(f"{name}.{k}.weight", out, width)
                add(f"{name}.{k}.bias", out)
                width = out
            return width

        actions, heads = self.outputs - 1, self.names.heads
        if self.separate:
            for name, outputs in (("policy", actions), ("value", 1)):
                width = add_trunk(f"{name}_trunk")
                add(f"{name}.weight", outputs, width)
                add(f"{name}.bias", outputs)
        else:  # the last layers lie side by side: one matrix to the kernels
            width = add_trunk(self.names.trunk)
            if self.state_size:
                add("core.input.weight", 2 * self.state_size, width)
                add("core.input.bias", 2 * self.state_size)
                width = self.state_size
            add(f"{heads}policy.weight", actions, width)
            add(f"{heads}value.weight", 1, width)
            add(f"{heads}policy.bias", actions)
            add(f"{heads}value.bias", 1)
        numbers = sum(head.size == 0 for head in self.heads)
        if numbers:
            add(f"{heads}log_std", numbers)
        return tuple(found)

    @property
    def names(self) -> Names:
        """As the torch module of the same shape has them: MLP, or Recurrent."""
        return Names("encoder.layers", "heads.") if self.state_size else Names("trunk", "")

    @cached_property
    def num_params(self) -> int:
        """Length of the flat parameters."""
        _, offset, shape = self.tensors[-1]
        return offset + math.prod(shape)

    def feature_name(self, feature: int) -> str:
        """What an entry of the encoded observation is called: `field` or `field[index]`."""
        for field in self.env.obs_fields:
            count = field.size * description.per_element(field)
            if feature < count:
                element = feature // description.per_element(field)
                where = np.unravel_index(element, field.shape) if field.shape else ()
                return field.name + (f"[{', '.join(str(int(k)) for k in where)}]" if where else "")
            feature -= count
        raise IndexError(feature)

    def param_name(self, index: int) -> str:
        """The tensor in which an entry of the flat parameters lies."""
        return [name for name, offset, _ in self.tensors if offset <= index][-1]

    # ---- parameters ---------------------------------------------------------------------

    def init(self, seed: int) -> Params:
        """Fresh parameters, float32 [num_params]: orthogonal weights (gain sqrt 2 in hidden
        layers, 0.01 for the policy, 1 for the value and what remembers), zero biases and log
        deviations; the biases of gates go from -4 to 0."""
        rng = np.random.default_rng(np.random.SeedSequence([seed, 0x706F6C69]))
        params = np.zeros(self.num_params, np.float32)
        for name, offset, shape in self.tensors:
            if name.endswith(".weight"):
                block = _gain(name) * _orthogonal(rng, *shape)
                params[offset : offset + block.size] = block.ravel()
            elif name == "core.input.bias":
                gates = np.linspace(*GATE_BIAS, self.state_size)
                params[offset : offset + self.state_size] = gates
        return params

    def weights(self, params: Params, version: int = 0) -> Weights:
        """Parameters as collectors take them, without normalisation."""
        copy = _native.aligned(self.num_params, np.float32)
        copy[:] = params
        zeros, ones = np.zeros(self.features, np.float32), np.ones(self.features, np.float32)
        return Weights(copy, zeros, ones, version=version)

    def to_tensors(self, weights: Weights) -> dict[str, NDArray[np.float32]]:
        """Every parameter by name, with the normalisation of observations that belongs to them."""
        named = {
            name: weights.params[offset : offset + math.prod(shape)].reshape(shape).copy()
            for name, offset, shape in self.tensors
        }
        if self._normalizes(weights):
            named["obs.mean"], named["obs.scale"] = (
                weights.obs_mean.copy(),
                weights.obs_scale.copy(),
            )
        return encoding.with_divisors(named, self.env, self.divisors)

    def from_tensors(self, tensors: Mapping[str, NDArray[np.float32]]) -> Weights:
        """The inverse of `to_tensors`.

        Raises:
            TensorError: a tensor is missing, has another shape, or the weights were trained with
                other divisors.
        """
        check_divisors(tensors, self.env, self.divisors)
        params = np.empty(self.num_params, np.float32)
        for name, offset, shape in self.tensors:
            params[offset : offset + math.prod(shape)] = _fitting(tensors, name, shape).ravel()
        plain = self.weights(params)
        if "obs.mean" not in tensors and "obs.scale" not in tensors:
            return plain
        names = ("obs.mean", "obs.scale")
        mean, scale = (_fitting(tensors, name, (self.features,)).copy() for name in names)
        return Weights(plain.params, mean, scale)

    # ---- running ------------------------------------------------------------------------

    @cached_property
    def net(self) -> Net:
        """The description that the kernels read."""
        return description.net_of(self)

    def forward(
        self, params: Params, x: NDArray[np.float32], state: NDArray[np.float32] | None = None
    ) -> tuple[Params, Params]:
        """Head outputs [rows, outputs - 1] and values [rows] of encoded rows [rows, features].

        state: what is remembered of the rows, float32 [rows, state_size] (where that is above 0),
            which goes on to the next step in place."""
        rows = len(x)
        tiles = to_tiles(np.zeros((rows, 0), np.float32) if state is None else state)
        out = self.net.forward(np.ascontiguousarray(params, np.float32), to_tiles(x), tiles)
        if state is not None:
            state[...] = from_tiles(tiles, rows)
        flat = from_tiles(out, rows)
        return flat[:, :-1], flat[:, -1]

    def _normalizes(self, weights: Weights) -> bool:
        return bool(np.any(weights.obs_mean != 0) or np.any(weights.obs_scale != 1))

    def obs_structs(self, obs: Any) -> NDArray[Any]:
        """Observations as a C-contiguous array of Obs structs."""
        if isinstance(obs, np.ndarray) and obs.dtype == self.env.obs_dtype:
            return np.ascontiguousarray(obs)
        first = next(iter(obs.values())) if isinstance(obs, Mapping) else obs
        structs = np.zeros(len(first), self.env.obs_dtype)
        view = self.env.view_observations(structs)
        if isinstance(obs, Mapping):
            for name, target in view.items():
                target[...] = obs[name]
        else:
            view[...] = np.asarray(obs).reshape(view.shape)
        return structs

    def action_structs(self, chosen: NDArray[np.int32]) -> NDArray[Any]:
        """Action structs [rows] of int32 [rows, heads] (floats by their bits), clipped to their
        bounds."""
        structs = np.zeros(len(chosen), self.env.action_dtype)
        data = structs.view(np.uint8).reshape(len(chosen), structs.dtype.itemsize)
        for k, head in enumerate(self.heads):
            column = np.ascontiguousarray(chosen[:, k])
            if not head.size:
                column = np.clip(column.view(np.float32), head.low, head.high, dtype=np.float32)
            data[:, head.offset : head.offset + 4] = column.view(np.uint8).reshape(-1, 4)
        return structs


def _fitting(
    tensors: Mapping[str, NDArray[Any]], name: str, shape: tuple[int, ...]
) -> NDArray[np.float32]:
    """A tensor by its name; TensorError where it is not there, or another's."""
    found = tensors.get(name)
    if found is None or found.shape != shape or found.dtype != np.float32:
        got = "missing" if found is None else f"{found.dtype} {list(found.shape)}"
        raise TensorError(f"tensor {name!r} is {got}, expected float32 {list(shape)}")
    return found


def check_divisors(
    tensors: Mapping[str, NDArray[Any]], spec: EnvSpec, divisors: encoding.Divisors
) -> None:
    """TensorError where the weights have learned from numbers that were divided otherwise."""
    trained = encoding.saved_divisors(tensors, spec)
    if trained != divisors:
        raise TensorError(
            f"the weights were trained on observations divided by {list(trained)}, member by "
            f"member, and this policy divides by {list(divisors)}: make it with divisors="
            f"{trained}"
        )


def seed_key(seed: int) -> int:
    """64-bit key of a run's seed (SplitMix64's finaliser: neighbours share nothing)."""
    bits = (1 << 64) - 1
    z = (seed + 0x9E3779B97F4A7C15) & bits
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & bits
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & bits
    return z ^ (z >> 31)


def _gain(weight: str) -> float:
    """Of a matrix's initial value, by its name."""
    if weight == "core.input.weight":
        return MEMORY_GAIN
    last = {"policy.weight": POLICY_GAIN, "value.weight": VALUE_GAIN}
    return last.get(weight.removeprefix("heads."), HIDDEN_GAIN)


def _orthogonal(rng: np.random.Generator, rows: int, columns: int) -> NDArray[np.float64]:
    """A matrix [rows, columns] with orthonormal rows or columns, uniformly distributed
    (Saxe et al. 2014)."""
    normal = rng.standard_normal((max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(normal)
    q = q * np.sign(np.diag(r))
    return q if rows >= columns else q.T
