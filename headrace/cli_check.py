"""`headrace check`: tests an environment against the contract."""

from __future__ import annotations

import dataclasses

from .engine.check import check
from .flags import Verb
from .output import print_json
from .trainers.params import params_for
from .trainers.settings import Pairs, required, setting


@dataclasses.dataclass(frozen=True)
class CheckFlags:
    """The flags of `headrace check`."""

    env: str = required(
        "a file of your own (my_env.c, .pyx, or .py:Class of an environment in Numba; for a "
        "gymnasium.Env there is gymnasium.utils.env_checker) or a shipped environment"
    )
    seed: int = setting(0, "seed of world 0; world w has seed + w", low=0, high=2**62)
    params: Pairs = setting(
        (), "parameters and compile-time sizes of the environment: name=number,name=number"
    )
    sanitize: bool = setting(True, "watch the memory with AddressSanitizer and UBSan")
    patience: float = setting(
        20.0, "seconds that one call may take; more on a busy machine", above=0
    )
    json: bool = setting(False, "print the report as one JSON document on stdout")


VERB = Verb(
    "check",
    "Tests whether an environment keeps the contract that training relies on: the same seed "
    "gives the same bytes, worlds are independent, observations lie in their space, nothing is "
    "written out of place. Exit code 0: it does; 1: it does not. docs/write-an-env.md explains "
    "each rule.",
    CheckFlags,
    "headrace check my_env.c",
)


def main(argv: list[str]) -> int:
    """Runs the verb; the exit code is 1 when a rule is broken."""
    given = VERB.parse(argv)
    as_json = given.pop("json", False)
    env = given.pop("env")
    report = check(env, **params_for(env, given.pop("params", ())), **given)
    if as_json:
        print_json(report.document())
    else:
        print(report.text())
    return 0 if report.passed else 1
