"""Pong: flight, walls, paddles, points and the end of a game, by hand."""

from __future__ import annotations

import numpy as np
import pytest

import headrace

STAY, UP, DOWN = range(3)
NAMES = ("paddle", "opponent", "x", "y", "vx", "vy", "points", "lost")


def make(**state: float):
    """One world in this state; members not given are 0."""
    env = headrace.make_vec("pong", 1, autoreset_mode="Disabled")
    env.reset(seed=0)
    set_state(env, **state)
    return env


def set_state(env, **state: float) -> None:
    env.state.view(np.float32)[:] = [state.get(name, 0.0) for name in NAMES]


def state_of(env) -> dict[str, float]:
    return dict(zip(NAMES, env.state.view(np.float32)[0].tolist(), strict=True))


def test_the_ball_flies_straight_and_the_opponent_follows_only_when_it_approaches() -> None:
    env = make(x=0.2, y=-0.3, vx=-0.05, vy=0.02, opponent=0.5)
    env.step([STAY])
    after = state_of(env)
    assert after["x"] == pytest.approx(0.15)
    assert after["y"] == pytest.approx(-0.28)
    assert after["opponent"] == pytest.approx(0.5 - 0.045)
    set_state(env, x=0.2, y=-0.3, vx=0.05, opponent=0.5)
    env.step([STAY])
    assert state_of(env)["opponent"] == pytest.approx(0.5 - 0.045)  # back to the middle
    set_state(env, x=-0.2, y=0.03, vx=-0.05, opponent=0.0)
    env.step([STAY])
    assert state_of(env)["opponent"] == pytest.approx(0.03)  # no further than the ball


def test_walls_turn_the_ball_back() -> None:
    env = make(x=0.0, y=0.95, vx=0.05, vy=0.04)
    env.step([STAY])
    after = state_of(env)
    assert after["y"] == pytest.approx(0.97 - 0.02)
    assert after["vy"] == pytest.approx(-0.04)
    set_state(env, x=0.0, y=-0.95, vx=0.05, vy=-0.04)
    env.step([STAY])
    assert state_of(env)["y"] == pytest.approx(-0.97 + 0.02)


@pytest.mark.parametrize("side", [1, -1])
def test_where_the_paddle_hits_decides_the_angle(side: int) -> None:
    env = make(x=0.93 * side, y=0.1, vx=0.08 * side, opponent=0.055, paddle=0.0)
    reward = env.step([STAY])[1]
    after = state_of(env)
    offset = 0.1 if side == 1 else 0.0  # the opponent has come up to the ball
    assert reward[0] == 0.0
    assert after["x"] == pytest.approx(side * (0.95 - 0.06))
    assert after["vx"] == pytest.approx(-side * 0.08 * 1.05)
    assert after["vy"] == pytest.approx(offset / 0.2 * 0.09)


def test_speed_is_capped() -> None:
    env = make(x=0.9, vx=0.119)
    env.step([STAY])
    assert state_of(env)["vx"] == pytest.approx(-0.12)


def test_a_miss_is_a_point_and_a_serve_from_the_centre() -> None:
    env = make(x=0.93, y=0.5, vx=0.05, paddle=0.0, points=3.0, lost=4.0)
    obs, reward, terminated, _, _ = env.step([STAY])
    after = state_of(env)
    assert reward[0] == -1.0 and not terminated[0]
    assert (after["points"], after["lost"]) == (3.0, 5.0)
    assert (after["x"], after["y"]) == (0.0, 0.0)
    assert abs(after["vx"]) == pytest.approx(0.075) and abs(after["vy"]) <= 0.045
    assert obs[0, 7] == pytest.approx(5 / 21)
    set_state(env, x=-0.93, y=0.5, vx=-0.05, opponent=0.0)
    assert env.step([STAY])[1][0] == 1.0
    assert state_of(env)["points"] == 1.0


@pytest.mark.parametrize(("points", "lost", "side"), [(20.0, 3.0, -1), (3.0, 20.0, 1)])
def test_the_game_ends_at_21(points: float, lost: float, side: int) -> None:
    env = make(x=0.93 * side, y=0.6, vx=0.05 * side, points=points, lost=lost)
    _, reward, terminated, truncated, _ = env.step([STAY])
    assert reward[0] == -side
    assert terminated[0] and not truncated[0]


def test_paddle_moves_and_stops_at_the_walls() -> None:
    env = make()
    for action, expected in [(UP, -0.09), (STAY, -0.09), (DOWN, 0.0)]:
        env.step([action])
        assert state_of(env)["paddle"] == pytest.approx(expected, abs=1e-6)
    set_state(env, paddle=0.8)
    env.step([DOWN])
    assert state_of(env)["paddle"] == pytest.approx(0.83)


def test_serves_go_to_both_sides_at_many_angles() -> None:
    env = headrace.make_vec("pong", 1000)
    obs = env.reset(seed=1)[0]
    vx, vy = obs[:, 4], obs[:, 5]
    assert 400 < (vx > 0).sum() < 600
    assert vy.min() < -0.45 and vy.max() > 0.45 and abs(vy.mean()) < 0.05
