"""Snake: moving, growing, dying and seeing, by hand."""

from __future__ import annotations

import numpy as np
import pytest

import headrace

STRAIGHT, LEFT, RIGHT = range(3)
UP, EAST, DOWN, WEST = range(4)
NAMES = ("row", "column", "heading", "length", "food", "hungry")


def state_type(size: int) -> np.dtype:
    cells = size * size
    return np.dtype([("life", np.uint16, cells + cells % 2), *((name, np.int32) for name in NAMES)])


def make(body: list[tuple[int, int]], heading: int, food: tuple[int, int], size: int = 5):
    """One world whose snake lies in these cells, the head first; and a view of its state."""
    env = headrace.make_vec("snake", 1, SIZE=size, autoreset_mode="Disabled")
    env.reset(seed=0)
    state = env.state.view(state_type(size))[:, 0]
    state["life"] = 0
    for age, (row, column) in enumerate(body):
        state["life"][0, row * size + column] = len(body) - age
    state["row"], state["column"] = body[0]
    state["heading"], state["length"] = heading, len(body)
    state["food"], state["hungry"] = food[0] * size + food[1], 0
    return env, state


def grid(state, size: int = 5) -> np.ndarray:
    return state["life"][0, : size * size].reshape(size, size)


def test_start() -> None:
    env = headrace.make_vec("snake", 500)
    env.reset(seed=2)
    states = env.state.view(state_type(10))[:, 0]
    assert (states["row"] == 5).all() and (states["length"] == 3).all()
    assert set(states["heading"]) == {UP, EAST, DOWN, WEST}
    assert (np.sort(states["life"], axis=1)[:, -4:] == [0, 1, 2, 3]).all()
    food = states["food"]
    assert (np.take_along_axis(states["life"], food[:, None], 1) == 0).all()
    assert len(np.unique(food)) > 80


@pytest.mark.parametrize(
    ("action", "cell", "heading"),
    [(STRAIGHT, (1, 2), UP), (LEFT, (2, 1), WEST), (RIGHT, (2, 3), EAST)],
)
def test_the_body_follows_the_head(action: int, cell: tuple[int, int], heading: int) -> None:
    env, state = make([(2, 2), (3, 2), (4, 2)], UP, food=(0, 0))
    _, reward, terminated, _, _ = env.step([action])
    expected = np.zeros((5, 5), np.uint16)
    expected[cell], expected[2, 2], expected[3, 2] = 3, 2, 1
    np.testing.assert_array_equal(grid(state), expected)
    assert state["heading"][0] == heading and state["hungry"][0] == 1
    assert reward[0] == 0.0 and not terminated[0]


def test_food_makes_it_longer() -> None:
    env, state = make([(2, 2), (3, 2), (4, 2)], UP, food=(1, 2))
    state["hungry"] = 9
    _, reward, terminated, _, _ = env.step([STRAIGHT])
    expected = np.zeros((5, 5), np.uint16)
    expected[1, 2], expected[2, 2], expected[3, 2], expected[4, 2] = 4, 3, 2, 1
    np.testing.assert_array_equal(grid(state), expected)
    assert reward[0] == 1.0 and not terminated[0]
    assert state["length"][0] == 4 and state["hungry"][0] == 0
    assert grid(state).ravel()[state["food"][0]] == 0  # the next food lies elsewhere


def test_walls_kill() -> None:
    env, _ = make([(0, 2), (1, 2), (2, 2)], UP, food=(4, 4))
    _, reward, terminated, truncated, _ = env.step([STRAIGHT])
    assert reward[0] == -1.0 and terminated[0] and not truncated[0]
    assert env.statistics()["length"] == 3.0


def test_its_body_kills() -> None:
    env, _ = make([(2, 2), (2, 3), (3, 3), (3, 2), (3, 1), (2, 1)], WEST, food=(0, 0))
    _, reward, terminated, _, _ = env.step([LEFT])  # into (3, 2), two steps before it is free
    assert reward[0] == -1.0 and terminated[0]


def test_the_tail_moves_away_in_time() -> None:
    env, state = make([(2, 2), (2, 3), (3, 3), (3, 2)], WEST, food=(0, 0))
    _, reward, terminated, _, _ = env.step([LEFT])
    assert reward[0] == 0.0 and not terminated[0]
    assert grid(state)[3, 2] == 4


def test_hunger_kills() -> None:
    env, state = make([(2, 2), (3, 2), (4, 2)], UP, food=(0, 0))
    state["hungry"] = 48
    obs, reward, terminated, _, _ = env.step([STRAIGHT])
    assert not terminated[0] and obs[0, -1] == pytest.approx(1 / 50)
    _, reward, terminated, _, _ = env.step([RIGHT])
    assert reward[0] == -1.0 and terminated[0]


def test_filling_the_grid_ends_the_episode() -> None:
    path = [(r, c if r % 2 == 0 else 4 - c) for r in range(5) for c in range(5)]
    env, state = make(path[1:], WEST, food=(0, 0))
    _, reward, terminated, _, _ = env.step([STRAIGHT])
    assert reward[0] == 1.0 and terminated[0]
    assert state["length"][0] == 25


def test_what_it_sees() -> None:
    # looking east from (2, 1): up in the view is east, right in the view is south
    env, _ = make([(2, 0), (3, 0), (4, 0)], EAST, food=(0, 2))
    obs = env.step([STRAIGHT])[0][0]
    view = obs[:49].reshape(7, 7)
    expected = np.zeros((7, 7), np.float32)
    expected[:, 6] = -1  # row 5: beyond the grid
    expected[:, 0] = -1  # row -1
    expected[5:, :] = -1  # columns -1 and -2
    expected[3, 3] = -1  # the head
    expected[4, 3] = -2 / 3  # where it was, (2, 0)
    expected[4, 4] = -1 / 3  # (3, 0)
    expected[2, 1] = 1  # food at (0, 2): one ahead, two to the left
    np.testing.assert_allclose(view, expected, atol=1e-6)
    np.testing.assert_allclose(obs[49:], [1 / 5, -2 / 5, 3 / 25, 1 - 1 / 50], atol=1e-6)
