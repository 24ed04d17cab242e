"""The fitted law: recovered from data that follow it, and held to what it was not shown."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.bench.scale.model import Law, fit, left_out, usable
from headrace.engine.errors import ArgumentError

COUNTS = (1, 2, 4, 8, 16)


def test_by_hand() -> None:
    law = Law(rate=100.0, serial=0.1, crosstalk=0.01)
    assert law.speed(1) == 100.0
    assert law.speed(4) == pytest.approx(400 / (1 + 0.3 + 0.12))


@given(rate=st.floats(1.0, 1e9), serial=st.floats(0.0, 0.9), crosstalk=st.floats(0.0, 0.05))
def test_its_own_data_are_recovered(rate: float, serial: float, crosstalk: float) -> None:
    law = Law(rate, serial, crosstalk)
    found = fit({n: law.speed(n) for n in COUNTS})
    for n in (*COUNTS, 32, 100):
        assert found.speed(n) == pytest.approx(law.speed(n), rel=1e-5)
    assert found.serial == pytest.approx(serial, abs=1e-6)
    assert found.crosstalk == pytest.approx(crosstalk, abs=1e-6)


@given(noise=st.lists(st.floats(0.8, 1.25), min_size=5, max_size=5))
def test_no_constant_is_negative_and_none_of_the_grid_fits_better(noise: list[float]) -> None:
    speeds = {n: 100.0 * n * factor for n, factor in zip(COUNTS, noise, strict=True)}
    law = fit(speeds)
    assert law.rate > 0
    assert law.serial >= 0
    assert law.crosstalk >= 0

    def error(law: Law) -> float:
        return sum((speeds[n] / law.speed(n) - 1) ** 2 for n in COUNTS)

    for rate in np.linspace(70, 140, 8):
        for serial in (0.0, 0.01, 0.05, 0.2):
            for crosstalk in (0.0, 0.001, 0.01):
                assert error(law) <= error(Law(rate, serial, crosstalk)) + 1e-9


def test_few_points_fix_fewer_constants() -> None:
    assert fit({1: 50.0}) == Law(50.0, 0.0, 0.0)
    two = fit({1: 50.0, 2: 80.0})
    assert (two.crosstalk, two.serial) == (0.0, pytest.approx(0.25))
    assert two.speed(2) == pytest.approx(80.0)
    three = fit({1: 50.0, 2: 80.0, 4: 80.0})
    assert three.crosstalk > 0


def test_left_out_points_are_not_shown_to_the_fit() -> None:
    law = Law(100.0, 0.05, 0.002)
    speeds = {n: law.speed(n) for n in COUNTS}
    speeds[8] *= 2  # an outlier: predicted from the others as the law has it
    by = {check.replicas: check for check in left_out(speeds)}
    assert sorted(by) == [2, 4, 8, 16]
    assert by[8].predicted == pytest.approx(law.speed(8))
    assert by[8].error == pytest.approx(-0.5)
    assert left_out({1: 1.0, 2: 2.0}) == []


def test_where_cores_are_short_nothing_is_fitted() -> None:
    points = [(1, 10.0, 1.0), (2, 20.0, 2.0), (4, 21.0, 2.0), (8, 22.0, 1.0)]
    assert usable(points, 2, waits=False) == {1: 10.0, 2: 20.0}
    assert usable(points, 2, waits=True) == {1: 10.0, 2: 20.0, 8: 22.0}


@pytest.mark.parametrize("speeds", [{}, {0: 1.0}, {1: 0.0}, {1: -1.0, 2: 3.0}])
def test_speeds_that_are_none(speeds: dict[int, float]) -> None:
    with pytest.raises(ArgumentError, match="expected positive ones"):
        fit(speeds)
