"""What the CPUs give, told by a probe of the test's own; and the real one."""

from __future__ import annotations

import math
import os
from typing import Any

import pytest

from headrace.bench import given as module
from headrace.bench.distance import Distance
from headrace.bench.given import EVERY, LOOKS, PATIENCE, Given, Look, Probe, watched, watching
from headrace.bench.rounds import Repeats, merged, repeated

Phase = tuple[float, float]  # seconds: from, to


class Machine:
    """A clock, and two CPUs of which one is away at times, and which lie apart at times."""

    def __init__(self, *away: Phase, apart: tuple[Phase, ...] = ()) -> None:
        self.now, self.away, self.apart, self.looks = 0.0, away, apart, 0
        self.near, self.far = 100.0, 400.0

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def probe(self) -> float:
        self.looks += 1
        return 1.0 if self.within(self.away) else 1.96

    def trip(self) -> float | None:
        return self.far if self.within(self.apart) else self.near

    def within(self, phases: tuple[Phase, ...]) -> bool:
        return any(begin <= self.now < end for begin, end in phases)

    def given(self, **options: Any) -> Given:
        options = {"distance": Distance(self.trip), **options}
        return Given(cores=2, probe=self.probe, clock=self.clock, sleep=self.sleep, **options)

    def job(self, seconds: float) -> Any:
        """It comes to the time at which it began."""

        def run(number: int) -> float:
            self.now += seconds
            return self.now - seconds

        return run


def test_a_quiet_machine_takes_nothing_again() -> None:
    machine = Machine()
    with watching(machine.given()) as given:
        (found,) = repeated([machine.job(1.0)], 5)
    assert found == Repeats([0.0, 1.0, 2.0, 3.0, 4.0])
    assert given.readings == [Look(1.96, 100.0)] * 7  # before, at the start, after each
    assert given.told() == {
        "cores_given": {"least": 1.96, "median": 1.96},
        "round_trip_ns": {"least": 100.0, "median": 100.0, "most": 100.0},
        "retaken": 0,
        "short": 0,
    }


def test_repeats_of_a_phase_are_taken_again_at_the_end() -> None:
    """Away from 2.5 to 3.5: the look at 3.0 finds it, so that what lies on both sides is taken
    again, whatever it came to."""
    machine = Machine((2.5, 3.5))
    told: list[int] = []
    with watching(machine.given()) as given:
        (found,) = repeated([machine.job(1.0)], 6, told.append)
    assert found == Repeats([0.0, 1.0, 6.0, 7.0, 4.0, 5.0], retaken=2)
    assert (given.retaken, given.short) == (2, 0)
    assert min(look.cores for look in given.readings) == 1.0
    assert told == [1, 2, 3, 3, 3, 4, 5, 6]


def test_looks_are_no_more_often_than_every_second() -> None:
    machine = Machine((0.9, 1.2))
    with watching(machine.given()):
        first, second = repeated([machine.job(0.25), machine.job(0.25)], 4)
    assert machine.looks == 2 + LOOKS + 3  # at 1.0 it looks thrice, then at 2, 3 and the end
    assert (first.retaken, second.retaken) == (4, 4)
    assert min(first.values) >= 2.0


def test_a_phase_without_end_doubles_the_repeats_at_most(capsys: Any) -> None:
    machine = Machine((0.0, 1e9))
    with watching(machine.given()) as given:
        (found,) = repeated([machine.job(1.0)], 4)
    assert "the CPUs give 1 of 2 cores now" in capsys.readouterr().err
    assert (found.retaken, found.short) == (4, {0, 1, 2, 3})
    assert (given.retaken, given.short) == (4, 4)
    assert machine.now == 8.0 + PATIENCE  # it waited for the phase to end
    spread = found.spread()
    assert (spread.repeats, spread.retaken, spread.short) == (4, 4, 4)
    assert (spread.map(abs).short, spread.over(spread).short) == (4, 4)


def test_a_phase_is_waited_for_when_nothing_else_is_left() -> None:
    machine = Machine((0.5, 7.0))
    with watching(machine.given()):
        (found,) = repeated([machine.job(1.0)], 2)
    assert found.values == [7.0, 8.0]
    assert (found.retaken, found.short) == (2, set())


def test_nothing_is_taken_again_where_that_is_not_wanted() -> None:
    machine = Machine((0.5, 1.5))
    with watching(machine.given(again=False)) as given:
        (found,) = repeated([machine.job(1.0)], 3)
    assert found == Repeats([0.0, 1.0, 2.0], short={0, 1})
    assert given.short == 2


def test_a_moment_is_no_phase() -> None:
    cores, trips = iter([1.2, 1.97, 1.96]), iter([90.0, 100.0, 300.0, 110.0])
    distance = Distance(lambda: next(trips))
    assert distance() == 90.0
    given = Given(cores=2, probe=lambda: next(cores), distance=distance)
    assert given.fine(given.look())
    assert given.readings == [Look(1.97, 100.0)]
    assert next(cores) == 1.96


def test_repeats_while_cores_lie_apart_are_taken_again() -> None:
    """From 2.5 to 3.5, as where the CPUs give less."""
    machine = Machine(apart=((2.5, 3.5),))
    with watching(machine.given()) as given:
        (found,) = repeated([machine.job(1.0)], 6)
    assert found == Repeats([0.0, 1.0, 6.0, 7.0, 4.0, 5.0], retaken=2)
    assert given.told() == {
        "cores_given": {"least": 1.96, "median": 1.96},
        "round_trip_ns": {"least": 100.0, "median": 100.0, "most": 400.0},
        "retaken": 2,
        "short": 0,
    }


@pytest.mark.parametrize("until", [2.5, 4.0])
def test_a_run_that_begins_while_cores_lie_apart_is_put_right_at_the_end(until: float) -> None:
    """That they do is only known when they have come nearer."""
    machine = Machine(apart=((0.0, until),))
    told: list[int] = []
    with watching(machine.given()) as given:
        (found,) = repeated([machine.job(1.0)], 6, told.append)
    late = math.ceil(until)
    assert min(found.values) >= until
    assert found.retaken == given.retaken == late
    assert (found.short, given.short) == (set(), 0)
    assert told[-1] == 6


def test_what_is_put_right_is_watched_too() -> None:
    """The cores lie apart until 2.5, and again from 7.5 to 9.5, while the first repeat is taken
    again: once more, when that phase has been waited for."""
    machine = Machine(apart=((0.0, 2.5), (7.5, 9.5)))
    with watching(machine.given()) as given:
        (found,) = repeated([machine.job(1.0)], 6)
    assert found == Repeats([11.0, 10.0, 6.0, 3.0, 4.0, 5.0], retaken=4)
    assert given.short == 0


def test_no_more_is_put_right_than_there_is_to_spare() -> None:
    """The third of four repeats is taken four times, each but the last in a phase; then one more
    may be taken again, and two should."""
    machine = Machine(apart=((0.0, 2.5), (4.5, 5.5), (6.5, 7.5)))
    with watching(machine.given()) as given:
        (found,) = repeated([machine.job(1.0)], 4)
    assert found == Repeats([9.0, 1.0, 8.0, 3.0], retaken=4, short={1})
    assert (given.retaken, given.short) == (4, 1)


def test_what_is_learnt_late_is_only_told_where_nothing_is_taken_again() -> None:
    machine = Machine(apart=((0.0, 2.5),))
    with watching(machine.given(again=False)) as given:
        (found,) = repeated([machine.job(1.0)], 6)
    assert found == Repeats([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], short={0, 1, 2})
    assert given.short == 3


def test_cores_that_come_apart_are_noticed_before_a_look_is_due() -> None:
    """From 0.3 to 0.5, before a look is due at 1: there is one when they have come apart, and one
    when they are near again. The three repeats before the first and that between are taken again.
    """
    machine = Machine(apart=((0.3, 0.5),))
    with watching(machine.given()) as given:
        (found,) = repeated([machine.job(0.125)], 8)
    assert [look.trip for look in given.readings] == [100.0, 100.0, 400.0, 100.0, 100.0]
    assert found.retaken == 4
    assert sorted(found.values) == [0.5, 0.625, 0.75, 0.875, 1.0, 1.125, 1.25, 1.375]


def test_the_median_is_that_of_what_stands() -> None:
    """However long it took until the cores were near."""
    machine = Machine(apart=((1.5, 9.5),))
    with watching(machine.given()) as given:
        (found,) = repeated([machine.job(1.0)], 3)
    assert found == Repeats([0.0, 10.0, 11.0], retaken=2)
    assert given.told()["round_trip_ns"] == {"least": 100.0, "median": 100.0, "most": 400.0}


def test_cores_that_lie_apart_all_along_are_as_they_are() -> None:
    machine = Machine(apart=((0.0, 1e9),))
    with watching(machine.given()) as given:
        (found,) = repeated([machine.job(1.0)], 3)
    assert found == Repeats([0.0, 1.0, 2.0])
    assert given.told()["round_trip_ns"] == {"least": 400.0, "median": 400.0, "most": 400.0}


def test_benchmarks_share_what_the_cores_were_at_best(capsys: Any) -> None:
    machine = Machine(apart=((1.0, 2.0),))
    distance = Distance(machine.trip)
    with watching(machine.given(distance=distance)):
        machine.now = 1.0
    with watching(machine.given(distance=distance)) as given:
        machine.now = 2.0
    assert "the cores lie 4.0 times as far apart as at best now" in capsys.readouterr().err
    assert given.told()["round_trip_ns"] == {"least": 100.0, "median": 400.0, "most": 400.0}


def test_nothing_is_judged_by_what_is_not_known() -> None:
    machine = Machine()
    with watching(machine.given(distance=Distance(lambda: None))) as given:
        (found,) = repeated([machine.job(1.0)], 3)
    assert found == Repeats([0.0, 1.0, 2.0])
    assert given.told()["round_trip_ns"] is None


def test_nothing_is_watched_outside() -> None:
    with watching(Machine().given()) as given:
        assert watched() is given
    assert watched() is None
    (found,) = repeated([lambda number: number * 2], 3)
    assert found.values == [0, 2, 4]


def test_several_jobs_as_one() -> None:
    found = merged([Repeats([3, 1], 1), Repeats([5, 2], 0, {1})], min)
    assert found == Repeats([1, 2], 1, {1})


class Time:
    """A clock on which the chain takes a millisecond alone, and `together` on all cores."""

    def __init__(self, together: float) -> None:
        self.together = together

    def probe(self, monkeypatch: pytest.MonkeyPatch) -> Probe:
        probe = Probe(2)
        monkeypatch.setattr(probe, "_alone", lambda: 0.001)
        monkeypatch.setattr(probe, "_together", lambda: self.together)
        return probe


@pytest.mark.parametrize(("together", "cores"), [(0.002, 2.0), (0.004, 1.0), (0.0019, 2.0)])
def test_cores_from_times(together: float, cores: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice the work on both of two cores."""
    assert Time(together).probe(monkeypatch)() == pytest.approx(cores)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity here")
@pytest.mark.parametrize("cores", [1, 2])
def test_a_real_probe(cores: int) -> None:
    before = os.sched_getaffinity(0)
    probe = Probe(cores)
    assert 0 < probe() <= cores
    assert probe._ones.strides == (0,)  # it touches no memory
    assert EVERY / module.SECONDS > 100
    assert os.sched_getaffinity(0) == before
