"""Checks all contenders, finds the best setting of each, then measures them in turn."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

from ...engine.errors import HeadraceError
from ..results import Result
from ..rounds import Repeats, repeated
from ..solving import solution
from ..spread import Spread
from ..timing import Case, iterations_for, measure
from .drivers.protocol import SOLVE, STEP, VEC
from .driving import Contender, Driver, Local
from .installing import Tell, python_of
from .ours import gymnasium_desk, headrace_desk
from .table import GYMNASIUM, OURS, PEERS
from .task import check_learnt, check_recording

ENV, RATE = "cartpole", "steps/s"
TARGET = 475.0  # mean return of the last 100 episodes at which CartPole counts as solved
TRIAL = 0.4  # seconds of the trial of a setting, as a share of a measurement
Announce = Callable[[int, int], None]


@dataclasses.dataclass(frozen=True)
class Setting:
    """One setting of one contender."""

    contender: Contender
    name: str
    group: str
    impl: str
    text: str
    threads: int
    versions: str

    @property
    def key(self) -> tuple[str, str]:
        """What it is a setting of."""
        return self.group, self.impl

    def open(self) -> Case:
        """Sets it up."""
        work = self.contender.ask(do="open", case=self.name)["work"]
        return Case(f"{self.group}/{self.impl}", self._run, work)

    def _run(self, count: int) -> None:
        self.contender.ask(do="run", case=self.name, count=count)

    def close(self) -> None:
        """Puts it away."""
        self.contender.ask(do="close", case=self.name)


@dataclasses.dataclass
class Field:
    """Who takes part, and why others do not."""

    settings: list[Setting]
    missing: list[Result]


def compare(
    names: Iterable[str],
    *,
    rounds: int,
    seconds: float,
    seeds: int,
    again: bool,
    tell: Tell,
    announce: Announce,
) -> list[Result]:
    """Everything about the contenders of these names (table.NAMES).

    rounds: measurements of each; seconds: of one; seeds: of the time to solve, 1 .. seeds;
    again: make the peers' environments anew; tell: told a sentence before what takes long.
    """  # fmt: skip
    with ExitStack() as stack:
        field = enter(stack, names, again=again, tell=tell)
        rates = [each for each in field.settings if each.group not in (SOLVE, VEC)]
        solvers = [each for each in field.settings if each.group == SOLVE]
        keys = list(dict.fromkeys(each.key for each in rates))
        total = len(rates) + rounds * len(keys) + seeds * len(solvers)
        done = 0

        def tick(_: Any = None) -> None:
            nonlocal done
            done += 1
            announce(done, total)

        chosen = choose(rates, field.missing, seconds * TRIAL, tick)
        found = rated(chosen, field.missing, rounds, seconds, tick)
        found += solved(solvers, seeds, tick)
        return [*sorted(found, key=_order), *field.missing]


def _order(result: Result) -> tuple[bool, bool, str, float]:
    """Stepping, training, solving; the fastest first."""
    sign = 1.0 if result.name == SOLVE else -1.0
    return result.name == SOLVE, result.name != STEP, result.name, sign * (result.value or 0.0)


def enter(stack: ExitStack, names: Iterable[str], *, again: bool, tell: Tell) -> Field:
    """Starts the contenders and checks that theirs is the same task."""
    field = Field([], [])
    for name in names:
        label = PEERS[name].label if name in PEERS else name
        try:
            contender = stack.enter_context(closing(_contender(name, again, tell)))
            described = contender.ask(do="describe")
            _check(contender, label, described["next_step"])
        except HeadraceError as error:
            if name == OURS:
                raise
            field.missing.append(Result.missing("peer", label, ENV, RATE, str(error)))
            continue
        versions = ", ".join(f"{k} {v}" for k, v in described["versions"].items())
        field.settings += [
            Setting(
                contender, c["case"], c["group"], c["impl"], c["setting"], c["threads"], versions
            )
            for c in described["cases"]
        ]
    return field


def _contender(name: str, again: bool, tell: Tell) -> Contender:
    if name == OURS:
        return Local(headrace_desk())
    if name == GYMNASIUM:
        return Local(gymnasium_desk())
    return Driver(PEERS[name], python_of(PEERS[name], again=again, tell=tell))


def _check(contender: Contender, label: str, next_step: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "recording.npz"
        contender.ask(do="record", path=str(path))
        check_recording(path, label, next_step=next_step)


def choose(
    settings: list[Setting], missing: list[Result], seconds: float, tick: Callable[[], object]
) -> dict[Setting, tuple[Case, int]]:
    """The fastest setting of each contender in each group, opened, and how many were tried."""
    best: dict[tuple[str, str], tuple[float, Setting, Case, int]] = {}
    for setting in settings:
        tick()
        try:
            case = setting.open()
            count = iterations_for(case, seconds)
            rate = _rate(case, count, seconds)
        except HeadraceError as error:
            note = f"{setting.text}: {error}"
            missing.append(Result.missing(setting.group, setting.impl, ENV, RATE, note))
            continue
        before = best.get(setting.key)
        tried = 1 + (before[3] if before else 0)
        if before is None or rate > before[0]:
            best[setting.key] = (rate, setting, case, tried)
            if before is not None:
                before[1].close()
        else:
            best[setting.key] = (*before[:3], tried)
            setting.close()
    return {setting: (case, tried) for _, setting, case, tried in best.values()}


def _rate(case: Case, count: int, seconds: float) -> float:
    """Of one trial."""
    name = case.name
    once = Case(name, lambda _: case.run(count), count * case.work)
    return measure([once], rounds=1, seconds=seconds)[name].median


def rated(
    chosen: dict[Setting, tuple[Case, int]],
    missing: list[Result],
    rounds: int,
    seconds: float,
    tick: Callable[[Any], object],
) -> list[Result]:
    """Measures the best settings in turn; what learnt nothing is told without a speed."""
    cases = [case for case, _ in chosen.values()]
    spreads = measure(cases, rounds=rounds, seconds=seconds, announce=tick) if cases else {}
    found = []
    for setting, (case, tried) in chosen.items():
        note = f"{setting.text}{f'; the best of {tried} settings' * (tried > 1)}"
        try:
            if setting.group != STEP:
                score = setting.contender.ask(do="score", case=setting.name)
                check_learnt(setting.impl, score["return"], score["steps"])
                note += f"; return {score['return']:.0f} after {score['steps'] / 1e6:.1f} M steps"
        except HeadraceError as error:
            missing.append(Result.missing(setting.group, setting.impl, ENV, RATE, str(error)))
            continue
        finally:
            setting.close()
        note += f" ({setting.versions})" * bool(setting.versions)
        spread = spreads[case.name]
        found.append(
            Result.measured(setting.group, setting.impl, ENV, setting.threads, spread, RATE, note)
        )
    return found


def solved(settings: list[Setting], seeds: int, tick: Callable[[Any], object]) -> list[Result]:
    """Seconds of training until the target, over seeds, the contenders in turn."""
    failed: dict[Setting, str] = {}

    def solve(setting: Setting, number: int) -> dict[str, Any] | None:
        if setting in failed:
            return None
        try:
            answer: dict[str, Any] = setting.contender.ask(
                do="solve", case=setting.name, seed=number + 1, target=TARGET
            )
        except HeadraceError as error:
            failed[setting] = str(error)
            return None
        return answer

    runs = repeated([partial(solve, each) for each in settings], seeds, tick)
    return [
        _solution(setting, found, failed.get(setting))
        for setting, found in zip(settings, runs, strict=True)
    ]


def _solution(setting: Setting, runs: Repeats[dict[str, Any] | None], error: str | None) -> Result:
    versions = f" ({setting.versions})" * bool(setting.versions)
    if error is not None:
        return Result.missing(SOLVE, setting.impl, ENV, "s", f"{setting.text}: {error}")
    found = [run for run in runs.values if run is not None]
    steps = Spread.of([run["steps"] for run in found])
    note = (
        f"{setting.text}; return {TARGET:g} over 100 episodes, {{solved}}, after "
        f"{steps.median:,.0f} ({steps.min:,.0f} … {steps.max:,.0f}) steps{versions}"
    )
    times = runs.map(lambda run: None if run is None else run["seconds"])
    return solution(SOLVE, setting.impl, ENV, setting.threads, times, "s", note)
