"""Costs, and the front with its marginal costs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.bench.scale.choice import Measured, Point, Prices, front, in_turn
from headrace.bench.spread import Spread


def steady(replicas: int, envs: int, speed: float, cores: float, gpus: float = 0.0) -> Measured:
    """The same in each of five rounds."""
    return Measured(replicas, envs, Spread.of([speed] * 5), Spread.of([cores] * 5), gpus)


ONE = steady(1, 64, 1e6, 1.0)
TWO = steady(2, 64, 1.7e6, 2.04)
THREE = steady(3, 64, 1.8e6, 3.0)


def test_cost_by_hand() -> None:
    assert ONE.point.cost == 1.0
    assert TWO.cost.median == pytest.approx(1.2)
    prices = Prices(value_of_hour=36.0, core_hour=3.6)
    assert prices.million(ONE.point) == pytest.approx(0.01 + 0.001)
    assert prices.million(TWO.point) == pytest.approx((0.01 + 0.00204) / 1.7)


def test_a_gpu_costs_while_it_is_held() -> None:
    """Half a million steps a second on one GPU: two of its seconds for a million."""
    on_gpu = steady(1, 64, 0.5e6, 0.25, gpus=1.0)
    assert on_gpu.gpu_cost.samples == (2.0,) * 5
    prices = Prices(value_of_hour=0.0, core_hour=3600.0, gpu_hour=36000.0)
    assert prices.million(on_gpu.point) == pytest.approx(0.25 * 2 + 10 * 2)
    assert ONE.gpu_cost.median == 0.0
    assert prices.million(ONE.point) == pytest.approx(1.0)


def test_front_with_its_marginal_costs() -> None:
    beaten = steady(2, 16, 0.9e6, 2.0)
    steps = front([THREE, beaten, ONE, TWO])
    assert [step.measured for step in steps] == [ONE, TWO, THREE]
    assert [step.speedup.median for step in steps] == pytest.approx([1.0, 1.7, 1.8])
    assert [step.costs.median for step in steps] == pytest.approx([1.0, 1.2, 3.0 / 1.8])
    marginal = [step.marginal and step.marginal.median for step in steps]
    assert marginal[0] is None
    assert marginal[1] == pytest.approx(1.04 / 0.7)  # 1.04 more cores, 0.7 M/s more
    assert marginal[2] == pytest.approx(0.96 / 0.1)


def test_what_is_bought_is_compared_round_by_round() -> None:
    """A machine at half its speed for one round; one setting was measured for longer."""
    one = Measured(1, 64, Spread.of([2.0, 1.0, 2.0, 9.0]), Spread.of([1.0] * 4))
    two = Measured(2, 64, Spread.of([3.0, 1.5, 3.0]), Spread.of([2.0] * 3))
    assert in_turn(two.speed, one.speed).samples == (1.5, 1.5, 1.5)
    steps = front([one, two])
    assert steps[1].marginal is not None
    assert steps[1].marginal.samples == pytest.approx((1e6, 2e6, 1e6))
    slower = Measured(2, 64, Spread.of([3.0, 0.5, 3.0]), Spread.of([2.0] * 3))
    assert front([one, slower])[1].marginal is None


@given(st.lists(st.tuples(st.floats(1, 100), st.floats(0.01, 8)), min_size=1, max_size=12))
def test_nothing_beats_the_front(pairs: list[tuple[float, float]]) -> None:
    measured = [steady(1 + at, 1, speed, cores) for at, (speed, cores) in enumerate(pairs)]
    points: list[Point] = [each.point for each in measured]
    kept = [step.point for step in front(measured)]
    for point in points:
        assert any(k.speed >= point.speed and k.cost <= point.cost for k in kept)
    for one in kept:
        assert not any(p.speed > one.speed and p.cost < one.cost for p in points)
