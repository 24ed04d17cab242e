"""Connect four: turns, lines in every direction, illegal moves, draws and who is told what."""

from __future__ import annotations

import numpy as np
import pytest

import headrace

STATE = np.dtype([("discs", np.uint64, 2), ("turn", np.int64)])


class Game:
    """One game in which player 0 begins."""

    def __init__(self) -> None:
        self.env = headrace.make_vec("connect4", 2, autoreset_mode="Disabled")
        self.env.reset(seed=0)
        self.state = self.env.state.view(STATE)[:, 0]
        while self.state["turn"][0] != 0:
            self.env.reset()
        self.arrays = self.env.buffers.arrays

    def play(self, *columns: int):
        """Both players drop discs, by turns; what the last step gave."""
        for column in columns:
            self.obs, self.rewards, self.terminated, self.truncated, _ = self.env.step(
                [column, column]
            )
        return self.rewards.tolist(), self.terminated.tolist()

    @property
    def present(self) -> list[int]:
        return self.arrays["present"].tolist()


def test_players_take_turns_and_see_the_grid_from_their_own_side() -> None:
    game = Game()
    assert game.present == [1, 0]
    rewards, terminated = game.play(3, 3, 0)
    assert rewards == [0.0, 0.0] and terminated == [False, False]
    assert game.present == [0, 1]
    grid = np.zeros((6, 7), np.int8)
    grid[0, 3], grid[1, 3], grid[0, 0] = 1, -1, 1
    np.testing.assert_array_equal(game.obs, [grid, -grid])


@pytest.mark.parametrize(
    "moves",
    [
        [0, 6, 1, 6, 2, 6, 3],  # a row
        [2, 3, 2, 3, 2, 3, 2],  # a column
        [0, 1, 1, 2, 2, 3, 2, 3, 3, 6, 3],  # a diagonal to the right
        [6, 5, 5, 4, 4, 3, 4, 3, 3, 0, 3],  # a diagonal to the left
        [0, 6, 1, 6, 3, 6, 2],  # the gap closed
    ],
)
def test_four_in_a_line_win_and_both_are_told(moves: list[int]) -> None:
    game = Game()
    rewards, terminated = game.play(*moves[:-1])
    assert rewards == [0.0, 0.0] and terminated == [False, False]
    rewards, terminated = game.play(moves[-1])
    assert rewards == [1.0, -1.0] and terminated == [True, True]
    assert game.arrays["acted"].tolist() == [1, 0] and game.present == [0, 0]
    assert game.arrays["last_return"].tolist() == [1.0, -1.0]
    assert game.arrays["last_length"].tolist() == [(len(moves) + 1) // 2, len(moves) // 2]
    np.testing.assert_array_equal(game.obs[0], -game.obs[1])
    assert (game.obs[0] == 1).sum() == (len(moves) + 1) // 2


def test_no_line_leads_from_the_top_of_a_column_into_the_next() -> None:
    game = Game()
    # player 0 holds the three topmost cells of column 0 and the lowest one of column 1
    for cell in (3, 4, 5, 7):
        game.state["discs"][0, 0] |= np.uint64(1 << cell)
    game.state["discs"][0, 1] |= np.uint64(7)
    rewards, terminated = game.play(6)
    assert rewards == [0.0, 0.0] and terminated == [False, False]


def test_a_full_column_is_masked_and_loses() -> None:
    game = Game()
    game.play(0, 0, 0, 0, 0, 0)
    mask = game.arrays["mask"].reshape(2, 7)
    np.testing.assert_array_equal(mask[0], [0, 1, 1, 1, 1, 1, 1])
    rewards, terminated = game.play(0)
    assert rewards == [-1.0, 1.0] and terminated == [True, True]


def test_a_full_grid_is_a_draw() -> None:
    game = Game()
    # columns filled in pairs, so that no four meet; the 42nd disc is the second player's
    columns = [0, 1, 0, 1, 0, 1, 1, 0, 1, 0, 1, 0]
    moves = columns + [c + 2 for c in columns] + [c + 4 for c in columns] + [6] * 6
    rewards, terminated = game.play(*moves[:-1])
    assert terminated == [False, False]
    rewards, terminated = game.play(moves[-1])
    assert rewards == [0.0, 0.0] and terminated == [True, True]


def test_either_player_may_begin() -> None:
    env = headrace.make_vec("connect4", 2000)
    env.reset(seed=1)
    present = env.buffers.arrays["present"].reshape(1000, 2)
    assert (present.sum(axis=1) == 1).all()
    assert 430 < present[:, 0].sum() < 570
