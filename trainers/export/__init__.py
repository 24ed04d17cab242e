"""Policies for elsewhere: an ONNX model, or a C header that depends on nothing.

Both take an observation as the environment has it and give the greedy action: encoding,
normalisation, layers, masks and the bounds of actions are all in the file.
"""

from __future__ import annotations

import dataclasses
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...engine.errors import ArgumentError, HeadraceError
from ..agent import AgentConfig, load_agent, objects_in
from ..codec import Codec
from ..environments import name_of
from ..policy import PolicySpec
from ..settings import ConfigError, setting
from . import c_header, network, ports

FORMATS = {"onnx": ".onnx", "c": ".h"}  # with the ending of the file


@dataclasses.dataclass(frozen=True)
class ExportConfig(AgentConfig):
    """What to export and where to."""

    format: str = setting(
        "onnx", "onnx, or c: one header that depends on nothing", choices=tuple(FORMATS)
    )
    out: str | None = setting(
        None, "the file to write (default: NAME.onnx or NAME.h in the run's folder)"
    )
    name: str | None = setting(
        None, "begins every name in the C header (default: <environment>_policy)"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.name is not None and c_header.identifier(self.name) != self.name:
            raise ConfigError(
                f"name is {self.name!r}: expected a name that C accepts, such as my_policy"
            )


@dataclasses.dataclass(frozen=True)
class ExportResult:
    """What was written."""

    run: str
    env: str
    checkpoint: int  # step after which the policy was saved
    format: str
    file: str
    bytes: int
    name: str  # that begins every name in a C header, and is the ONNX graph's
    state_size: int  # floats that the policy remembers; 0: none
    mask_size: int  # bytes of an action mask; 0: none


def export_policy(run: str, **given: Any) -> ExportResult:
    """Writes the policy of the run in folder `run` to a file that needs no headrace.

    Args:
        run: the folder of the run.
        **given: fields of `ExportConfig`. `policy` and `env` may also be the objects of Python
            with which the run was trained.

    Raises:
        ConfigError: a setting that does not exist or does not fit, or a policy of code that must
            be named again.
        RunError: no run there, no such checkpoint, or a damaged one.
        HeadraceError: a policy that the format cannot hold, a package that is missing, or a file
            that cannot be written.
    """
    module, source = objects_in(given)
    config = ExportConfig(run=str(run), **given)
    if config.format == "onnx" and find_spec("onnx") is None:
        raise HeadraceError("format onnx needs the package onnx: pip install headrace[onnx]")
    agent = load_agent(config, 1, module=module, source=source, verb="export")
    with closing(agent.vec):
        codec, player = Codec.of(agent.vec), agent.player
        name = config.name or c_header.identifier(f"{name_of(agent.vec)}_policy".lower())
        about = (
            f"A policy for the environment {codec.spec.name}, after {agent.checkpoint} steps of "
            "training."
        )
        data = rendered(codec, player.policy, player.weights, config.format, name, about)
    file = Path(config.out or Path(config.run) / (name + FORMATS[config.format]))
    try:
        file.write_bytes(data)
    except OSError as error:
        raise ArgumentError(f"out {file} cannot be written: {error.strerror}") from error
    return ExportResult(
        run=config.run,
        env=agent.trained.env,
        checkpoint=agent.checkpoint,
        format=config.format,
        file=str(file),
        bytes=len(data),
        name=name,
        state_size=_state_size(player.policy),
        mask_size=codec.spec.mask_size,
    )


def rendered(
    codec: Codec, policy: Any, weights: Any, format: str, name: str, about: str = "A policy."
) -> bytes:
    """The contents of the file.

    Args:
        codec: of the environment that the policy acts in.
        policy, weights: PolicySpec or TorchPolicy, and weights of it.
        format: "onnx" or "c".
        name: begins every name in a C header; the ONNX graph's.
        about: what the file says of itself.

    Raises:
        HeadraceError: a policy that the format cannot hold.
    """
    if isinstance(policy, PolicySpec):
        layers: network.Network | None = network.native_network(policy, weights)
    else:
        layers = network.torch_network(policy, weights)
    if layers is not None:
        layers.check_finite()
    about += " It gives the likeliest action."
    if format == "c":
        return _header(codec, policy, layers, name, about)
    return _model(codec, policy, weights, layers, name, about)


def _state_size(policy: Any) -> int:
    return int(getattr(policy, "state_size", 0))


def _model(
    codec: Codec, policy: Any, weights: Any, layers: network.Network | None, name: str, about: str
) -> bytes:
    from . import onnx_graph

    shapes = {"mask_size": codec.spec.mask_size, "state_size": _state_size(policy)}
    given: dict[str, Any] = {**shapes, "name": name, "about": about}
    own = ports.ports_of(codec, policy.divisors)
    if layers is not None:
        return onnx_graph.model_of(own, onnx_graph.network_core(layers), **given)
    from .torch_graph import torch_core

    core, opset, version = torch_core(policy, weights)
    return onnx_graph.model_of(own, core, **given, opset=opset, ir_version=version)


def _header(
    codec: Codec, policy: Any, layers: network.Network | None, name: str, about: str
) -> bytes:
    if layers is None:
        raise HeadraceError(
            f"policy {type(policy.module).__name__} cannot be written in C: only native policies "
            "and headrace.nn's MLP, CNN and Recurrent can, made of layers of headrace.nn; use "
            "--format onnx"
        )
    own = ports.ports_of(codec, policy.divisors, members=True)
    text = c_header.header_of(own, layers, mask_size=codec.spec.mask_size, name=name, about=about)
    return text.encode()
