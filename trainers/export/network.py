"""A policy as layers with their weights: what both formats are written from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...engine.errors import ArgumentError
from ..policy import OBS_CLIP, PolicySpec

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Dense:
    """weight x + bias, then the activation."""

    weight: Floats  # [out, in]
    bias: Floats  # [out]
    activation: str = ""  # "", "tanh" or "relu"


@dataclass(frozen=True)
class Conv:
    """Convolution without padding, then relu: [channels, height, width] in and out."""

    weight: Floats  # [out, in, kernel, kernel]
    bias: Floats  # [out]
    stride: int
    height: int  # of what comes in
    width: int

    @property
    def out_height(self) -> int:
        """Rows that come out."""
        return (self.height - self.weight.shape[2]) // self.stride + 1

    @property
    def out_width(self) -> int:
        """Columns that come out."""
        return (self.width - self.weight.shape[3]) // self.stride + 1


@dataclass(frozen=True)
class ChannelsFirst:
    """[height, width, channels] to [channels, height, width]."""

    height: int
    width: int
    channels: int


@dataclass(frozen=True)
class Cell:
    """A step of memory, as headrace.nn has it, of gates that a Dense layer before it gives."""

    kind: str  # "mingru", "gru" or "lstm"
    size: int
    weight: Floats | None = None  # of the state: [gates * size, size]
    bias: Floats | None = None


Layer = Dense | Conv | ChannelsFirst | Cell


@dataclass(frozen=True)
class Network:
    """Towers of layers over the encoded observation; their results, one after the other, are
    the policy's outputs and the value."""

    towers: tuple[tuple[Layer, ...], ...]
    features: int
    outputs: int  # the value included
    state_size: int = 0  # floats of the one Cell
    obs_mean: Floats | None = None  # subtracted before the first layer, where there is one
    obs_scale: Floats | None = None
    obs_clip: float = OBS_CLIP  # bound afterwards

    @property
    def parameters(self) -> int:
        """Numbers in the layers."""
        arrays = [getattr(layer, name, None) for t in self.towers for layer in t for name in _OWN]
        return sum(array.size for array in arrays if array is not None)

    def check_finite(self) -> None:
        """ArgumentError for a weight that is NaN or infinite."""
        for layer in (layer for tower in self.towers for layer in tower):
            for name in _OWN:
                array = getattr(layer, name, None)
                if array is not None and not np.isfinite(array).all():
                    raise ArgumentError(
                        "the policy has weights that are not finite: export another checkpoint"
                    )


_OWN = ("weight", "bias")


def normalises(weights: Any) -> bool:
    """Whether running statistics belong to the weights of a torch policy."""
    return bool(np.any(weights.obs_mean != 0) or np.any(weights.obs_scale != 1))


def native_network(policy: PolicySpec, weights: Any) -> Network:
    """Of a native policy with its weights."""
    tensors: Mapping[str, Floats] = policy.to_tensors(weights)

    def dense(name: str, activation: str = "") -> Dense:
        return Dense(tensors[f"{name}.weight"], tensors[f"{name}.bias"], activation)

    trunks, last = ["trunk"], ""
    if policy.separate:
        trunks = ["policy_trunk", "value_trunk"]
    elif policy.state_size:
        trunks, last = ["encoder.layers"], "heads."
    hidden: list[tuple[Layer, ...]] = [
        tuple(dense(f"{t}.{k}", policy.activation) for k in range(len(policy.trunk)))
        for t in trunks
    ]
    if policy.state_size:
        hidden[0] += (dense("core.input"), Cell(policy.memory, policy.state_size))
    heads = [dense(f"{last}policy"), dense(f"{last}value")]
    return Network(
        towers=_with_heads(hidden, heads),
        features=policy.features,
        outputs=policy.outputs,
        state_size=policy.state_size,
        obs_mean=tensors.get("obs.mean"),
        obs_scale=tensors.get("obs.scale"),
    )


def torch_network(policy: Any, weights: Any) -> Network | None:
    """Of a TorchPolicy whose module is one of headrace.nn's and made of layers that are known
    here; None for any other."""
    from .. import nn as blocks

    module = policy.module
    module.load_state_dict(dict(weights.tensors))
    hidden: list[tuple[Layer, ...]] | None = None
    state_size, heads = 0, module
    if type(module) is blocks.MLP:
        trunks = ("policy_trunk", "value_trunk") if module.separate else ("trunk",)
        act = _activation(module.activation)
        hidden = [tuple(_dense(layer, act) for layer in getattr(module, t)) for t in trunks]
    elif type(module) in (blocks.CNN, blocks.Recurrent) and type(module.heads) is blocks.Heads:
        encoder = _encoder(module.encoder, policy.env.single_observation_space.shape)
        heads = module.heads
        if encoder is not None and type(module) is blocks.Recurrent:
            state_size = module.state_size
            encoder = (*encoder, *_cell(module.core))
        hidden = None if encoder is None else [encoder]
        own = getattr(module, "value_encoder", None)
        if hidden is not None and own is not None:
            value = _encoder(own, policy.env.single_observation_space.shape)
            hidden = None if value is None else [*hidden, value]
    if hidden is None:
        return None
    normal = not policy.picture and normalises(weights)
    return Network(
        towers=_with_heads(hidden, [_dense(heads.policy), _dense(heads.value)]),
        features=policy.features,
        outputs=policy.outputs + 1,
        state_size=state_size,
        obs_mean=weights.obs_mean if normal else None,
        obs_scale=weights.obs_scale if normal else None,
    )


def _with_heads(
    hidden: list[tuple[Layer, ...]], heads: list[Dense]
) -> tuple[tuple[Layer, ...], ...]:
    """The last layers behind towers of their own, or side by side behind the one."""
    if len(hidden) == 2:
        return tuple((*tower, head) for tower, head in zip(hidden, heads, strict=True))
    weight = np.concatenate([head.weight for head in heads])
    return ((*hidden[0], Dense(weight, np.concatenate([head.bias for head in heads]))),)


# ---- headrace.nn -------------------------------------------------------------------------------


def _array(tensor: Any) -> Floats:
    array: Floats = tensor.detach().float().cpu().numpy().copy()
    return array


def _dense(layer: Any, activation: str = "") -> Dense:
    return Dense(_array(layer.weight), _array(layer.bias), activation)


def _activation(module: Any) -> str:
    return type(module).__name__.lower()  # Tanh, ReLU


def _encoder(module: Any, shape: tuple[int, ...] | None) -> tuple[Layer, ...] | None:
    """The layers of Trunk and Convolutions."""
    from ..nn.layers import Trunk
    from ..nn.pictures import Convolutions

    if type(module) is Trunk:
        activation = _activation(module.activation)
        return tuple(_dense(layer, activation) for layer in module.layers)
    if type(module) is not Convolutions:
        return None
    channels, height, width = module.shape
    found: list[Layer] = []
    layer: Any
    if shape is not None and len(shape) == 3 and tuple(shape) != tuple(module.shape):
        found.append(ChannelsFirst(height, width, channels))
    for layer in module.layers:
        if hasattr(layer, "kernel_size"):
            weight, bias = _array(layer.weight), _array(layer.bias)
            conv = Conv(weight, bias, layer.stride[0], height, width)
            found.append(conv)
            height, width = conv.out_height, conv.out_width
        elif hasattr(layer, "in_features"):
            found.append(_dense(layer, "relu"))
    return tuple(found)


def _cell(core: Any) -> tuple[Layer, Layer]:
    """The products of the input, then the cell."""
    recurrent = getattr(core, "recurrent", None)
    weight = None if recurrent is None else _array(recurrent.weight)
    bias = None if recurrent is None or recurrent.bias is None else _array(recurrent.bias)
    kind = type(core).__name__.lower()  # LSTM, GRU, MinGRU
    return _dense(core.input), Cell(kind, core.size, weight, bias)
