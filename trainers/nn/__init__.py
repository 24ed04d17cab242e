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

Observations are encoded as for native policies: integers divided by the greatest that they can be
(255 for pictures of bytes), other numbers as they are, discrete values one-hot; members of a Dict
or Tuple one after the other (`split` takes them apart again).
"""

from __future__ import annotations

from .layers import MLP, Heads, orthogonal
from .memory import GRU, LSTM, MinGRU, Recurrent, unroll
from .pictures import CNN, Convolutions, ResNet
from .sizes import continuous_size, image_shape, input_size, output_size, split

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
    "continuous_size",
    "image_shape",
    "input_size",
    "orthogonal",
    "output_size",
    "split",
    "unroll",
]
