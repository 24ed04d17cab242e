"""2048: slides and merges by hand, the mask, new tiles and the end."""

from __future__ import annotations

import numpy as np
import pytest

import headrace

UP, RIGHT, DOWN, LEFT = range(4)
STATE = np.dtype([("cell", np.uint8, 16), ("score", np.int32)])


def make(tiles: list[list[int]]):
    """One world with these tiles (2, 4, 8 ...; 0: none), and a view of its state."""
    env = headrace.make_vec("game_2048", 1, autoreset_mode="Disabled")
    env.reset(seed=0)
    state = env.state.view(STATE)[:, 0]
    numbers = np.array(tiles).ravel()
    state["cell"] = np.where(numbers > 0, np.log2(np.maximum(numbers, 1)), 0)
    state["score"] = 0
    return env, state


def tiles_of(state) -> np.ndarray:
    exponents = state["cell"][0].astype(int).reshape(4, 4)
    return np.where(exponents > 0, 2**exponents, 0)


def slide(tiles: list[list[int]], action: int) -> tuple[np.ndarray, float]:
    """The board after a slide without the new tile, and the score."""
    env, state = make(tiles)
    env.step([action])
    return tiles_of(state), int(state["score"][0])


def assert_slide(tiles, action: int, expected, score: int) -> None:
    after, points = slide(tiles, action)
    expected = np.array(expected)
    added = after != expected
    assert added.sum() == 1  # one new tile, in a cell that is empty after the slide
    assert expected[added][0] == 0 and after[added][0] in (2, 4)
    assert points == score


EMPTY = [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("line", "expected", "score"),
    [
        ([2, 2, 2, 2], [4, 4, 0, 0], 8),
        ([2, 2, 4, 0], [4, 4, 0, 0], 4),  # what has merged does not merge again
        ([4, 2, 2, 0], [4, 4, 0, 0], 4),
        ([2, 2, 2, 0], [4, 2, 0, 0], 4),  # the pair nearest to the side merges
        ([0, 2, 0, 2], [4, 0, 0, 0], 4),
        ([2, 0, 4, 2], [2, 4, 2, 0], 0),
        ([0, 0, 0, 8], [8, 0, 0, 0], 0),
        ([1024, 1024, 8, 8], [2048, 16, 0, 0], 2064),
    ],
)
def test_lines(line: list[int], expected: list[int], score: int) -> None:
    assert_slide([line, EMPTY, EMPTY, EMPTY], LEFT, [expected, EMPTY, EMPTY, EMPTY], score)
    back, back_expected = line[::-1], expected[::-1]
    assert_slide([EMPTY, back, EMPTY, EMPTY], RIGHT, [EMPTY, back_expected, EMPTY, EMPTY], score)
    column = np.zeros((4, 4), int)
    column_expected = column.copy()
    column[:, 2], column_expected[:, 2] = line, expected
    assert_slide(column, UP, column_expected, score)
    assert_slide(column[::-1], DOWN, column_expected[::-1], score)


def test_reward_is_the_score_in_hundreds() -> None:
    env, _ = make([[64, 64, 0, 0], [2, 2, 0, 0], EMPTY, EMPTY])
    _, reward, terminated, _, _ = env.step([LEFT])
    assert reward[0] == pytest.approx((128 + 4) / 100) and not terminated[0]


def test_the_mask_leaves_out_what_moves_nothing() -> None:
    env, state = make([[2, 4, 0, 0], [8, 16, 0, 0], EMPTY, EMPTY])
    before = state.copy()
    obs, reward, terminated, _, _ = env.step([LEFT])  # moves nothing
    np.testing.assert_array_equal(state, before)
    assert reward[0] == 0.0 and not terminated[0]
    np.testing.assert_array_equal(env.buffers.arrays["mask"].ravel(), [0, 1, 1, 0])
    np.testing.assert_array_equal(obs[0][:2], [1, 2])  # exponents


def test_the_end_is_a_board_that_cannot_move() -> None:
    env, _ = make([[2, 4, 8, 16], [32, 64, 128, 256], [2, 4, 8, 16], [0, 32, 64, 1024]])
    _, reward, terminated, _, _ = env.step([LEFT])  # the new tile, 2 or 4, meets 16 and 1024
    assert terminated[0] and reward[0] == 0.0
    assert env.statistics()["largest"] == 1024.0


def test_start_and_new_tiles() -> None:
    env = headrace.make_vec("game_2048", 2000)
    env.reset(seed=3)
    cells = env.state.view(STATE)[:, 0]["cell"]
    assert ((cells > 0).sum(axis=1) == 2).all() and cells.max() == 2
    assert 0.07 < (cells == 2).sum() / 4000 < 0.13
    assert ((cells > 0).sum(axis=0) > 180).all()  # every cell, 250 times on average
