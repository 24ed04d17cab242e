"""Which settings are measured, and what `headrace bench peers` says of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from headrace.bench.batches import headrace_batch
from headrace.bench.peers import benchmark, comparing
from headrace.bench.peers.comparing import compare, enter
from headrace.bench.peers.drivers.protocol import SOLVE, STEP, TRAIN_128, Case, Desk, Running
from headrace.bench.peers.driving import Local, PeerError
from headrace.bench.spread import Spread
from headrace.cli import main
from headrace.flags import UsageError


class Slow:
    """Cases whose speed is a number: steps per second of an iteration's work."""

    def __init__(self) -> None:
        self.opened: list[str] = []

    def case(self, name: str, group: str, impl: str, work: float, score: Any = None) -> Case:
        def make() -> Running:
            self.opened.append(name)
            if work == 0:
                raise PeerError("does not start")
            closed = lambda: self.opened.remove(name)  # noqa: E731
            return Running(work, lambda _: None, lambda: (score, 1_000_000), closed)

        return Case(name, group, impl, f"setting {name}", 2, make)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    """Contenders `headrace` and `gymnasium`; an iteration of anything takes a second."""
    made = Slow()

    def solve(seconds: float) -> Callable[[int, float], dict[str, Any]]:
        return lambda seed, target: {
            "seconds": seconds * seed, "steps": 10, "return": target
        }  # fmt: skip

    ours = [
        made.case("k", STEP, "headrace kernel", 4000.0),
        made.case("t", TRAIN_128, "headrace", 300.0, 450.0),
        Case("s", SOLVE, "headrace", "the preset", 2, solve=solve(0.5)),
    ]
    theirs = [
        made.case("a", STEP, "Peer", 10.0),
        made.case("b", STEP, "Peer", 40.0),
        made.case("c", STEP, "Peer", 20.0),
        made.case("d", STEP, "Peer", 0.0),
        made.case("u", TRAIN_128, "Peer", 30.0, 200.0),
        made.case("v", TRAIN_128, "Lazy", 30.0, 22.0),
        Case("s", SOLVE, "Peer", "tuned", 1, solve=solve(20.0)),
    ]
    recorded = headrace_batch(8, 1, copy=True)
    desks = {"headrace": Desk((), recorded, ours), "gymnasium": Desk(("numpy",), recorded, theirs)}

    def contender(name: str, *_: Any) -> Local:
        if name not in desks:
            raise PeerError("cannot be had")
        return Local(desks[name])

    def measure(cases: Any, *, rounds: int, announce: Any = bool, **_: Any) -> dict[str, Spread]:
        for number in range(rounds * len(cases)):
            announce(number)
        return {case.name: Spread.of([case.work] * rounds) for case in cases}

    monkeypatch.setattr(comparing, "_contender", contender)
    monkeypatch.setattr(comparing, "measure", measure)
    monkeypatch.setattr(comparing, "iterations_for", lambda *_: 1)
    return made


def results(names: list[str], told: list[tuple[int, int]] | None = None) -> list[Any]:
    return compare(
        names, rounds=5, seconds=1.0, seeds=3, again=False, tell=bool,
        announce=lambda done, total: None if told is None else told.append((done, total)),
    )  # fmt: skip


def test_each_peer_at_its_best(slow: Slow) -> None:
    told: list[tuple[int, int]] = []
    found = results(["headrace", "gymnasium", "sb3"], told)
    by = {(each.name, each.impl): each for each in found if each.value is not None}
    best = by[STEP, "Peer"]
    assert (best.value, best.repeats, best.threads) == (40.0, 5, 2)
    assert "setting b; the best of 3 settings (numpy" in best.note
    assert by[TRAIN_128, "Peer"].value == 30.0
    assert "return 200 after 1.0 M steps" in by[TRAIN_128, "Peer"].note
    assert by[SOLVE, "headrace"].samples == (0.5, 1.0, 1.5)
    assert "3 of 3 seeds solved, after 10 (10 … 10) steps" in by[SOLVE, "Peer"].note
    assert slow.opened == ["d"]  # which never opened; all others were closed
    assert told[-1][0] == told[-1][1] == 8 + 5 * 5 + 3 * 2


def test_what_cannot_be_measured_is_told(slow: Slow) -> None:
    missing = {each.impl: each.note for each in results(["headrace", "gymnasium", "sb3"])
               if each.value is None}  # fmt: skip
    assert missing["Stable-Baselines3"] == "cannot be had"
    assert "did not learn: mean return 22" in missing["Lazy"]
    assert missing["Peer"] == "setting d: does not start"


def test_headrace_itself_must_work(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise PeerError("another task")

    monkeypatch.setattr(comparing, "check_recording", broken)
    with ExitStack() as stack, pytest.raises(PeerError, match="another task"):
        enter(stack, ["headrace"], again=False, tell=bool)
    with ExitStack() as stack:
        field = enter(stack, ["gymnasium"], again=False, tell=bool)
        assert (field.settings, field.missing[0].note) == ([], "another task")


def test_ratios(slow: Slow) -> None:
    found = dict(benchmark.ratios(results(["headrace", "gymnasium"])))
    assert {sentence: ratio.median for sentence, ratio in found.items()} == {
        "stepping, kernel: the speed of Peer": 100.0,
        "training, 1×128, 1 epoch: the speed of Peer": 10.0,
        "time to solve: faster than Peer": 40.0,
    }


def test_the_command(slow: Slow, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "peers", "--json", "--quick", "--only", "gymnasium"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["results"][0]["impl"] == "headrace kernel"
    assert document["results"][0]["repeats"] == 5


def test_names() -> None:
    assert benchmark.chosen("sb3, envpool") == ["headrace", "envpool", "sb3"]
    assert len(benchmark.chosen(None)) == 7
    with pytest.raises(UsageError, match="unknown peer 'enpool'; did you mean envpool"):
        benchmark.chosen("enpool")
