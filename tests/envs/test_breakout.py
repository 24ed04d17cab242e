"""Breakout: a brick, a wall, a return, a lost ball and both ends, by hand."""

from __future__ import annotations

import numpy as np
import pytest

import headrace

STAY, LEFT, RIGHT = range(3)
STATE = np.dtype(
    [
        ("bricks", np.uint32, 6),
        *((name, np.float32) for name in ("paddle", "x", "y", "vx", "vy", "speed")),
        ("balls", np.int32),
        ("cleared", np.int32),
    ]
)
ALL = (1 << 18) - 1


def make(frame_skip: int = 1, **params):
    """One world, and a view of its state."""
    env = headrace.make_vec(
        "breakout", 1, autoreset_mode="Disabled", frame_skip=frame_skip, **params
    )
    env.reset(seed=0)
    return env, env.state.view(STATE)[:, 0]


def fly(state, x: float, y: float, vx: float, vy: float) -> None:
    state["x"], state["y"], state["vx"], state["vy"] = x, y, vx, vy
    state["speed"] = np.hypot(vx, vy)


def test_start() -> None:
    env, state = make()
    obs = env.reset(seed=4)[0][0]
    assert obs.shape == (6 + 108,)
    assert (obs[6:] == 1).all() and obs[0] == 0.5 and obs[5] == 1.0
    assert (state["bricks"] == ALL).all()
    assert state["y"][0] == pytest.approx(0.1 + 7 * 0.04)
    assert np.hypot(state["vx"], state["vy"])[0] == pytest.approx(0.014)
    assert state["vy"][0] > 0


def test_a_brick_hit_from_below_goes_and_turns_the_ball() -> None:
    env, state = make()
    fly(state, 0.25, 0.345, 0.0, -0.01)  # the wall's lower edge is at 0.1 + 6 * 0.04 = 0.34
    obs, reward, terminated, _, _ = env.step([STAY])
    assert reward[0] == 1.0 and not terminated[0]
    assert state["bricks"][0, 5] == ALL & ~(1 << 4)  # 0.25 * 18 = 4.5
    assert obs[0, 6 + 5 * 18 + 4] == 0.0 and obs[0, 6:].sum() == 107
    assert state["vy"][0] == pytest.approx(0.01)
    assert state["y"][0] == pytest.approx(0.345)
    assert state["cleared"][0] == 1


def test_a_brick_hit_from_the_side_turns_the_ball_sideways() -> None:
    env, state = make()
    state["bricks"] = 0
    state["bricks"][0, 2] = 1 << 9  # x from 0.5 to 0.5556, y from 0.18 to 0.22
    fly(state, 0.495, 0.2, 0.01, 0.001)
    assert env.step([STAY])[1][0] == 1.0
    assert state["vx"][0] == pytest.approx(-0.01) and state["vy"][0] == pytest.approx(0.001)


def test_walls_turn_the_ball() -> None:
    env, state = make()
    fly(state, 0.015, 0.5, -0.01, 0.002)
    env.step([STAY])
    assert state["x"][0] == pytest.approx(0.015)  # 0.005 in front of the wall, both ways
    assert state["vx"][0] == pytest.approx(0.01)
    fly(state, 0.5, 0.015, 0.0, -0.01)
    env.step([STAY])
    assert state["vy"][0] == pytest.approx(0.01)


@pytest.mark.parametrize("offset", [0.0, 0.035, -0.07])
def test_where_the_paddle_is_hit_decides_the_direction(offset: float) -> None:
    env, state = make()
    fly(state, 0.5 + 0.999 * offset, 0.935, 0.0, 0.01)
    env.step([STAY])
    angle = np.radians(60) * 0.999 * offset / 0.07
    assert state["speed"][0] == pytest.approx(0.0102)
    assert state["vx"][0] == pytest.approx(0.0102 * np.sin(angle), abs=1e-6)
    assert state["vy"][0] == pytest.approx(-0.0102 * np.cos(angle), abs=1e-6)


def test_a_ball_beside_the_paddle_is_lost_and_another_is_served() -> None:
    env, state = make()
    fly(state, 0.6, 0.995, 0.0, 0.01)
    obs, reward, terminated, _, _ = env.step([STAY])
    assert reward[0] == 0.0 and not terminated[0]
    assert state["balls"][0] == 4 and obs[0, 5] == pytest.approx(0.8)
    assert state["y"][0] == pytest.approx(0.38)


def test_the_last_ball_ends_the_episode() -> None:
    env, state = make(balls=1)
    fly(state, 0.9, 0.995, 0.0, 0.01)
    _, _, terminated, truncated, _ = env.step([STAY])
    assert terminated[0] and not truncated[0]


def test_the_last_brick_ends_the_episode() -> None:
    env, state = make()
    state["bricks"] = 0
    state["bricks"][0, 5] = 1 << 4
    state["cleared"] = 107
    fly(state, 0.25, 0.345, 0.0, -0.01)
    _, reward, terminated, _, _ = env.step([STAY])
    assert reward[0] == 1.0 and terminated[0]
    statistics = env.statistics()
    assert statistics["won"] == 1.0 and statistics["cleared"] == 108.0


def test_one_action_is_four_steps_of_the_physics() -> None:
    env, state = make(frame_skip=4)
    fly(state, 0.5, 0.5, 0.01, 0.005)
    env.step([RIGHT])
    assert state["x"][0] == pytest.approx(0.54) and state["y"][0] == pytest.approx(0.52)
    assert state["paddle"][0] == pytest.approx(0.5 + 4 * 0.02)
    for _ in range(20):
        env.step([LEFT])
    assert state["paddle"][0] == pytest.approx(0.07)  # it stops at the wall
