"""Lander: free fall, engines, legs, landing and crashing, against hand arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

import headrace

NAMES = ("x", "y", "vx", "vy", "angle", "spin", "throttle", "rest")
DT, SUBSTEPS = 0.01, 4
OFF = [[0.0, 0.0]]


def make(**state: float):
    """One world in this state; members not given are 0. The feet are 0.9 below y."""
    env = headrace.make_vec("lander", 1, autoreset_mode="Disabled")
    env.reset(seed=0)
    env.state.view(np.float32)[:] = [state.get(name, 0.0) for name in NAMES]
    return env


def state_of(env) -> dict[str, float]:
    return dict(zip(NAMES, env.state.view(np.float32)[0].tolist(), strict=True))


def integrate(position: float, velocity: float, acceleration: float) -> tuple[float, float]:
    """Semi-implicit Euler over one action."""
    for _ in range(SUBSTEPS):
        velocity += DT * acceleration
        position += DT * velocity
    return position, velocity


def test_free_fall() -> None:
    env = make(x=1.0, y=8.0, vx=0.5, vy=-1.0)
    env.step(OFF)
    after = state_of(env)
    y, vy = integrate(8.0, -1.0, -3.0)
    assert after["y"] == pytest.approx(y) and after["vy"] == pytest.approx(vy)
    assert after["x"] == pytest.approx(1.02) and after["vx"] == pytest.approx(0.5)
    assert after["angle"] == 0.0 and after["spin"] == 0.0


@pytest.mark.parametrize("main", [0.5, 1.0, 3.0])
def test_main_engine_pushes_along_the_body(main: float) -> None:
    env = make(y=8.0)
    env.step([[main, 0.0]])
    y, vy = integrate(8.0, 0.0, 7.0 * min(main, 1.0) - 3.0)
    assert state_of(env)["y"] == pytest.approx(y) and state_of(env)["vy"] == pytest.approx(vy)
    env = make(y=8.0, angle=np.pi / 2)  # lying on its left side
    env.step([[main, 0.0]])
    assert state_of(env)["vx"] == pytest.approx(-4 * DT * 7.0 * min(main, 1.0), rel=1e-5)


def test_main_engine_is_off_below_zero() -> None:
    low, zero = make(y=8.0), make(y=8.0)
    assert low.step([[-1.0, 0.0]])[1] == zero.step(OFF)[1]
    assert state_of(low) == state_of(zero)


def test_side_engine_pushes_and_tilts_to_the_right() -> None:
    env = make(y=8.0)
    env.step([[0.0, 1.0]])
    after = state_of(env)
    assert after["spin"] == pytest.approx(-4 * DT * 1.0 * 0.5 / 0.4, rel=1e-5)
    assert after["vx"] == pytest.approx(4 * DT * 1.0, rel=1e-3)
    assert after["angle"] < 0.0


def test_reward_is_the_change_of_the_potential_less_fuel() -> None:
    env = make(x=3.0, y=4.9, vx=-1.0, angle=0.1)
    obs, reward, _, _, _ = env.step([[0.5, -0.4]])

    def potential(x, y, vx, vy, angle) -> float:
        return -100.0 * (np.hypot(x, y) + np.hypot(vx, vy) + abs(angle))

    before = potential(0.3, 0.4, -0.2, 0.0, 0.1)
    expected = potential(*obs[0, :5].astype(float)) - before - 0.3 * 0.5 - 0.03 * 0.4
    assert reward[0] == pytest.approx(expected, abs=1e-3)


def test_it_stands_on_its_legs_and_has_landed() -> None:
    rest = 0.9 - 3.0 / (2 * 20.0)  # both springs together carry the weight
    env = make(y=rest)
    for step in range(9):
        obs, reward, terminated, _, _ = env.step(OFF)
        assert not terminated[0] and abs(reward[0]) < 0.1, step
    np.testing.assert_allclose(obs[0, 6:], 1.0)
    assert state_of(env)["y"] == pytest.approx(rest, abs=1e-4)
    _, reward, terminated, truncated, _ = env.step(OFF)
    assert terminated[0] and not truncated[0]
    assert reward[0] == pytest.approx(100.0, abs=0.1)
    assert env.statistics()["landed"] == 1.0


def settle(**state: float) -> tuple[float, bool]:
    """Lets it come to its end without engines; the last reward and whether it landed."""
    env = make(**state)
    for _ in range(400):
        _, reward, terminated, _, _ = env.step(OFF)
        if terminated[0]:
            return float(reward[0]), env.statistics()["landed"] == 1.0
    raise AssertionError("it never came to rest")


def test_soft_and_hard_landings() -> None:
    reward, landed = settle(y=1.0, vy=-1.0)
    assert landed and reward > 90.0
    reward, landed = settle(y=1.0, vx=0.5, vy=-0.5, angle=0.15)
    assert landed and reward > 90.0
    reward, landed = settle(y=1.5, vy=-5.0)  # the legs give in
    assert not landed and reward < -50.0
    reward, landed = settle(y=1.5, angle=1.2)  # it tips over
    assert not landed and reward < -50.0


@pytest.mark.parametrize(
    "state", [{"x": 9.99, "vx": 1.0, "y": 5.0}, {"y": 19.99, "vy": 1.0}, {"x": -9.99, "vx": -1.0}]
)
def test_flying_away_is_a_crash(state: dict[str, float]) -> None:
    env = make(**{"y": 5.0, **state})
    _, reward, terminated, _, _ = env.step(OFF)
    assert terminated[0] and reward[0] < -90.0


def test_friction_stops_a_slide_and_is_limited_by_the_load() -> None:
    env = make(y=0.9 - 0.075, vx=0.5)
    env.step(OFF)
    # both legs slide faster than they grip: 0.6 of the weight slows it down
    assert state_of(env)["vx"] == pytest.approx(0.5 - 4 * DT * 0.6 * 3.0, rel=0.05)
