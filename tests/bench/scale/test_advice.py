"""The recommendation: what noise may not choose, and what a repeat must confirm."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from headrace.bench.scale.advice import (
    Advice,
    advise,
    candidates,
    excess,
    reason,
    shown_dearer,
    undecided,
)
from headrace.bench.scale.choice import Measured, Prices
from headrace.bench.scale.model import Law, fit
from headrace.bench.spread import Spread

WAITING = Prices(10.0, 0.05)


def measured(replicas: int, envs: int, speeds: list[float], cores: float) -> Measured:
    return Measured(replicas, envs, Spread.of(speeds), Spread.of([cores] * len(speeds)))


def steady(replicas: int, envs: int, speed: float, cores: float) -> Measured:
    return measured(replicas, envs, [speed] * 5, cores)


ONE, TWO, THREE = steady(1, 64, 1e6, 1.0), steady(2, 64, 1.7e6, 2.04), steady(3, 64, 1.8e6, 3.0)
ALL = [ONE, TWO, THREE]
LAW = fit({1: 1e6, 2: 1.7e6, 3: 1.8e6})


def chosen(all_: list[Measured], prices: Prices = WAITING) -> Measured:
    return advise(all_, prices).chosen


def test_the_price_of_waiting_decides() -> None:
    assert chosen(ALL, Prices(0.0, 1.0)) is ONE  # only cores cost: the cheapest step
    close = steady(3, 64, 1.75e6, 3.0)  # 3 % more for a third core is within the margin
    assert chosen([ONE, TWO, close]) is TWO
    faster = steady(3, 64, 2.4e6, 3.0)
    assert chosen([ONE, TWO, faster]) is faster


def test_noise_does_not_choose_between_equals() -> None:
    equal = [steady(1, 64, 1.00e6, 1.0), steady(1, 256, 1.03e6, 1.0), steady(2, 64, 1.04e6, 1.0)]
    assert chosen(equal, Prices(1.0, 0.05)) is equal[0]


def test_what_noise_hides_is_not_bought() -> None:
    """Two replicas seem 20 % faster, but not in every round; a steady 20 % is bought."""
    one = measured(1, 64, [1e6, 1e6, 1e6, 1e6, 1.3e6], 1.0)
    two = measured(2, 64, [1.2e6, 1.2e6, 1.2e6, 1.2e6, 1.2e6], 1.0)
    advice = advise([one, two], WAITING)
    assert (advice.chosen, advice.cheapest, advice.by_noise) == (one, two, True)
    assert undecided([one, two], WAITING) == [one, two]
    slower = measured(1, 64, [1e6] * 5, 1.0)
    assert chosen([slower, two]) is two
    assert undecided([slower, two], WAITING) == []


def test_a_machine_that_slows_down_for_a_round_slows_all() -> None:
    speeds = [1.0, 0.5, 1.0, 0.3, 0.8]
    one = measured(1, 64, [1e6 * each for each in speeds], 1.0)
    two = measured(2, 64, [1.5e6 * each for each in speeds], 1.0)
    assert excess(one, two, WAITING).samples == pytest.approx([0.5] * 5)
    assert chosen([one, two]) is two


def test_more_replicas_than_cores_are_not_recommended_where_cores_are_short() -> None:
    """Four threads on two cores take more of a busy machine, and nothing of one that is not."""
    two, four = steady(2, 64, 1e6, 2.0), steady(4, 64, 2e6, 2.0)
    assert candidates([two, four], 2, waits=False) == [two]
    assert candidates([two, four], 2, waits=True) == [two]
    waiting = steady(4, 64, 2e6, 0.5)
    assert candidates([two, waiting], 2, waits=True) == [two, waiting]
    assert candidates([two, waiting], 2, waits=False) == [two]
    assert candidates([four], 2, waits=False) == [four]  # nothing else was measured


def test_workers_that_compute_are_no_more_than_cores() -> None:
    """Python environments whose policy holds them up leave some of two cores idle, whatever their
    number: on some runs less than the share at which cores count as taken, on others more."""
    one, two = steady(1, 64, 130e3, 1.31), steady(2, 64, 132e3, 1.4)
    for busy, speed in ((1.47, 145e3), (1.69, 150e3), (1.75, 150e3)):
        four = steady(4, 64, speed, busy)
        assert candidates([one, two, four], 2, waits=True) == [one, two]
        assert chosen(candidates([one, two, four], 2, waits=True), Prices(1.0, 0.05)) is one
    sleeping = [steady(n, 16, 800.0 * n, 0.09 * n) for n in (1, 4, 16)]
    assert candidates(sleeping, 2, waits=True) == sleeping


def test_the_sign_test_by_counting() -> None:
    """Of all equally likely outcomes of n rounds, how many show as many dearer ones."""
    for rounds in (3, 5, 6, 10):
        for dearer in range(rounds + 1):
            above = Spread.of([0.2] * dearer + [0.05] * (rounds - dearer))
            outcomes = [sum(each) for each in itertools.product((0, 1), repeat=rounds)]
            chance = sum(each >= dearer for each in outcomes) / len(outcomes)
            assert shown_dearer(above) == (chance <= 0.1)


def recommended(rng: np.random.Generator, noise: float, gain: float) -> int:
    """Replicas after one run on a machine with such noise: 1, 2 and 4 of them with 64 and 256
    environments; two replicas are faster by `gain`, four no faster than two."""
    found = []
    for replicas, factor in ((1, 1.0), (2, 1.0 + gain), (4, 1.0 + gain)):
        for envs, better in ((64, 1.0), (256, 1.02)):
            own = 1e6 * factor * better * (1 + rng.normal(0, noise, 5))
            found.append(measured(replicas, envs, list(own), float(min(replicas, 2))))
    return chosen(found).replicas


@pytest.mark.parametrize(("gain", "replicas"), [(0.0, 1), (0.05, 1), (0.7, 2)])
@pytest.mark.parametrize("noise", [0.01, 0.05, 0.1])
def test_a_repeat_confirms_it(gain: float, replicas: int, noise: float) -> None:
    rng = np.random.default_rng(0)
    found = [recommended(rng, noise, gain) for _ in range(100)]
    assert found.count(replicas) >= 98


def test_the_reason_is_one_sentence() -> None:
    def why(one: Measured, all_: list[Measured], law: Law, prices: Prices) -> str:
        return reason(Advice(one, one, Spread.of([0.0])), all_, law, prices)

    assert why(TWO, ALL, LAW, WAITING) == (
        "2 replicas: 1.7× (1.7 … 1.7) faster than 1 replica for 1.2× (1.2 … 1.2) the core time per "
        "step; 3 replicas buy 6 % (6 … 6) for 1.4× (1.4 … 1.4) and that saves 5 % (5 … 5) of the "
        "price"
    )
    last = why(THREE, ALL, Law(1e6, 0.0, 0.0), WAITING)
    assert last.endswith("one more is predicted to buy 33 % where it has a core of its own")
    alone = why(ONE, ALL, LAW, Prices(0.0, 1.0))
    assert alone == (
        "1 replica; 2 replicas buy 70 % (70 … 70) for 1.2× (1.2 … 1.2) and that adds 20 % "
        "(20 … 20) of the price"
    )


@pytest.mark.parametrize(
    ("above", "said"),
    [
        (
            [0.02, 0.04, 0.06],
            "4 % (2 … 6) above the lowest, of 2 replicas of 64, within the margin",
        ),
        (
            [0.02, 0.2, 0.3],
            "20 % (2 … 30) above the lowest, of 2 replicas of 64, which these repeats do not tell "
            "from the margin",
        ),
    ],
)
def test_the_reason_says_how_sure_it_is(above: list[float], said: str) -> None:
    text = reason(Advice(ONE, TWO, Spread.of(above)), ALL, LAW, WAITING)
    assert text.endswith(f"; its price is {said} of 10 %")
