"""How far cores lie from each other: the real measurement, and what is made of it."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator

import pytest

from headrace.bench import distance
from headrace.bench.distance import APART, PAIRS, Distance, neighbours, were_apart
from headrace.engine._core import round_trip_ns

measured = distance.round_trip  # before the tests' own takes its place

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity here")


@pytest.fixture
def two() -> list[int]:
    """CPUs that may be used."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("one CPU")
    return cpus[:2]


@pytest.fixture
def one() -> Iterator[int]:
    """The only CPU that this thread may use meanwhile."""
    before = os.sched_getaffinity(0)
    cpu = min(before)
    os.sched_setaffinity(0, {cpu})
    yield cpu
    os.sched_setaffinity(0, before)


def first_known(first: int, second: int) -> float:
    """CPUs that are busy may not answer at once."""
    for _ in range(100):
        found = round_trip_ns(first, second)
        if found is not None:
            return found
    raise AssertionError("never known")


def test_two_cores(two: list[int]) -> None:
    before = os.sched_getaffinity(0)
    assert 1.0 < first_known(*two) < math.inf  # ns: more than some cycles
    assert os.sched_getaffinity(0) == before


def test_one_core_lies_nowhere(one: int) -> None:
    assert round_trip_ns(one, one) is None
    assert measured() is None


def test_cpus_that_cannot_be_used() -> None:
    """It does not wait for them."""
    here = min(os.sched_getaffinity(0))
    started = time.monotonic()
    for pair in ((here, 1023), (1023, here), (-1, here), (here, 2**31 - 1)):
        if 1023 not in os.sched_getaffinity(0):
            assert round_trip_ns(*pair) is None
    assert time.monotonic() - started < 30


def test_the_furthest_of_neighbours_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    trips = {(0, 2): 80.0, (2, 3): 120.0, (3, 7): 90.0}
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {7, 3, 2, 0})
    monkeypatch.setattr(distance, "round_trip_ns", lambda *pair: trips[pair])
    assert measured() == 120.0
    trips[3, 7] = None  # which may be more
    assert measured() is None
    trips = dict.fromkeys(trips)
    assert measured() is None


@pytest.mark.parametrize("cpus", [0, 1, 2, 8, 9, 10, 17, 18, 192])
def test_some_pairs_of_many(cpus: int) -> None:
    pairs = neighbours(range(cpus))
    assert len(pairs) <= PAIRS
    assert all(second == first + 1 for first, second in pairs)
    if cpus <= PAIRS + 1:
        assert len(pairs) == max(0, cpus - 1)
    else:
        assert pairs[-1][0] >= cpus - 2 - cpus // PAIRS  # of the whole machine


def test_nowhere_without_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    assert measured() is None


def test_apart_is_judged_by_the_least() -> None:
    trips = iter([400.0, None, 100.0])
    found = Distance(lambda: next(trips))
    assert (found(), found.least) == (400.0, 400.0)
    assert not found.apart(400.0)
    assert found() is None
    assert (found(), found.least) == (100.0, 100.0)
    assert [found.apart(each) for each in (100 * APART, 100 * APART + 1, 400.0, None)] == [
        False, True, True, False,
    ]  # fmt: skip


def test_what_a_document_tells() -> None:
    assert were_apart({"least": 100.0, "median": 100.0, "most": 251.0})
    assert not were_apart({"least": 100.0, "median": 110.0, "most": 249.0})
    assert not were_apart(None)
