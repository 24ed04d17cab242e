"""`headrace bench all`: every benchmark, one after the other, into one document."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..flags import Verb
from . import machine
from .benchmark import Flags, Report
from .cli import BENCHMARKS, benchmark_named, checked_plots, finish, run
from .distance import Distance
from .interference import together
from .results import Result

QUICK = ("env", "vec", "kernels", "train")  # those that --quick keeps
LEAST_REPEATS = 5
PRESETS = {"envs": "all", "seeds": 3}  # of a second run of train

VERB = Verb(
    "bench all",
    "Runs every benchmark. With --quick those that take less than two minutes together: env, "
    "vec, kernels and the training of cartpole. Names in the document are BENCHMARK/NAME.",
    Flags,
    "headrace bench all --quick --out quick.json",
)


def main(argv: list[str]) -> int:
    """Prints the tables of each as soon as it is done, then the one document."""
    flags = Flags(**VERB.parse(argv))
    checked_plots(flags)
    here = machine.describe(["all", *argv])
    found: list[Result] = []
    runs: list[tuple[str, dict[str, Any]]] = [(name, {}) for name in BENCHMARKS]
    if flags.quick:
        runs = [(name, {"repeats": LEAST_REPEATS}) for name in BENCHMARKS if name in QUICK]
    else:
        runs.append(("train", PRESETS))
    meanwhile: list[dict[str, Any]] = []
    distance = Distance()
    for name, given in runs:
        benchmark = benchmark_named(name)
        report = run(benchmark, benchmark.flags(quick=flags.quick, **given), here, distance)
        meanwhile.append({**here})
        found += [dataclasses.replace(each, name=f"{name}/{each.name}") for each in report.results]
    finish(flags, here | together(meanwhile), Report("All", found))
    return 0
