"""What a policy's layers must be as wide as: sizes and shapes of encoded spaces."""

from __future__ import annotations

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from ..spaces import SpaceCodec


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
