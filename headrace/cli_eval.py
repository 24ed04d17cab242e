"""`headrace eval`: measures the agent of a run."""

from __future__ import annotations

import dataclasses

from .flags import Verb
from .output import print_json, print_table
from .trainers.evaluate import EvalConfig, evaluate
from .trainers.settings import setting


@dataclasses.dataclass(frozen=True)
class EvalFlags(EvalConfig):
    """The flags of `headrace eval`: every field of the configuration, and this."""

    json: bool = setting(False, "print the result as one JSON document on stdout")


VERB = Verb(
    "eval",
    "Plays episodes with the agent of a run and sums up their returns. Each environment plays "
    "the same number of episodes, so that short ones do not count more often than long ones.",
    EvalFlags,
    "headrace eval runs/cartpole-20260101-120000 --episodes 100",
)


def main(argv: list[str]) -> int:
    """Runs the verb."""
    given = VERB.parse(argv)
    as_json = given.pop("json", False)
    result = dataclasses.asdict(evaluate(**given))
    if as_json:
        print_json(result)
    else:
        shown = [
            (name, f"{v:.6g}" if isinstance(v, float) else str(v)) for name, v in result.items()
        ]
        print_table(("figure", "value"), shown)
    return 0
