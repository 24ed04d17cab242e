"""What `headrace scale` says: one document, and tables for people."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import Any

from ..interference import warning
from ..results import Result, document, shown
from .choice import Point, Prices, Step, fastest, front, reason, recommend, slowest
from .measuring import Measured
from .model import Law, LeftOut, fit, left_out, usable

COST = "core-s/M"  # core-seconds per million steps
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
    chosen: Point
    reason: str

    @classmethod
    def of(
        cls, measured: Sequence[Measured], cores: int, prices: Prices, *, waits: bool
    ) -> Findings:
        """Works them out. waits: replicas may wait for something that needs no core."""
        points = [each.point for each in measured]
        best = [fastest(points, n) for n in sorted({point.replicas for point in points})]
        fitted = usable([(p.replicas, p.speed, p.cores) for p in best], cores, waits=waits)
        law = fit(fitted)
        chosen = recommend(points, prices)
        why = reason(chosen, points, law, prices)
        return cls(
            measured, cores, prices, front(points), law, fitted, left_out(fitted), chosen, why
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
        name = f"replicas-{each.replicas}-envs-{each.envs}"
        note = f"{each.replicas} replicas of {each.envs} environments"
        for kind, spread, unit in (
            ("", each.speed, "steps/s"),
            ("-cost", each.cost, COST),
            ("-busy", each.cores, "cores"),
        ):
            found.append(
                Result.measured(name + kind, "headrace", env, each.replicas, spread, unit, note)
            )
    return found


def _step(step: Step) -> dict[str, Any]:
    return {
        "replicas": step.point.replicas,
        "envs_per_replica": step.point.envs,
        "steps_per_second": step.point.speed,
        "core_seconds_per_million": step.point.cost,
        "speedup": step.speedup,
        "cost_ratio": step.costs,
        "marginal_core_seconds_per_million": step.marginal,
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
    return {
        "replicas": found.chosen.replicas,
        "envs_per_replica": found.chosen.envs,
        "reason": found.reason,
        "value_of_hour": found.prices.value_of_hour,
        "price_per_core_hour": found.prices.core_hour,
        "price_per_million_steps": found.prices.million(found.chosen),
    }


def print_findings(machine: dict[str, Any], what: dict[str, Any], found: Findings) -> None:
    """Tables and the recommendation, on stderr."""
    from rich.console import Console

    console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
    console.width = max(console.width, 110)
    console.print(f"{machine['cpu']}, {machine['cores']} usable cores", markup=False)
    console.print(f"$ {machine['command']}", markup=False)
    disturbed = warning(machine)
    if disturbed is not None:
        console.print(f"[yellow]{disturbed}[/]")
    console.print(_table(what, found))
    console.print(_law_lines(found), markup=False)
    prices = found.prices
    console.print(
        f"At {prices.value_of_hour:g} for an hour of waiting and {prices.core_hour:g} for a "
        f"core-hour: {found.chosen.envs} environments per replica, {found.reason}.",
        markup=False,
    )


def _table(what: dict[str, Any], found: Findings) -> Any:
    from rich.table import Table

    title = f"{what['env']}: a replica is a {what['replica']}; policy {what['policy']}"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for header in ("replicas", "envs each", "steps/s", "min", "max", "busy cores", "core-s/M",
                   "speed-up", "cost", "marginal", "front"):  # fmt: skip
        table.add_column(header, justify="right", no_wrap=True)
    steps = {(step.point.replicas, step.point.envs): step for step in found.front}
    first = slowest([each.point for each in found.measured])
    for each in found.measured:
        step = steps.get((each.replicas, each.envs))
        marginal = "" if step is None or step.marginal is None else f"{step.marginal:.3g}"
        table.add_row(
            str(each.replicas),
            str(each.envs),
            *(shown(x, "") for x in (each.speed.median, each.speed.min, each.speed.max)),
            f"{each.cores.median:.2f}",
            f"{each.cost.median:.3g}",
            f"{each.point.speed / first.speed:.2f} ×",
            f"{each.point.cost / first.cost:.2f} ×",
            marginal,
            "*" if step is not None else "",
        )
    return table


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
