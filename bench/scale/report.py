"""What `headrace scale` says: one document, and tables for people."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import Any

from ..interference import warning
from ..results import Result, document, shown
from ..spread import Spread
from .advice import Advice, advise, candidates, reason
from .choice import Measured, Prices, Step, fastest, front, in_turn, one_waits, slowest
from .model import Law, LeftOut, fit, left_out, usable

COST, GPU_COST = "core-s/M", "GPU-s/M"  # core- and GPU-seconds per million steps
PREDICTED = (4, 8, 16, 32, 64)  # replicas


@dataclasses.dataclass(frozen=True)
class Findings:
    """What follows from the measurements."""

    measured: Sequence[Measured]
    cores: int
    prices: Prices
    front: list[Step]
    law: Law
    fitted: dict[int, float]  # the speeds that the law was fitted to, by replicas
    checks: list[LeftOut]
    advice: Advice
    reason: str

    @classmethod
    def of(
        cls, measured: Sequence[Measured], cores: int, prices: Prices, *, waits: bool
    ) -> Findings:
        """Works them out. waits: replicas may wait for something that needs no core."""
        best = [fastest(measured, n).point for n in sorted({each.replicas for each in measured})]
        points = [(p.replicas, p.speed, p.cores) for p in best]
        fitted = usable(points, cores, waits=waits and one_waits(measured))
        law = fit(fitted)
        advice = advise(candidates(measured, cores, waits=waits), prices)
        why = reason(advice, measured, law, prices)
        return cls(
            measured, cores, prices, front(measured), law, fitted, left_out(fitted), advice, why
        )

    def predictions(self) -> list[tuple[int, float]]:
        """(replicas, steps per second) beyond what was measured."""
        most = max(each.replicas for each in self.measured)
        beyond = max(most, self.cores)
        return [(n, self.law.speed(n)) for n in PREDICTED if n > beyond]


def whole_document(
    machine: dict[str, Any], what: dict[str, Any], found: Findings
) -> dict[str, Any]:
    """{machine, what, front, model, recommendation, results}"""
    contents = document(machine, _results(what["env"], found.measured))
    return {
        "machine": contents["machine"],
        "what": what,
        "front": [_step(step) for step in found.front],
        "model": _model(found),
        "recommendation": _recommendation(found),
        "results": contents["results"],
    }


def _results(env: str, measured: Sequence[Measured]) -> list[Result]:
    found = []
    for each in measured:
        note = f"{each.replicas} replicas of {each.envs} environments"
        if each.threads is not None:
            note += f", {each.threads} threads of torch"
        kinds = [("", each.speed, "steps/s"), ("-cost", each.cost, COST)]
        kinds.append(("-busy", each.cores, "cores"))
        if each.gpus:
            kinds.append(("-gpu", each.gpu_cost, GPU_COST))
        for kind, spread, unit in kinds:
            name = each.name + kind
            found.append(Result.measured(name, "headrace", env, each.replicas, spread, unit, note))
    return found


def _step(step: Step) -> dict[str, Any]:
    return {
        "replicas": step.point.replicas,
        "envs_per_replica": step.point.envs,
        "steps_per_second": step.point.speed,
        "core_seconds_per_million": step.point.cost,
        "gpu_seconds_per_million": step.measured.gpu_cost.median,
        "speedup": step.speedup.median,
        "cost_ratio": step.costs.median,
        "marginal_core_seconds_per_million": step.marginal and step.marginal.median,
    }


def _model(found: Findings) -> dict[str, Any]:
    law = found.law
    return {
        "law": "Universal Scalability Law (Gunther 2007)",
        "steps_per_second_of_one": law.rate,
        "serial": law.serial,
        "crosstalk": law.crosstalk,
        "fitted_to": {str(n): speed for n, speed in found.fitted.items()},
        "left_out": [{**dataclasses.asdict(check), "error": check.error} for check in found.checks],
        "predictions": [
            {"replicas": n, "steps_per_second": speed, "prediction": True}
            for n, speed in found.predictions()
        ],
    }


def _recommendation(found: Findings) -> dict[str, Any]:
    chosen, above = found.advice.chosen, found.advice.excess
    return {
        "replicas": chosen.replicas,
        "envs_per_replica": chosen.envs,
        "threads": chosen.threads,
        "reason": found.reason,
        "value_of_hour": found.prices.value_of_hour,
        "price_per_core_hour": found.prices.core_hour,
        "price_per_gpu_hour": found.prices.gpu_hour,
        "price_per_million_steps": found.prices.million(chosen.point),
        "above_lowest": {"median": above.median, "min": above.min, "max": above.max},
    }


def print_findings(machine: dict[str, Any], what: dict[str, Any], found: Findings) -> None:
    """Tables and the recommendation, on stderr."""
    from rich.console import Console

    console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
    console.width = max(console.width, 220)
    console.print(f"{machine['cpu']}, {machine['cores']} usable cores", markup=False)
    console.print(f"$ {machine['command']}", markup=False)
    disturbed = warning(machine)
    if disturbed is not None:
        console.print(f"[yellow]{disturbed}[/]")
    console.print(_table(what, found))
    console.print(_law_lines(found), markup=False)
    console.print(_recommended(what, found), markup=False)


def _recommended(what: dict[str, Any], found: Findings) -> str:
    prices, chosen = found.prices, found.advice.chosen
    paid = [f"{prices.value_of_hour:g} for an hour of waiting"]
    paid.append(f"{prices.core_hour:g} for a core-hour")
    if what["gpus"]:
        paid.append(f"{prices.gpu_hour:g} for a GPU-hour")
    threads = "" if chosen.threads is None else f"torch on {chosen.threads} threads, "
    return f"At {', '.join(paid)}: {chosen.envs} environments per replica, {threads}{found.reason}."


def _table(what: dict[str, Any], found: Findings) -> Any:
    """Every column but the first: median (least … greatest) over the rounds."""
    from rich.table import Table

    title = f"{what['env']}: a replica is a {what['replica']}; policy {what['policy']}"
    if what["gpus"]:
        title += f" on {what['device']}"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    torch = any(each.threads is not None for each in found.measured)
    headers = ["replicas", "envs each", *(["threads"] if torch else []), "steps/s", "busy cores",
               COST, *([GPU_COST] if what["gpus"] else []), "speed-up", "cost", "marginal",
               "front"]  # fmt: skip
    for header in headers:
        table.add_column(header, justify="right", no_wrap=True)
    steps = {step.measured: step for step in found.front}
    first = slowest(found.measured)
    for each in found.measured:
        step = steps.get(each)
        table.add_row(
            str(each.replicas),
            str(each.envs),
            *([str(each.threads)] if torch else []),
            _spread(each.speed),
            _spread(each.cores),
            _spread(each.cost),
            *([_spread(each.gpu_cost)] if what["gpus"] else []),
            f"{_spread(in_turn(each.speed, first.speed))} ×",
            f"{_spread(in_turn(each.cost, first.cost))} ×",
            "" if step is None or step.marginal is None else _spread(step.marginal),
            "*" if step is not None else "",
        )
    return table


def _spread(spread: Spread) -> str:
    low, middle, high = (shown(value, "") for value in (spread.min, spread.median, spread.max))
    return f"{middle} ({low} … {high})"


def _law_lines(found: Findings) -> str:
    law = found.law
    counts = ", ".join(map(str, found.fitted))
    lines = [
        f"Fitted to {counts} replicas: {100 * min(law.serial, 1):.3g} % of the work is serial, "
        f"crosstalk {law.crosstalk:.2g} (Universal Scalability Law)."
    ]
    if found.checks:
        told = ", ".join(f"{c.replicas}: {100 * c.error:+.0f} %" for c in found.checks)
        lines.append(f"Each left out and predicted from the others: {told}.")
    else:
        lines.append("Too few points to check its form here.")
    if found.predictions():
        told = ", ".join(f"{n}: {shown(speed, '')}" for n, speed in found.predictions())
        lines.append(f"PREDICTED, not measured, each replica on a core of its own: {told} steps/s.")
    return "\n".join(lines)
