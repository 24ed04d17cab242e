"""`headrace export`: a run's policy as a file that needs no headrace."""

from __future__ import annotations

import dataclasses

from .flags import Verb
from .output import print_json, print_table
from .trainers.export import ExportConfig, export_policy
from .trainers.settings import setting


@dataclasses.dataclass(frozen=True)
class ExportFlags(ExportConfig):
    """The flags of `headrace export`: every field of the configuration, and this."""

    json: bool = setting(False, "print the result as one JSON document on stdout")


VERB = Verb(
    "export",
    "Writes the policy of a run to a file that needs no headrace: an ONNX model, or one C header "
    "without dependencies. It takes an observation and gives the likeliest action; encoding and "
    "normalisation are in it.",
    ExportFlags,
    "headrace export runs/cartpole-20260101-120000 --format c --out cartpole_policy.h",
)


def main(argv: list[str]) -> int:
    """Runs the verb."""
    given = VERB.parse(argv)
    as_json = given.pop("json", False)
    result = dataclasses.asdict(export_policy(**given))
    if as_json:
        print_json(result)
    else:
        print_table(("what", "value"), [(name, str(value)) for name, value in result.items()])
    return 0
