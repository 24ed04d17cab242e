"""`headrace envs`: lists the environments that ship, or explains one."""

from __future__ import annotations

import dataclasses
from typing import Any

from gymnasium import spaces

from .engine.describing import describe
from .engine.registration import registered
from .engine.spec import EnvSpec
from .explain import explain, explanation, spaces_of
from .flags import Verb
from .output import print_json, print_table
from .trainers.begin import preset_of
from .trainers.config import read_preset
from .trainers.settings import setting


@dataclasses.dataclass(frozen=True)
class EnvsFlags:
    """The flags of `headrace envs`."""

    env: str | None = setting(
        None, "the environment to explain, by name or file (default: list all)", positional=True
    )
    json: bool = setting(False, "print one JSON document on stdout")


VERB = Verb(
    "envs",
    "Lists the environments that ship: their spaces, their agents, and the mean return at which "
    "their preset counts them as solved. With ENV: explains it, and measures its speed.",
    EnvsFlags,
    "headrace envs snake",
)


def main(argv: list[str]) -> int:
    """Runs the verb."""
    given = VERB.parse(argv)
    if given.get("env") is not None:
        told = explain(given["env"])
        if given.get("json", False):
            print_json(told)
        else:
            print(explanation(told))
        return 0
    names = [name for name, entry in registered().items() if entry.shipped]
    specs = {name: describe(name) for name in names}
    if given.get("json", False):
        print_json({"envs": [_entry(name, spec) for name, spec in specs.items()]})
    else:
        header = ("name", "language", "observation", "action", "agents", "target")
        print_table(header, [_row(name, spec) for name, spec in specs.items()])
    return 0


def _entry(name: str, spec: EnvSpec) -> dict[str, Any]:
    return {
        "name": name,
        "language": spec.language,
        **spaces_of(spec),
        "agents": spec.agents,
        "target": _target(name),
    }


def _row(name: str, spec: EnvSpec) -> list[str]:
    target = _target(name)
    return [
        name,
        spec.language,
        _kind(spec.single_observation_space),
        _kind(spec.single_action_space),
        str(spec.agents),
        "-" if target is None else f"{target:g}",
    ]


def _target(name: str) -> float | None:
    preset = preset_of(name)
    return read_preset(preset).get("target") if preset else None


def _kind(space: spaces.Space) -> str:
    """A space without its bounds: Box(4,) float32, Discrete(2), MultiDiscrete(16,), Dict(a, b)."""
    if isinstance(space, spaces.Box):
        return f"Box{space.shape} {space.dtype}"
    if isinstance(space, spaces.MultiDiscrete):
        return f"MultiDiscrete{space.shape}"
    if isinstance(space, spaces.Dict):
        return f"Dict({', '.join(space.spaces)})"
    return str(space)
