"""`headrace scale`: what more replicas buy, and what they cost."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from pathlib import Path
from typing import Any

from .flags import UsageError, Verb
from .output import print_json
from .trainers.begin import preset_of
from .trainers.config import TrainConfig, configure
from .trainers.settings import Values, required, setting


@dataclasses.dataclass(frozen=True)
class ScaleFlags:
    """The flags of `headrace scale`."""

    env: str = required(
        "a shipped environment, a file of yours, a Python environment (gymnasium:CartPole-v1), or "
        "waiting: CartPole whose steps sleep, to check the fitted law with"
    )
    value_of_hour: float = setting(1.0, "what an hour of waiting costs", low=0)
    price_per_core_hour: float = setting(
        0.05, "what a core costs for an hour, in the same currency", low=0
    )
    price_per_gpu_hour: float = setting(
        2.0, "what a GPU costs for an hour, where the policy acts on one", low=0
    )
    replicas: tuple[int, ...] | None = setting(
        None,
        "numbers of replicas (default: 1, 2, 4, ... to twice the cores, and on while a doubling "
        "gains 10 %)",
    )
    envs_per_replica: tuple[int, ...] | None = setting(
        None, "environments of each replica (default: 64,256,1024; 4,16,64 in Python)"
    )
    hidden: tuple[int, ...] | None = setting(
        None, "widths of the policy's hidden layers (default: the preset's)"
    )
    policy: str = setting(
        "native", "the policy that acts: native, torch, or your own (FILE.py:Class)"
    )
    device: str = setting("cpu", "where a torch policy acts: cpu, cuda, cuda:1")
    threads: tuple[int, ...] | None = setting(
        None, "numbers of threads that torch acts with (default: 1); native ones are replicas"
    )
    params: Values = setting((), "parameters of the environment: name=number,name=number")
    repeats: int = setting(5, "how often everything is measured", low=5, high=1000)
    quick: bool = setting(False, "shorter runs: rougher figures")
    plots: str | None = setting(None, "also draw the front and the law into this PNG file")
    json: bool = setting(False, "print the results as one JSON document on stdout")
    out: str | None = setting(None, "also write the JSON document to this file")


VERB = Verb(
    "scale",
    "Prices inference: measures environments and the policy that acts in them by the number of "
    "replicas and of environments each, tells what every step of speed costs, and recommends a "
    "setting for what waiting is worth to you.",
    ScaleFlags,
    "headrace scale gymnasium:LunarLander-v3 --value-of-hour 20 --price-per-core-hour 0.05",
)
QUICK_SECONDS, FULL_SECONDS = 0.2, 1.0  # of one measurement


def main(argv: list[str]) -> int:
    """Runs the verb: tables on stderr, with --json one document on stdout."""
    flags = ScaleFlags(**VERB.parse(argv))
    config = _config(flags)
    _check_threads(flags)
    from .bench import machine
    from .bench.given import Given, watching
    from .bench.interference import Interference, forewarn, told
    from .bench.results import save
    from .bench.scale.advice import candidates, undecided
    from .bench.scale.choice import Prices
    from .bench.scale.measuring import describe, in_python, scale
    from .bench.scale.report import Findings, print_findings, whole_document

    if flags.plots is not None:
        from .bench.plots import check_plots
        from .bench.scale.plot import plot

        check_plots()
    here = {**machine.describe([]), "command": shlex.join(["headrace", "scale", *argv])}
    what = describe(config)
    forewarn()
    watch, given = Interference(), Given(again=not flags.quick)
    prices = Prices(flags.value_of_hour, flags.price_per_core_hour, flags.price_per_gpu_hour)
    with watching(given):
        measured = scale(
            config,
            replicas=flags.replicas,
            envs=flags.envs_per_replica,
            threads=flags.threads,
            rounds=flags.repeats,
            seconds=QUICK_SECONDS if flags.quick else FULL_SECONDS,
            announce=_announce,
            unclear=lambda found: undecided(
                candidates(found, what["cores"], waits=in_python(config)), prices
            ),
        )
    _announce(0, 0)
    here |= told(watch, given)
    found = Findings.of(measured, what["cores"], prices, waits=in_python(config))
    print_findings(here, what, found)
    contents = whole_document(here, what, found)
    if flags.plots is not None:
        plot(found, f"{what['env']} on {what['cores']} cores", Path(flags.plots))
    if flags.out is not None:
        save(Path(flags.out), contents)
    if flags.json:
        print_json(contents)
    return 0


def _config(flags: ScaleFlags) -> TrainConfig:
    """The environment with its preset's policy, unless that is given."""
    given: dict[str, Any] = {"params": flags.params} if flags.params else {}
    if flags.policy != "native":
        given |= {"policy": flags.policy, "device": flags.device}
    if flags.hidden is not None:
        given["hidden"] = flags.hidden
    return configure(flags.env, preset_of(flags.env), given)


def _check_threads(flags: ScaleFlags) -> None:
    """Threads and a device are torch's; a thread of a native policy is a replica."""
    for name, given in (("threads", flags.threads), ("device", flags.device != "cpu")):
        if given and flags.policy == "native":
            raise UsageError(
                f"--{name} is of a torch policy: add --policy torch, or take --replicas, which are "
                "the threads of native environments and policies"
            )


def _announce(done: int, total: int) -> None:
    """One line on a terminal's stderr, gone at the end."""
    if sys.stderr.isatty():
        line = f"measuring {done}/{total}" if total else ""
        print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
