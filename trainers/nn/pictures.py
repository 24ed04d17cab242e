"""Encoders of pictures, and the policy that has one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from gymnasium import spaces
from torch import Tensor, nn

from ...engine.errors import ArgumentError
from .layers import Heads, orthogonal
from .sizes import image_shape, to_channels_first

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
