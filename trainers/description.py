"""A native policy as the kernels read it: plain numbers (csrc/net.h)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..engine.spec import FieldSpec
from ._native import Net

if TYPE_CHECKING:
    from .policy import PolicySpec

ACTIVATIONS = {"tanh": 1, "relu": 2}  # hr_activation
_MINGRU = 3
_DTYPES = ["float32", "uint8", "int8", "int16", "int32", "float64", "int64"]  # hr_dtype


def net_of(policy: PolicySpec) -> Net:
    """The description that the kernels read."""
    layout = {name: offset for name, offset, _ in policy.tensors}
    towers, hidden = [], 0
    for part in ("policy", "value") if policy.separate else ("",):
        output, layers, hidden = tower(policy, layout, part, hidden)
        towers.append((output, layers))
    return Net(
        features=policy.features,
        outputs=policy.outputs,
        hidden=hidden,
        width=max([1, *policy.hidden]),
        towers=towers,
        heads=heads_of(policy, layout.get(f"{policy.names.heads}log_std", 0)),
        inputs=inputs_of(policy),
        mask_size=policy.env.mask_size,
        action_size=policy.env.action_dtype.itemsize,
        obs_size=policy.env.obs_dtype.itemsize,
        plain=is_plain(policy),
        params=policy.num_params,
        state=policy.state_size,
        isa=policy.isa,
    )


def tower(
    policy: PolicySpec, layout: Mapping[str, int], part: str, hidden: int
) -> tuple[int, list[tuple[int, ...]], int]:
    """(first output, layers, first free row of hidden features) of the shared trunk, or of
    that of one part; hidden: first row for its own."""
    layers: list[tuple[int, ...]] = []

    def add(out: int, activation: int, row: int, weight: str, bias: str) -> None:
        width = layers[-1][1] if layers else policy.features
        if layers and layers[-1][2] == _MINGRU:
            width = policy.state_size
        layers.append((width, out, activation, row, layout[weight], layout[bias]))

    trunk = f"{part}_trunk" if part else policy.names.trunk
    for k, out in enumerate(policy.trunk):
        names = f"{trunk}.{k}.weight", f"{trunk}.{k}.bias"
        add(out, ACTIVATIONS[policy.activation], hidden, *names)
        hidden += out
    if policy.state_size:
        add(2 * policy.state_size, _MINGRU, hidden, "core.input.weight", "core.input.bias")
        hidden += 3 * policy.state_size  # gates, candidates, what is remembered
    actions = policy.outputs - 1
    count = {"": policy.outputs, "policy": actions, "value": 1}[part]
    last = f"{policy.names.heads}{part or 'policy'}"
    add(count, 0, -1, f"{last}.weight", f"{last}.bias")
    return actions if part == "value" else 0, layers, hidden


def heads_of(policy: PolicySpec, log_std: int) -> list[tuple[Any, ...]]:
    """The elements of the action as hr_head has them; log_std: where the first deviation lies."""
    rows, output, mask, numbers, choices = [], 0, 0, 0, 0
    for head in policy.heads:
        if head.size:
            column = mask if policy.env.mask_size else -1
            rows.append((0, head.size, output, column, choices, head.offset, 0, 0.0, 0.0))
            mask, choices = mask + head.size, choices + 1
        else:
            bounds = (head.low, head.high)
            rows.append((1, 1, output, -1, numbers, head.offset, log_std + numbers, *bounds))
            numbers += 1
        output += head.outputs
    return rows


def inputs_of(policy: PolicySpec) -> list[tuple[Any, ...]]:
    """The members of the observation as hr_input has them."""
    rows: list[tuple[Any, ...]] = []
    feature = 0
    for field, divisor in zip(policy.env.obs_fields, policy.divisors, strict=True):
        choices = field.choices if field.kind == "discrete" else 0
        dtype = _DTYPES.index(field.dtype)
        rows.append((dtype, field.offset, field.size, choices, feature, 1.0 / divisor))
        feature += field.size * per_element(field)
    return rows


def is_plain(policy: PolicySpec) -> bool:
    """Whether an Obs is exactly the features, as float32 in this order."""
    at = 0
    for field in policy.env.obs_fields:
        if (field.kind, field.dtype, field.offset) != ("box", "float32", at):
            return False
        at += 4 * field.size
    return at == policy.env.obs_dtype.itemsize


def per_element(field: FieldSpec) -> int:
    """Features of one element of an observation field."""
    return field.choices if field.kind == "discrete" else 1
