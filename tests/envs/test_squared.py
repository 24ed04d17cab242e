"""Squared: moves, rewards and ends, and where targets lie."""

from __future__ import annotations

import numpy as np
import pytest

import headrace

STAY, UP, DOWN, LEFT, RIGHT = range(5)


def make(size: int = 11, count: int = 1, **kwargs):
    env = headrace.make_vec("squared", count, SIZE=size, **kwargs)
    env.reset(seed=0)
    return env


def place(env, row: int, column: int, target: tuple[int, int], size: int = 11) -> None:
    """The agent and the target of every world, with no step taken yet."""
    env.state.view(np.int32)[:] = [row, column, target[0] * size + target[1], 0]


def play(env, moves: list[int]):
    """Steps one world; its observation, rewards and last flags."""
    rewards = []
    for move in moves:
        obs, reward, terminated, truncated, _ = env.step([move])
        rewards.append(float(reward[0]))
    return obs[0], rewards, bool(terminated[0]), bool(truncated[0])


def test_starts_in_the_centre_with_the_target_on_the_edge() -> None:
    env = make(count=4000)
    obs = env.reset(seed=3)[0]
    assert obs.shape == (4000, 11, 11) and obs.dtype == np.int8
    assert (obs[:, 5, 5] == 1).all()
    rows, columns = np.nonzero(obs == -1)[1:]
    assert len(rows) == 4000
    assert ((rows == 0) | (rows == 10) | (columns == 0) | (columns == 10)).all()
    counts = np.unique(rows * 11 + columns, return_counts=True)[1]
    assert len(counts) == 40  # every cell of the edge, about as often as the others
    assert counts.min() > 60 and counts.max() < 145


@pytest.mark.parametrize(
    ("move", "cell"),
    [(STAY, (5, 5)), (UP, (4, 5)), (DOWN, (6, 5)), (LEFT, (5, 4)), (RIGHT, (5, 6))],
)
def test_each_move(move: int, cell: tuple[int, int]) -> None:
    env = make()
    place(env, 5, 5, (0, 0))
    obs, rewards, terminated, truncated = play(env, [move])
    expected = np.zeros((11, 11), np.int8)
    expected[0, 0] = -1
    expected[cell] = 1
    np.testing.assert_array_equal(obs, expected)
    assert rewards == [0.0] and not terminated and not truncated


def test_reaching_the_target_pays_one_and_ends() -> None:
    env = make()
    place(env, 5, 5, (3, 10))
    obs, rewards, terminated, truncated = play(env, [UP, UP, RIGHT, RIGHT, RIGHT, RIGHT, RIGHT])
    assert rewards == [0.0] * 6 + [1.0]
    assert terminated and not truncated
    assert obs[3, 10] == 1 and (obs != 0).sum() == 1


def test_leaving_the_grid_costs_one_and_ends() -> None:
    env = make(size=5)
    place(env, 2, 2, (0, 0), size=5)
    obs, rewards, terminated, truncated = play(env, [DOWN, DOWN, DOWN])
    assert rewards == [0.0, 0.0, -1.0]
    assert terminated and not truncated
    assert obs[4, 2] == 1


def test_leaving_beside_the_next_rows_target_is_no_arrival() -> None:
    env = make()
    place(env, 2, 10, (3, 0))  # one to the right is the same number row * SIZE + column
    _, rewards, terminated, _ = play(env, [RIGHT])
    assert rewards == [-1.0] and terminated


def test_running_out_of_time_costs_one_and_truncates() -> None:
    env = make(limit=4)
    place(env, 5, 5, (0, 0))
    _, rewards, terminated, truncated = play(env, [STAY] * 4)
    assert rewards == [0.0, 0.0, 0.0, -1.0]
    assert truncated and not terminated


def test_the_limit_is_three_times_the_size() -> None:
    assert make().params["limit"] == 33
    assert make(size=6).params["limit"] == 18


def test_arriving_at_the_last_moment_is_an_arrival() -> None:
    env = make(limit=1)
    place(env, 1, 0, (0, 0))
    _, rewards, terminated, truncated = play(env, [UP])
    assert rewards == [1.0] and terminated and not truncated
