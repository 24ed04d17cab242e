"""Inventory: the day's arithmetic, the demand's distribution, the best base-stock policy."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace
from headrace.trainers.config import read_preset

LEAD, ORDER, LIMIT = 4, 20, 100
PRESET = Path(headrace.__file__).parents[1] / "envs" / "inventory.toml"


def parts(vec: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """stock [worlds], pipeline [worlds, LEAD], customers of the last day [worlds]."""
    state = vec.state.view(np.int32).copy()
    return state[:, 0], state[:, 1:-1], state[:, -1]


@pytest.mark.parametrize("params", [{}, {"price": 1.0, "cost": 0.25, "holding": 0.5, "demand": 9}])
def test_days_against_a_reference(params: dict[str, float]) -> None:
    worlds = 200
    vec = headrace.make_vec("inventory", worlds, **params)
    vec.reset(seed=1)
    values = {"price": 0.2, "cost": 0.1, "holding": 0.004, "shortage": 0.04, **params}
    random = np.random.default_rng(2)
    for day in range(1, 101):
        stock, pipeline, _ = parts(vec)
        # the last worlds order as much as they can, so that the shop gets full
        orders = np.where(np.arange(worlds) < 150, random.integers(0, ORDER + 1, worlds), ORDER)
        obs, rewards, terminated, truncated, _ = vec.step(orders)
        after, sent, wanted = parts(vec)
        there = np.minimum(stock + pipeline[:, 0], LIMIT)
        sold = np.minimum(there, wanted)
        np.testing.assert_array_equal(after, there - sold)
        np.testing.assert_array_equal(sent, np.column_stack([pipeline[:, 1:], orders]))
        profit = values["price"] * sold - values["cost"] * orders - values["holding"] * after
        np.testing.assert_allclose(
            rewards, profit - values["shortage"] * (wanted - sold), rtol=1e-5, atol=1e-5
        )
        np.testing.assert_allclose(obs, np.column_stack([after, sent]) / ORDER, rtol=1e-6)
        assert not terminated.any()
        assert truncated.all() == (day == 100)
    assert after.max() >= LIMIT - 20


@pytest.mark.parametrize("mean", [0.0, 1.5, 5.0, 20.0])
def test_demand_is_poisson(mean: float) -> None:
    worlds = 200_000
    vec = headrace.make_vec("inventory", worlds, demand=mean)
    vec.reset(seed=3)
    vec.step(np.zeros(worlds, np.int64))
    wanted = parts(vec)[2]
    for count in range(int(mean * 2) + 3):
        share = math.exp(-mean) * mean**count / math.factorial(count)
        assert abs((wanted == count).mean() - share) < 0.004, count


def test_starts() -> None:
    vec = headrace.make_vec("inventory", 20_000)
    obs, _ = vec.reset(seed=0)
    stock, pipeline, _ = parts(vec)
    assert (stock.min(), stock.max()) == (0, ORDER)
    assert (pipeline.min(), pipeline.max()) == (0, ORDER // 2)
    assert vec.observation_space.contains(obs)


def test_lead_time_is_a_size() -> None:
    vec = headrace.make_vec("inventory", 1, LEAD=2)
    assert vec.observation_space.shape == (1, 3)


def base_stock_return(level: int) -> float:
    """Mean return of ordering up to `level`, over 2000 episodes."""
    vec = headrace.make_vec("inventory", 2000, autoreset_mode="Disabled", copy=False)
    obs, _ = vec.reset(seed=0)
    total = np.zeros(2000)
    for _ in range(100):
        position = np.rint(obs.sum(axis=1) * ORDER)
        obs, rewards, *_ = vec.step(np.clip(level - position, 0, ORDER).astype(np.int64))
        total += rewards
    return float(total.mean())


def test_target_is_98_percent_of_the_best_base_stock_policy() -> None:
    returns = {level: base_stock_return(level) for level in range(26, 40)}
    best = max(returns, key=lambda level: returns[level])
    assert best == 32
    assert returns[best] == pytest.approx(45.76, abs=0.02)
    assert read_preset(PRESET)["target"] == pytest.approx(0.98 * returns[best], abs=0.2)
