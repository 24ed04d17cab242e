"""A policy as an ONNX model: observations as the environment has them in, greedy actions out.

Inputs, rows first: `obs`, or `obs.NAME` for each member of a Dict or Tuple; `mask` where the
environment masks actions; `state` where the policy remembers, 0 where an episode begins.
Outputs: `action`, or `action.NAME`; `outputs` (logits and means), `value`, and `next_state`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ..policy import OBS_CLIP
from .network import Cell, ChannelsFirst, Conv, Dense, Floats, Layer, Network
from .ports import Piece, Port, Ports

OPSET = 18
IR_VERSION = 8  # what onnxruntime has read since 1.12
FORBIDDEN = -1e30  # logit of a masked choice
ROWS = "rows"
Core = Callable[["Graph", str, str | None], tuple[str, str, str | None]]


class Graph:
    """Nodes and weights in the making; values are called by their names."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self._named = 0

    def add(self, kind: str, *given: str, **attributes: Any) -> str:
        """The result of an operator."""
        return self.add_many(kind, given, 1, **attributes)[0]

    def add_many(self, kind: str, given: Any, count: int, **attributes: Any) -> list[str]:
        """The results of an operator that has several."""
        self._named += 1
        names = [f"{kind.lower()}_{self._named}" + f"_{k}" * (count > 1) for k in range(count)]
        self.nodes.append(helper.make_node(kind, list(given), names, **attributes))
        return names

    def constant(self, array: Any, name: str | None = None) -> str:
        """A tensor of the model."""
        self._named += 1
        name = name or f"constant_{self._named}"
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def take(self, name: str, dtype: str, shape: tuple[int, ...]) -> str:
        """An input [rows, *shape]."""
        self.inputs.append(helper.make_tensor_value_info(name, _type(dtype), [ROWS, *shape]))
        return name

    def give(self, value: str, name: str, dtype: str, shape: tuple[int, ...]) -> None:
        """An output [rows, *shape]."""
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, _type(dtype), [ROWS, *shape]))

    def flat(self, value: str, size: int) -> str:
        """The value as [rows, size]."""
        return self.add("Reshape", value, self.constant(np.array([-1, size], np.int64)))

    def cast(self, value: str, dtype: str) -> str:
        """The value in another dtype."""
        return self.add("Cast", value, to=_type(dtype))

    def columns(self, value: str, first: int, last: int) -> str:
        """value[:, first:last]"""
        bounds = [self.constant(np.array([k], np.int64)) for k in (first, last, 1)]
        return self.add("Slice", value, *bounds)


def _type(dtype: str) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def model_of(
    ports: Ports,
    core: Core,
    *,
    mask_size: int,
    state_size: int,
    name: str,
    about: str,
    opset: int = OPSET,
    ir_version: int = IR_VERSION,
) -> bytes:
    """The model as bytes.

    Args:
        ports: of the environment, as its spaces have them.
        core: adds the layers: (graph, encoded observation, state) to (outputs, value, state).
        name, about: of the graph; what its documentation says.
    """
    graph = Graph()
    x = encode(graph, ports.observation)
    mask = graph.take("mask", "uint8", (mask_size,)) if mask_size else None
    state = graph.take("state", "float32", (state_size,)) if state_size else None
    outputs, value, after = core(graph, x, state)
    decode(graph, ports.action, outputs, mask)
    count = sum(piece.features for port in ports.action for piece in port.pieces)
    graph.give(outputs, "outputs", "float32", (count,))
    graph.give(value, "value", "float32", ())
    if after is not None:
        graph.give(after, "next_state", "float32", (state_size,))
    made = helper.make_graph(
        graph.nodes, name, graph.inputs, graph.outputs, graph.weights, doc_string=about
    )
    model = helper.make_model(
        made,
        opset_imports=[helper.make_opsetid("", opset)],
        ir_version=ir_version,
        producer_name="headrace",
    )
    onnx.checker.check_model(model, full_check=True)
    data: bytes = model.SerializeToString()
    return data


# ---- observations and actions --------------------------------------------------------------


def encode(graph: Graph, ports: tuple[Port, ...]) -> str:
    """Encoded observations float32 [rows, features] of new inputs."""
    parts = []
    for port in ports:
        given = graph.take(f"obs.{port.name}" if port.name else "obs", port.dtype, port.shape)
        flat, at = graph.flat(given, port.size), 0
        for piece in port.pieces:
            own = flat
            if len(port.pieces) > 1 and piece.size < port.size:
                own = graph.columns(flat, at, at + piece.size)
            parts.append(_encoded(graph, piece, own))
            at += piece.size
    return parts[0] if len(parts) == 1 else graph.add("Concat", *parts, axis=1)


def _encoded(graph: Graph, piece: Piece, value: str) -> str:
    if piece.choices:
        whole = graph.cast(value, "int64")
        first = np.array(piece.start, np.int64).reshape(1, -1, 1)
        choices = graph.constant(first + np.arange(piece.choices))  # [1, size, choices]
        lifted = graph.add("Unsqueeze", whole, graph.constant(np.array([2], np.int64)))
        hot = graph.cast(graph.add("Equal", lifted, choices), "float32")
        return graph.flat(hot, piece.features)
    number = graph.cast(value, "float32")
    if piece.divisor != 1.0:
        number = graph.add("Mul", number, graph.constant(np.float32(1.0 / piece.divisor)))
    return number


def decode(graph: Graph, ports: tuple[Port, ...], outputs: str, mask: str | None) -> None:
    """The likeliest action of each row, as new outputs."""
    column = masked = 0
    for port in ports:
        parts = []
        for piece in port.pieces:
            own = graph.columns(outputs, column, column + piece.features)
            column += piece.features
            if piece.choices:
                if mask is not None:
                    allowed = graph.columns(mask, masked, masked + piece.features)
                    none = graph.add("Equal", allowed, graph.constant(np.uint8(0)))
                    own = graph.add("Where", none, graph.constant(np.float32(FORBIDDEN)), own)
                    masked += piece.features
                shape = np.array([-1, piece.size, piece.choices], np.int64)
                logits = graph.add("Reshape", own, graph.constant(shape))
                chosen = graph.add("ArgMax", logits, axis=2, keepdims=0)
                first = graph.constant(np.array([piece.start], np.int64))
                parts.append(graph.add("Add", chosen, first))
            else:
                low, high = (graph.constant(np.float32(k)) for k in (piece.low, piece.high))
                parts.append(graph.add("Clip", own, low, high))
        flat = parts[0] if len(parts) == 1 else graph.add("Concat", *parts, axis=1)
        whole = graph.constant(np.array([-1, *port.shape], np.int64))
        value = graph.add("Reshape", graph.cast(flat, port.dtype), whole)
        name = f"action.{port.name}" if port.name else "action"
        graph.give(value, name, port.dtype, port.shape)


# ---- layers ----------------------------------------------------------------------------------


def normalised(graph: Graph, x: str, mean: Floats, scale: Floats) -> str:
    """(x - mean) * scale within the bounds."""
    away = graph.add("Sub", x, graph.constant(mean, "obs_mean"))
    scaled = graph.add("Mul", away, graph.constant(scale, "obs_scale"))
    low, high = (graph.constant(np.float32(k)) for k in (-OBS_CLIP, OBS_CLIP))
    return graph.add("Clip", scaled, low, high)


def network_core(network: Network) -> Core:
    """The layers of a network, for `model_of`."""

    def core(graph: Graph, x: str, state: str | None) -> tuple[str, str, str | None]:
        if network.obs_mean is not None and network.obs_scale is not None:
            x = normalised(graph, x, network.obs_mean, network.obs_scale)
        results, after = [], None
        for tower in network.towers:
            y, size = x, network.features
            for layer in tower:
                if isinstance(layer, Cell):
                    assert state is not None
                    y, after = _cell(graph, layer, y, state)
                    size = layer.size
                else:
                    y, size = _layer(graph, layer, y, size)
            results.append(y)
        out = results[0] if len(results) == 1 else graph.add("Concat", *results, axis=1)
        last = network.outputs - 1
        value = graph.columns(out, last, last + 1)
        flat = graph.add("Reshape", value, graph.constant(np.array([-1], np.int64)))
        return graph.columns(out, 0, last), flat, after

    return core


def _layer(graph: Graph, layer: Layer, x: str, size: int) -> tuple[str, int]:
    """(what comes out [rows, size], size)"""
    if isinstance(layer, Dense):
        y = _product(graph, x, layer.weight, layer.bias)
        if layer.activation:
            y = graph.add({"tanh": "Tanh", "relu": "Relu"}[layer.activation], y)
        return y, len(layer.bias)
    if isinstance(layer, ChannelsFirst):
        shape = (layer.height, layer.width, layer.channels)
        image = graph.add("Reshape", x, graph.constant(np.array([-1, *shape], np.int64)))
        return graph.flat(graph.add("Transpose", image, perm=[0, 3, 1, 2]), size), size
    assert isinstance(layer, Conv)
    shape = (layer.weight.shape[1], layer.height, layer.width)
    image = graph.add("Reshape", x, graph.constant(np.array([-1, *shape], np.int64)))
    weights = graph.constant(layer.weight), graph.constant(layer.bias)
    y = graph.add("Relu", graph.add("Conv", image, *weights, strides=[layer.stride] * 2))
    size = len(layer.bias) * layer.out_height * layer.out_width
    return graph.flat(y, size), size


def _product(graph: Graph, x: str, weight: Floats, bias: Floats | None) -> str:
    rest = () if bias is None else (graph.constant(bias),)
    return graph.add("Gemm", x, graph.constant(weight), *rest, transB=1)


def _cell(graph: Graph, cell: Cell, given: str, state: str) -> tuple[str, str]:
    """(output, state after) of a step; formulas as in nn/memory.py."""
    make = {"mingru": _mingru, "gru": _gru, "lstm": _lstm}[cell.kind]
    return make(graph, cell, given, state)


def _gates(graph: Graph, x: str, count: int, size: int) -> list[str]:
    sizes = graph.constant(np.full(count, size, np.int64))
    return graph.add_many("Split", [x, sizes], count, axis=1)


def _blend(graph: Graph, gate: str, old: str, new: str) -> str:
    """old + gate (new - old)"""
    return graph.add("Add", old, graph.add("Mul", gate, graph.add("Sub", new, old)))


def _mingru(graph: Graph, cell: Cell, given: str, state: str) -> tuple[str, str]:
    gate, new = _gates(graph, given, 2, cell.size)
    zero, half = (graph.constant(np.float32(k)) for k in (0.0, 0.5))
    positive = graph.add("GreaterOrEqual", new, zero)
    lifted = graph.add("Add", new, half)
    new = graph.add("Where", positive, lifted, graph.add("Sigmoid", new))
    after = _blend(graph, graph.add("Sigmoid", gate), state, new)
    return after, after


def _gru(graph: Graph, cell: Cell, given: str, state: str) -> tuple[str, str]:
    assert cell.weight is not None
    own = _product(graph, state, cell.weight, cell.bias)
    reset, update, new = _gates(graph, given, 3, cell.size)
    own_reset, own_update, own_new = _gates(graph, own, 3, cell.size)
    reset = graph.add("Sigmoid", graph.add("Add", reset, own_reset))
    new = graph.add("Tanh", graph.add("Add", new, graph.add("Mul", reset, own_new)))
    keep = graph.add("Sigmoid", graph.add("Add", update, own_update))
    after = _blend(graph, keep, new, state)
    return after, after


def _lstm(graph: Graph, cell: Cell, given: str, state: str) -> tuple[str, str]:
    assert cell.weight is not None
    h, c = _gates(graph, state, 2, cell.size)
    both = graph.add("Add", given, _product(graph, h, cell.weight, cell.bias))
    i, f, g, o = _gates(graph, both, 4, cell.size)
    kept = graph.add("Mul", graph.add("Sigmoid", f), c)
    added = graph.add("Mul", graph.add("Sigmoid", i), graph.add("Tanh", g))
    c = graph.add("Add", kept, added)
    h = graph.add("Mul", graph.add("Sigmoid", o), graph.add("Tanh", c))
    return h, graph.add("Concat", h, c, axis=1)
