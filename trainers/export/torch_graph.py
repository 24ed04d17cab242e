"""The layers of any torch module in an ONNX model, through torch's own exporter."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import onnx
import onnx.compose
import onnx.inliner
import torch
from torch import nn

from ...engine.errors import HeadraceError
from .network import normalises
from .onnx_graph import Core, Graph, normalised

PREFIX = "module/"


class _Flat(nn.Module):
    """A module with value [rows], whatever it gives."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: torch.Tensor, state: torch.Tensor | None = None) -> Any:
        outputs, value, *after = self.module(x) if state is None else self.module(x, state)
        return (outputs, value.reshape(-1), *after)


def torch_core(policy: Any, weights: Any) -> tuple[Core, int, int]:
    """(what adds a TorchPolicy's module to a graph, the opset and the IR version that it needs).

    Raises:
        HeadraceError: torch cannot express the module.
    """
    model = _exported(policy, weights)
    opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    normal = not policy.picture and normalises(weights)
    space = policy.env.single_observation_space
    shape = (policy.features,) if space.shape is None else space.shape

    def core(graph: Graph, x: str, state: str | None) -> tuple[str, str, str | None]:
        if normal:
            x = normalised(graph, x, weights.obs_mean, weights.obs_scale)
        own = model.graph
        given = [graph.add("Reshape", x, graph.constant(np.array([-1, *shape], np.int64)))]
        given += [] if state is None else [state]
        for value, entry in zip(given, own.input, strict=True):
            graph.nodes.append(onnx.helper.make_node("Identity", [value], [entry.name]))
        graph.nodes.extend(own.node)
        graph.weights.extend(own.initializer)
        outputs, value, *after = (entry.name for entry in own.output)
        return outputs, value, after[0] if after else None

    return core, opset, model.ir_version


def _exported(policy: Any, weights: Any) -> Any:
    """The module alone as an ONNX model of the standard operators, every name with PREFIX."""
    module = copy.deepcopy(policy.module).cpu().eval()  # it may be an object of the user's
    module.load_state_dict(dict(weights.tensors))
    raw = torch.zeros((2, policy.env.obs_dtype.itemsize), dtype=torch.uint8)
    sample: tuple[torch.Tensor, ...] = (policy.encode(raw),)
    if policy.state_size:
        sample += (torch.zeros((2, policy.state_size)),)
    rows = torch.export.Dim("rows")
    name = type(module).__name__
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                _Flat(module),
                sample,
                dynamo=True,
                dynamic_shapes=({0: rows},) * len(sample),
                verbose=False,
            )
        assert program is not None
        model = onnx.inliner.inline_local_functions(program.model_proto)
    except ModuleNotFoundError as error:
        raise HeadraceError(
            f"policy {name}: torch's exporter needs {error.name}, which is not installed: "
            "pip install headrace[onnx]"
        ) from None
    except Exception as error:
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise HeadraceError(
            f"policy {name} cannot be exported to ONNX: torch's exporter says {said[0]!r}; a "
            "forward of plain tensor operations, without branches on values, can be"
        ) from error
    return onnx.compose.add_prefix(model, PREFIX)
