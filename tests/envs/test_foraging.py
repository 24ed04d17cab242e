"""Foraging: moving, picking alone and together, leaving, by hand."""

from __future__ import annotations

import numpy as np
import pytest

import headrace

PICK, UP, RIGHT, DOWN, LEFT = range(5)


def state_type(agents: int, foods: int) -> np.dtype:
    return np.dtype(
        [
            ("agent", np.int32, (agents, 3)),  # row, column, level
            ("left", np.int32, agents),
            ("food", np.int32, (foods, 3)),
            ("total", np.int32),
            ("picked", np.int32),
        ]
    )


def make(agents: list[tuple], foods: list[tuple], left: list[int] | None = None):
    """One world with these agents and foods (row, column, level), and its state."""
    env = headrace.make_vec(
        "foraging", len(agents), AGENTS=len(agents), FOODS=len(foods), autoreset_mode="Disabled"
    )
    env.reset(seed=0)
    state = env.state.view(state_type(len(agents), len(foods)))[:, 0]
    state["agent"][0], state["food"][0] = agents, foods
    state["left"][0] = left or [50] * len(agents)
    state["total"], state["picked"] = sum(food[2] for food in foods), 0
    return env, state


def test_one_agent_picks_food_of_its_level() -> None:
    env, state = make([(0, 0, 2), (5, 5, 1)], [(0, 1, 2), (7, 7, 2)])
    _, rewards, terminated, _, _ = env.step([PICK, PICK])
    np.testing.assert_allclose(rewards, [2 * 2 / 4, 0.0])
    assert not terminated.any()
    assert state["food"][0, 0, 2] == 0 and state["picked"][0] == 2


def test_food_too_strong_for_one_is_shared_by_two_by_their_levels() -> None:
    env, state = make([(3, 2, 2), (2, 3, 1), (0, 0, 3)], [(3, 3, 3), (7, 7, 3)])
    _, rewards, _, _, _ = env.step([PICK, RIGHT, PICK])
    np.testing.assert_array_equal(rewards, 0)
    state["agent"][0, 1] = (2, 3, 1)
    _, rewards, _, _, _ = env.step([PICK, PICK, PICK])
    # half of all food, three agents: 1.5, of which two thirds and one third
    np.testing.assert_allclose(rewards, [1.0, 0.5, 0.0], rtol=1e-6)


def test_a_diagonal_neighbour_and_one_who_moves_do_not_help() -> None:
    env, state = make([(3, 2, 2), (2, 2, 3)], [(3, 3, 3)])
    assert not env.step([PICK, PICK])[1].any()
    state["agent"][0] = [(3, 2, 2), (2, 3, 3)]
    assert not env.step([PICK, UP])[1].any()
    assert state["food"][0, 0, 2] == 3


def test_all_picked_ends_it_with_a_mean_return_of_one() -> None:
    env, _ = make([(3, 2, 2), (4, 3, 1)], [(3, 3, 3)])
    _, rewards, terminated, truncated, _ = env.step([PICK, PICK])
    np.testing.assert_allclose(rewards, [4 / 3, 2 / 3], rtol=1e-6)
    assert terminated.all() and not truncated.any()
    assert env.statistics()["picked"] == 1.0


@pytest.mark.parametrize(
    ("action", "cell"), [(UP, (2, 3)), (RIGHT, (3, 4)), (DOWN, (4, 3)), (LEFT, (3, 2))]
)
def test_moves(action: int, cell: tuple[int, int]) -> None:
    env, state = make([(3, 3, 1), (0, 0, 1)], [(7, 7, 2)])
    env.step([action, UP])
    assert tuple(state["agent"][0, 0, :2]) == cell
    assert tuple(state["agent"][0, 1, :2]) == (0, 0)  # the wall


def test_food_is_in_the_way_and_agents_are_not() -> None:
    env, state = make([(3, 3, 1), (3, 4, 1)], [(2, 3, 2)])
    env.step([UP, LEFT])
    np.testing.assert_array_equal(state["agent"][0, :, :2], [(3, 3), (3, 3)])
    env.step([LEFT, DOWN])
    np.testing.assert_array_equal(state["agent"][0, :, :2], [(3, 2), (4, 3)])


def test_tired_agents_leave_and_the_others_go_on() -> None:
    env, state = make([(0, 0, 1), (5, 5, 2)], [(2, 2, 2)], left=[1, 3])
    obs, _, terminated, truncated, _ = env.step([PICK, PICK])
    assert terminated.tolist() == [True, False] and not truncated.any()
    assert env.buffers.arrays["present"].tolist() == [0, 1]
    assert state["agent"][0, 0, 2] == 0
    np.testing.assert_array_equal(obs[1, 4:7], 0)  # the other one sees it no more
    env.step([PICK, PICK])
    _, _, terminated, _, _ = env.step([PICK, PICK])
    assert terminated.tolist() == [False, True]
    assert env.statistics()["picked"] == 0.0


def test_observation() -> None:
    env, _ = make([(3, 2, 2), (5, 6, 1)], [(0, 2, 3), (7, 7, 1)], left=[31, 16])
    obs = env.step([PICK, PICK])[0]
    np.testing.assert_allclose(
        obs[0],
        [3 / 7, 2 / 7, 2 / 3, 0.5, 2 / 7, 4 / 7, 1 / 3, -3 / 7, 0, 3 / 6, 4 / 7, 5 / 7, 1 / 6],
        rtol=1e-6,
    )
    np.testing.assert_allclose(
        obs[1, :7], [5 / 7, 6 / 7, 1 / 3, 0.25, -2 / 7, -4 / 7, 2 / 3], rtol=1e-6
    )


def test_start() -> None:
    env = headrace.make_vec("foraging", 4 * 500)
    env.reset(seed=1)
    states = env.state.view(state_type(4, 4))[:, 0]
    things = np.concatenate([states["agent"], states["food"]], axis=1)
    cells = np.sort(things[..., 0] * 8 + things[..., 1], axis=1)
    assert (np.diff(cells, axis=1) > 0).all() and cells.min() == 0 and cells.max() == 63
    levels = np.sort(states["agent"][..., 2], axis=1)
    assert levels.min() == 1 and levels.max() == 3
    food = states["food"][..., 2]
    assert (food >= 1).all() and (food <= levels[:, -2:].sum(axis=1)[:, None]).all()
    assert (states["total"] == food.sum(axis=1)).all()
    assert states["left"].min() == 30 and states["left"].max() == 60
