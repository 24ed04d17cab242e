"""Building blocks of torch policies: `headrace.nn`.

A policy is any `torch.nn.Module` that is made with (observation_space, action_space), those of
one environment, and whose

    forward(obs) -> (outputs, value)                   or, with an attribute state_size > 0,
    forward(obs, state) -> (outputs, value, state)

takes `obs` float32: [rows, *shape] for a Box, [rows, features] for every other space, and gives
`outputs` [rows, output_size(action_space)], `value` [rows] and `state` [rows, state_size], which
is 0 where an episode begins. Discrete actions read logits, continuous ones their mean, in the
order of the space; `log_std`, a parameter [continuous elements], is their log deviation (one of
zeros is added where the module has none).

Observations are encoded as for native policies: uint8 times 1/255, other numbers as they are,
discrete values one-hot; members of a Dict or Tuple one after the other (`split` takes them apart
again).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from ..engine.errors import ArgumentError
from .policy import GATE_BIAS, HIDDEN_GAIN, MEMORY_GAIN, POLICY_GAIN, VALUE_GAIN
from .spaces import SpaceCodec

__all__ = [
    "CNN",
    "GRU",
    "LSTM",
    "MLP",
    "Convolutions",
    "Heads",
    "MinGRU",
    "Recurrent",
    "ResNet",
    "image_shape",
    "input_size",
    "orthogonal",
    "output_size",
    "split",
    "unroll",
]

_ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU}


# ---- spaces ----------------------------------------------------------------------------------


def input_size(observation_space: spaces.Space) -> int:
    """Features of an encoded observation."""
    fields = SpaceCodec(observation_space, "observation").fields
    return sum(field.size * max(1, field.choices) for field in fields)


def output_size(action_space: spaces.Space) -> int:
    """Logits and means that a policy gives for one row."""
    return sum(max(1, field.choices) for field in SpaceCodec(action_space, "action").fields)


def continuous_size(action_space: spaces.Space) -> int:
    """Elements of the action that are drawn from a Gaussian."""
    return sum(field.choices == 0 for field in SpaceCodec(action_space, "action").fields)


def split(obs: Tensor, observation_space: spaces.Space) -> dict[str, Tensor]:
    """The members of an encoded Dict or Tuple [rows, features], each [rows, *shape] (one-hot:
    [rows, elements * choices]), by name: "position", or "camera.0" where they are nested."""
    fields = SpaceCodec(observation_space, "observation").fields
    sizes = [field.size * max(1, field.choices) for field in fields]
    parts = torch.split(obs.flatten(1), sizes, dim=1)
    return {
        field.name: part if field.choices else part.reshape(len(obs), *field.shape)
        for field, part in zip(fields, parts, strict=True)
    }


def image_shape(observation_space: spaces.Space) -> tuple[int, int, int] | None:
    """(channels, height, width) where the observation is a picture, else None: a Box of three
    axes, or of two and uint8, at least 5 wide and high. Channels lie on the shorter end."""
    if not isinstance(observation_space, spaces.Box):
        return None
    shape = observation_space.shape
    if len(shape) == 2 and observation_space.dtype == np.uint8:
        shape = (1, *shape)
    if len(shape) != 3:
        return None
    channels, height, width = shape if shape[0] <= shape[2] else (shape[2], shape[0], shape[1])
    return (channels, height, width) if min(height, width) >= 5 else None


def to_channels_first(obs: Tensor, shape: tuple[int, int, int]) -> Tensor:
    """Pictures [rows, channels, height, width]; `shape` as `image_shape` gives it. In memory
    channels lie side by side, which is how convolutions on the CPU are fastest."""
    if obs.dim() == 3:
        return obs.unsqueeze(1)
    first = obs if obs.shape[1:] == shape else obs.permute(0, 3, 1, 2)
    return first.contiguous(memory_format=torch.channels_last)


# ---- parts -----------------------------------------------------------------------------------


def orthogonal(layer: Any, gain: float = HIDDEN_GAIN) -> Any:
    """A layer with orthogonal weights and zero biases, as PPO starts best; returns it."""
    nn.init.orthogonal_(layer.weight, gain)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


class Heads(nn.Module):
    """The last layers: outputs for the actions (gain 0.01) and the value (gain 1)."""

    def __init__(self, features: int, action_space: spaces.Space) -> None:
        super().__init__()
        self.policy = orthogonal(nn.Linear(features, output_size(action_space)), POLICY_GAIN)
        self.value = orthogonal(nn.Linear(features, 1), VALUE_GAIN)
        numbers = continuous_size(action_space)
        if numbers:
            self.log_std = nn.Parameter(torch.zeros(numbers))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.policy(x), self.value(x).squeeze(-1)


class Trunk(nn.Module):
    """Hidden layers over a flat observation."""

    def __init__(self, features: int, hidden: Sequence[int], activation: str = "tanh") -> None:
        super().__init__()
        widths = [features, *hidden]
        self.layers = nn.ModuleList(orthogonal(nn.Linear(a, b)) for a, b in pairwise(widths))
        self.activation = _ACTIVATIONS[activation]()
        self.size = widths[-1]

    def forward(self, obs: Tensor) -> Tensor:
        x = obs.flatten(1)
        for layer in self.layers:
            x = self.activation(layer(x))
        return x


class MLP(nn.Module):
    """Hidden layers, then heads: the same network as the native policy, tensor by tensor."""

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        hidden: Sequence[int] = (64, 64),
        activation: str = "tanh",
        separate: bool = False,
    ) -> None:
        """separate: policy and value have hidden layers of their own."""
        super().__init__()
        features = input_size(observation_space)
        if separate:
            self.policy_trunk = Trunk(features, hidden, activation).layers
            self.value_trunk = Trunk(features, hidden, activation).layers
        else:
            self.trunk = Trunk(features, hidden, activation).layers
        heads = Heads(hidden[-1] if hidden else features, action_space)
        self.policy, self.value = heads.policy, heads.value
        if hasattr(heads, "log_std"):
            self.log_std = heads.log_std
        self.separate = separate
        self.activation = _ACTIVATIONS[activation]()

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        x = obs.flatten(1)
        if self.separate:
            own = self._hidden(self.value_trunk, x)
            x = self._hidden(self.policy_trunk, x)
        else:
            own = x = self._hidden(self.trunk, x)
        return self.policy(x), self.value(own).squeeze(-1)

    def _hidden(self, layers: nn.ModuleList, x: Tensor) -> Tensor:
        for layer in layers:
            x = self.activation(layer(x))
        return x


# Layers of convolutions: channels, side of the kernel, stride.
_LAYERS = {
    "nature": [(32, 8, 4), (64, 4, 2), (64, 3, 1)],
    "small": [(16, 8, 4), (32, 4, 2)],
    "grid": [(32, 3, 1), (32, 3, 1)],
    "small grid": [(16, 3, 2), (32, 3, 2)],
}


class Convolutions(nn.Module):
    """Pictures to features: where the picture is large enough (36 pixels and more) the three layers
    of Mnih et al. (2015), or the two smaller ones of Mnih et al. (2013), which take a third of the
    time; else two of 3x3 that suit grids, or two smaller ones with a stride of 2."""

    def __init__(
        self, observation_space: spaces.Space, size: int = 256, layers: str = "nature"
    ) -> None:
        """size: features that come out; layers: "nature" (2015) or "small" (2013), of grids the
        larger or the smaller.

        Raises:
            ArgumentError: the observation is no picture.
        """
        super().__init__()
        self.shape = _picture(observation_space)
        channels, height, width = self.shape
        plan = layers
        if min(height, width) < 36:
            plan = "small grid" if layers == "small" and min(height, width) >= 7 else "grid"
        found: list[nn.Module] = []
        for out, kernel, stride in _LAYERS[plan]:
            found += [orthogonal(nn.Conv2d(channels, out, kernel, stride)), nn.ReLU()]
            height, width = ((side - kernel) // stride + 1 for side in (height, width))
            channels = out
        linear = orthogonal(nn.Linear(channels * height * width, size))
        self.layers = nn.Sequential(*found, nn.Flatten(), linear, nn.ReLU())
        self.size = size

    def forward(self, obs: Tensor) -> Tensor:
        return self.layers(to_channels_first(obs, self.shape))


class Residual(nn.Module):
    """x + conv(relu(conv(relu(x))))"""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = orthogonal(nn.Conv2d(channels, channels, 3, padding=1))
        self.second = orthogonal(nn.Conv2d(channels, channels, 3, padding=1))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.second(torch.relu(self.first(torch.relu(x))))


class ResNet(nn.Module):
    """Pictures to features: the residual network of IMPALA (Espeholt et al. 2018)."""

    def __init__(
        self,
        observation_space: spaces.Space,
        size: int = 256,
        channels: Sequence[int] = (16, 32, 32),
    ) -> None:
        """Raises ArgumentError where the observation is no picture."""
        super().__init__()
        self.shape = _picture(observation_space)
        before, height, width = self.shape
        layers: list[nn.Module] = []
        for out in channels:
            layers += [
                orthogonal(nn.Conv2d(before, out, 3, padding=1)),
                nn.MaxPool2d(3, 2, padding=1),
                Residual(out),
                Residual(out),
            ]
            before, height, width = out, (height + 1) // 2, (width + 1) // 2
        linear = orthogonal(nn.Linear(before * height * width, size))
        self.layers = nn.Sequential(*layers, nn.ReLU(), nn.Flatten(), linear, nn.ReLU())
        self.size = size

    def forward(self, obs: Tensor) -> Tensor:
        return self.layers(to_channels_first(obs, self.shape))


def _picture(observation_space: spaces.Space) -> tuple[int, int, int]:
    shape = image_shape(observation_space)
    if shape is None:
        raise ArgumentError(
            f"observation_space is {observation_space}: convolutions need a Box of three axes, or "
            "of two and uint8, at least 5 wide and high"
        )
    return shape


class CNN(nn.Module):
    """An encoder of pictures, then heads."""

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        encoder: nn.Module | None = None,
        value_encoder: nn.Module | None = None,
    ) -> None:
        """encoder: pictures to features, with their number as its `size`; default:
        `Convolutions`. value_encoder: the value's own, with as many; default: it shares."""
        super().__init__()
        self.encoder = encoder or Convolutions(observation_space)
        self.value_encoder = value_encoder
        self.heads = Heads(int(self.encoder.size), action_space)  # type: ignore[arg-type]

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        x = self.encoder(obs)
        if self.value_encoder is None:
            return self.heads(x)
        return self.heads.policy(x), self.heads.value(self.value_encoder(obs)).squeeze(-1)


# ---- memory ----------------------------------------------------------------------------------


class LSTM(nn.Module):
    """Long short-term memory (Hochreiter and Schmidhuber 1997). State: output, then cell."""

    def __init__(self, features: int, size: int) -> None:
        super().__init__()
        self.size, self.state_size = size, 2 * size
        self.input = orthogonal(nn.Linear(features, 4 * size), 1.0)
        self.recurrent = orthogonal(nn.Linear(size, 4 * size, bias=False), 1.0)
        with torch.no_grad():
            self.input.bias[size : 2 * size] = 1.0  # remember at first

    def step(self, given: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """given: `input` of the step, [rows, 4 * size]; returns output and state."""
        h, c = state.chunk(2, dim=-1)
        i, f, g, o = (given + self.recurrent(h)).chunk(4, dim=-1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, torch.cat((h, c), dim=-1)


class GRU(nn.Module):
    """Gated recurrent unit (Cho et al. 2014)."""

    def __init__(self, features: int, size: int) -> None:
        super().__init__()
        self.size = self.state_size = size
        self.input = orthogonal(nn.Linear(features, 3 * size), 1.0)
        self.recurrent = orthogonal(nn.Linear(size, 3 * size), 1.0)

    def step(self, given: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """given: `input` of the step, [rows, 3 * size]; returns output and state."""
        reset, update, new = given.chunk(3, dim=-1)
        own_reset, own_update, own_new = self.recurrent(state).chunk(3, dim=-1)
        new = torch.tanh(new + torch.sigmoid(reset + own_reset) * own_new)
        keep = torch.sigmoid(update + own_update)
        state = keep * state + (1.0 - keep) * new
        return state, state


class MinGRU(nn.Module):
    """Minimal gated recurrent unit (Feng et al. 2024): gates see the input alone, so that all
    products of a sequence are one."""

    def __init__(self, features: int, size: int) -> None:
        super().__init__()
        self.size = self.state_size = size
        self.input = orthogonal(nn.Linear(features, 2 * size), MEMORY_GAIN)
        with torch.no_grad():  # units that remember for different whiles
            self.input.bias[:size] = torch.linspace(*GATE_BIAS, size)

    def step(self, given: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """given: `input` of the step, [rows, 2 * size]; returns output and state."""
        gate, new = given.chunk(2, dim=-1)
        new = torch.where(new >= 0, new + 0.5, torch.sigmoid(new))
        state = torch.lerp(state, new, torch.sigmoid(gate))
        return state, state


_CORES: dict[str, Any] = {"lstm": LSTM, "gru": GRU, "mingru": MinGRU}


class Recurrent(nn.Module):
    """An encoder, a memory, then heads."""

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        core: str = "lstm",
        size: int = 64,
        hidden: Sequence[int] = (64,),
        encoder: nn.Module | None = None,
        activation: str = "tanh",
    ) -> None:
        """core: "lstm", "gru" or "mingru"; size: its units; encoder: observation to features,
        with their number as its `size`; default: `Convolutions` for pictures, else hidden
        layers of the widths `hidden` with this activation.

        Raises:
            ArgumentError: an unknown core.
        """
        super().__init__()
        if core not in _CORES:
            raise ArgumentError(f"core is {core!r}: expected one of {', '.join(_CORES)}")
        if encoder is None and image_shape(observation_space) is not None:
            encoder = Convolutions(observation_space)
        self.encoder = encoder or Trunk(input_size(observation_space), hidden, activation)
        self.core = _CORES[core](int(self.encoder.size), size)  # type: ignore[arg-type]
        self.heads = Heads(self.core.size, action_space)
        self.state_size = int(self.core.state_size)

    def forward(self, obs: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, state = self.core.step(self.core.input(self.encoder(obs)), state)
        return (*self.heads(x), state)

    def unroll(
        self, obs: Tensor, state: Tensor, began: Tensor, live: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Outputs [T, rows, outputs] and values [T, rows] of a sequence, see `unroll` below."""
        steps, rows = obs.shape[:2]
        given = self.core.input(self.encoder(obs.flatten(0, 1))).unflatten(0, (steps, rows))
        seen = []
        # unbind, not given[t]: the way back of an index fills a gradient of the whole sequence
        for now, new, there in zip(
            given.unbind(), began.unsqueeze(-1).unbind(), live.unsqueeze(-1).unbind(), strict=True
        ):
            before = torch.where(new, 0.0, state)
            x, after = self.core.step(now, before)
            state = torch.where(there, after, before)
            seen.append(x)
        outputs, value = self.heads(torch.stack(seen).flatten(0, 1))
        return outputs.unflatten(0, (steps, rows)), value.unflatten(0, (steps, rows))


def unroll(
    module: nn.Module, obs: Tensor, state: Tensor, began: Tensor, live: Tensor
) -> tuple[Tensor, Tensor]:
    """A recurrent module over a sequence: outputs [T, rows, outputs] and values [T, rows].

    A module may have a faster way of its own as a method `unroll` of the same arguments.

    Args:
        obs: [T, rows, ...].
        state: [rows, state_size], before the first step.
        began: bool [T, rows]: an episode begins here, so that the state is 0.
        live: bool [T, rows]: False where a row was no step, and its state stays as it is.
    """
    own = getattr(module, "unroll", None)
    if own is not None:
        result: tuple[Tensor, Tensor] = own(obs, state, began, live)
        return result
    outputs, values = [], []
    for t in range(len(obs)):
        before = torch.where(began[t, :, None], 0.0, state)
        out, value, after = module(obs[t], before)
        state = torch.where(live[t, :, None], after, before)
        outputs.append(out)
        values.append(value.reshape(len(out)))
    return torch.stack(outputs), torch.stack(values)


def remembered(
    module: nn.Module, obs: Tensor, state: Tensor, began: Tensor, live: Tensor
) -> Tensor:
    """What a recurrent module remembers after a sequence, [rows, state_size], without a gradient.
    Arguments as `unroll` has them."""
    with torch.no_grad():
        for t in range(len(obs)):
            before = torch.where(began[t, :, None], 0.0, state)
            after = module(obs[t], before)[2]
            state = torch.where(live[t, :, None], after, before)
    return state
