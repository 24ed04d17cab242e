"""Layers that all policies are made of, and the one without pictures or memory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor, nn

from ..policy import HIDDEN_GAIN, POLICY_GAIN, VALUE_GAIN
from .sizes import continuous_size, input_size, output_size

_ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU}


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
