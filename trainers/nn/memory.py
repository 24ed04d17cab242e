"""Policies that remember: cells, the policy that has one, and sequences of steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor, nn

from ...engine.errors import ArgumentError
from ..policy import GATE_BIAS, MEMORY_GAIN
from .layers import Heads, Trunk, orthogonal
from .pictures import Convolutions
from .sizes import image_shape, input_size


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
