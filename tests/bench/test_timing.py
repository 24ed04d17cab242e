"""Timing by rounds, with a clock of the test's own."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from headrace.bench.spread import Spread
from headrace.bench.timing import Case, iterations_for, measure, measure_anew


class Clock:
    """Seconds that pass only when a case runs."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def case(self, name: str, seconds: float, work: float = 1.0) -> Case:
        def run(count: int) -> None:
            self.now += count * seconds

        return Case(name, run, work)


def test_spread_is_median_and_extremes() -> None:
    spread = Spread.of([3.0, 1.0, 10.0, 2.0, 4.0])
    assert (spread.median, spread.min, spread.max, spread.repeats) == (3.0, 1.0, 10.0, 5)
    assert Spread.of([1.0, 2.0]).median == 1.5
    with pytest.raises(ValueError, match="at least one"):
        Spread.of([])


def test_ratios_are_of_the_same_round() -> None:
    """A machine at half its speed for one round changes no ratio."""
    fast, slow = Spread.of([4.0, 2.0, 4.0]), Spread.of([2.0, 1.0, 2.0])
    assert fast.over(slow).samples == (2.0, 2.0, 2.0)
    assert fast.over(Spread.of([1.0, 2.0])).samples == (4.0, 2.0, 2.0, 1.0, 4.0, 2.0)


def test_spread_in_another_unit_keeps_the_order() -> None:
    spread = Spread.of([2.0, 8.0, 4.0]).map(lambda rate: 1 / rate)
    assert spread == Spread.of([0.5, 0.125, 0.25])


@pytest.mark.parametrize(("seconds", "expected"), [(1e-6, 200_000), (0.05, 4), (7.0, 1)])
def test_iterations_fill_the_time(seconds: float, expected: int) -> None:
    clock = Clock()
    assert iterations_for(clock.case("case", seconds), 0.2, clock) == pytest.approx(expected)


def test_measure_counts_work_per_second() -> None:
    clock = Clock()
    cases = [clock.case("slow", 0.01, work=100), clock.case("fast", 0.001, work=100)]
    rates = measure(cases, rounds=5, seconds=0.1, clock=clock)
    assert rates["slow"].median == pytest.approx(10_000)
    assert rates["fast"].median == pytest.approx(100_000)
    assert rates["fast"].repeats == 5


def test_what_still_keeps_cores_busy_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, slept = Clock(), []
    monkeypatch.setattr("time.sleep", slept.append)
    busy, quiet = clock.case("busy", 0.01), clock.case("quiet", 0.01)
    found = measure([Case("busy", busy.run, rest=0.7), quiet], rounds=2, seconds=0.1, clock=clock)
    assert found["busy"].median == pytest.approx(found["quiet"].median)  # no part of its time
    assert [each for each in slept if each] == [0.7] * 3  # after the warm-up and each round


def test_rounds_are_interleaved_without_the_garbage_collector() -> None:
    clock, order, collecting = Clock(), [], []

    def noting(name: str) -> Case:
        def run(count: int) -> None:
            order.append(name)
            collecting.append(gc.isenabled())
            clock.now += count

        return Case(name, run)

    told: list[int] = []
    cases = [noting("a"), noting("b")]
    measure(cases, rounds=3, seconds=1.0, clock=clock, announce=told.append)
    assert order[-6:] == ["a", "b"] * 3
    assert collecting[-6:] == [False] * 6
    assert gc.isenabled()
    assert told == [1, 2, 3, 4, 5, 6]


def test_a_machine_that_slows_down_shows_in_the_spread() -> None:
    clock = Clock()
    runs = 0

    def run(count: int) -> None:
        nonlocal runs
        runs += 1
        clock.now += count * (1.0 if runs < 5 else 2.0)

    spread = measure([Case("case", run)], rounds=5, seconds=1.0, clock=clock)["case"]
    assert (spread.min, spread.max) == (0.5, 1.0)


def test_groups_are_made_anew_for_every_repeat() -> None:
    clock, made, order = Clock(), [], []

    def group(name: str, seconds: float) -> Any:
        @contextmanager
        def cases() -> Iterator[list[Case]]:
            made.append(name)
            plain = clock.case(name, seconds, work=10)

            def run(count: int) -> None:
                order.append(name)
                plain.run(count)

            yield [Case(name, run, 10)]
            made.append(f"end of {name}")

        return cases

    told: list[tuple[int, int]] = []
    groups = [group("a", 0.01), group("b", 0.02)]
    found = measure_anew(
        groups, rounds=5, seconds=0.1, clock=clock, announce=lambda *at: told.append(at)
    )
    assert made == ["a", "end of a", "b", "end of b"] * 5
    assert order[-4:] == ["a", "a", "b", "b"]  # once before it is timed
    assert found[0]["a"].median == pytest.approx(1000)
    assert found[1]["b"].median == pytest.approx(500)
    assert found[1]["b"].repeats == 5
    assert told[-1] == (10, 10)
