"""The front, its marginal costs, and the recommendation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.bench.scale.choice import Point, Prices, front, reason, recommend
from headrace.bench.scale.model import Law, fit

ONE = Point(1, 64, 1e6, 1.0)
TWO = Point(2, 64, 1.7e6, 2.04)
THREE = Point(3, 64, 1.8e6, 3.0)
POINTS = [ONE, TWO, THREE]
LAW = fit({1: 1e6, 2: 1.7e6, 3: 1.8e6})


def test_cost_by_hand() -> None:
    assert ONE.cost == 1.0
    assert TWO.cost == pytest.approx(1.2)
    prices = Prices(value_of_hour=36.0, core_hour=3.6)
    assert prices.million(ONE) == pytest.approx(0.01 + 0.001)
    assert prices.million(TWO) == pytest.approx((0.01 + 0.00204) / 1.7)


def test_front_with_its_marginal_costs() -> None:
    beaten = Point(2, 16, 0.9e6, 2.0)
    steps = front([THREE, beaten, ONE, TWO])
    assert [step.point for step in steps] == POINTS
    assert [step.speedup for step in steps] == pytest.approx([1.0, 1.7, 1.8])
    assert [step.costs for step in steps] == pytest.approx([1.0, 1.2, 3.0 / 1.8])
    assert steps[0].marginal is None
    assert steps[1].marginal == pytest.approx(1.04 / 0.7)  # 1.04 more cores, 0.7 M/s more
    assert steps[2].marginal == pytest.approx(0.96 / 0.1)


@given(st.lists(st.tuples(st.floats(1, 100), st.floats(0.01, 8)), min_size=1, max_size=12))
def test_nothing_beats_the_front(pairs: list[tuple[float, float]]) -> None:
    points = [Point(1 + at, 1, speed, cores) for at, (speed, cores) in enumerate(pairs)]
    kept = [step.point for step in front(points)]
    for point in points:
        assert any(k.speed >= point.speed and k.cost <= point.cost for k in kept)
    for one in kept:
        assert not any(p.speed > one.speed and p.cost < one.cost for p in points)


def test_the_price_of_waiting_decides() -> None:
    assert recommend(POINTS, Prices(0.0, 1.0)) == ONE  # only cores cost: the cheapest step
    close = Point(3, 64, 1.75e6, 3.0)  # 3 % more for a third core is within the margin
    assert recommend([ONE, TWO, close], Prices(10.0, 0.05)) == TWO
    faster = Point(3, 64, 2.4e6, 3.0)
    assert recommend([ONE, TWO, faster], Prices(10.0, 0.05)) == faster


def test_noise_does_not_choose_between_equals() -> None:
    equal = [Point(1, 64, 1.00e6, 1.0), Point(1, 256, 1.03e6, 1.0), Point(2, 64, 1.04e6, 1.0)]
    assert recommend(equal, Prices(1.0, 0.05)) == equal[0]


def test_the_reason_is_one_sentence() -> None:
    prices = Prices(10.0, 0.05)
    assert reason(TWO, POINTS, LAW, prices) == (
        "2 replicas: 1.7× faster than 1 replica for 1.2× the core time per step; 3 replicas buy "
        "6 % for 1.4× and that saves 5 % of the price"
    )
    last = reason(THREE, POINTS, Law(1e6, 0.0, 0.0), prices)
    assert last.endswith("one more is predicted to buy 33 % where it has a core of its own")
    alone = reason(ONE, POINTS, LAW, Prices(0.0, 1.0))
    assert alone == "1 replica; 2 replicas buy 70 % for 1.2× and that adds 20 % of the price"
