"""`headrace envs`: lists the environments that ship."""

from __future__ import annotations

import dataclasses
from typing import Any

from .engine.registration import registered
from .engine.resolve import resolve
from .flags import Verb
from .output import print_json, print_table
from .trainers.config import read_preset
from .trainers.settings import setting
from .trainers.train import preset_of


@dataclasses.dataclass(frozen=True)
class EnvsFlags:
    """The flags of `headrace envs`."""

    json: bool = setting(False, "print the list as one JSON document on stdout")


VERB = Verb(
    "envs",
    "Lists the environments that ship: their spaces, their agents, and the mean return at which "
    "their preset counts them as solved.",
    EnvsFlags,
    "headrace envs --json",
)


def main(argv: list[str]) -> int:
    """Runs the verb."""
    given = VERB.parse(argv)
    entries = [_entry(name) for name, entry in registered().items() if entry.shipped]
    if given.get("json", False):
        print_json({"envs": entries})
    else:
        header = list(_COLUMNS)
        print_table(header, [[str(entry[_COLUMNS[c]]) for c in header] for entry in entries])
    return 0


_COLUMNS = {
    "name": "name",
    "language": "language",
    "observation": "observation_space",
    "action": "action_space",
    "agents": "agents",
    "target": "target",
}


def _entry(name: str) -> dict[str, Any]:
    spec = resolve(name).spec
    preset = preset_of(name)
    return {
        "name": name,
        "language": spec.language,
        "observation_space": str(spec.single_observation_space),
        "action_space": str(spec.single_action_space),
        "agents": spec.agents,
        "target": read_preset(preset).get("target") if preset else None,
    }
