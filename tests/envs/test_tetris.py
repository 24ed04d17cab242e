"""Tetris: where pieces come to rest, lines, the top, the mask and what is foreseen, by hand."""

from __future__ import annotations

import numpy as np
import pytest

import headrace

I, O, T, S, Z, J, L = range(7)  # noqa: E741
STATE = np.dtype(
    [
        ("rows", np.uint16, 20),
        *((name, np.int32) for name in ("piece", "next", "bag", "lines")),
    ]
)
SHAPES = {  # number of shapes that turning gives, and the width of each turn
    I: (2, [4, 1]),
    O: (1, [2]),
    T: (4, [3, 2, 3, 2]),
    S: (2, [3, 2]),
    Z: (2, [3, 2]),
    J: (4, [3, 2, 3, 2]),
    L: (4, [3, 2, 3, 2]),
}


def make(piece: int, *lines: str):
    """One world with this piece to place and these rows (the top one first), and its state."""
    env = headrace.make_vec("tetris", 1, autoreset_mode="Disabled")
    env.reset(seed=0)
    state = env.state.view(STATE)[:, 0]
    state["rows"] = 0
    for row, line in enumerate(reversed(lines)):
        state["rows"][0, row] = sum(1 << c for c, char in enumerate(line) if char == "#")
    state["piece"] = piece
    return env, state


def board(state, count: int) -> list[str]:
    """The lowest rows, the top one first."""
    rows = state["rows"][0, :count][::-1]
    return ["".join(".#"[int(row) >> c & 1] for c in range(10)) for row in rows]


@pytest.mark.parametrize(
    ("piece", "turn", "expected"),
    [
        (I, 0, ["####......"]),
        (I, 1, ["#.........", "#.........", "#.........", "#........."]),
        (O, 0, ["##........", "##........"]),
        (T, 0, [".#........", "###......."]),
        (T, 1, ["#.........", "##........", "#........."]),
        (T, 2, ["###.......", ".#........"]),
        (T, 3, [".#........", "##........", ".#........"]),
        (S, 0, [".##.......", "##........"]),
        (S, 1, ["#.........", "##........", ".#........"]),
        (Z, 0, ["##........", ".##......."]),
        (J, 0, ["#.........", "###......."]),
        (J, 1, ["##........", "#.........", "#........."]),
        (L, 0, ["..#.......", "###......."]),
        (L, 1, ["#.........", "#.........", "##........"]),
    ],
)
def test_shapes(piece: int, turn: int, expected: list[str]) -> None:
    env, state = make(piece)
    _, reward, terminated, _, _ = env.step([10 * turn])
    assert board(state, len(expected)) == expected
    assert reward[0] == 0.0 and not terminated[0]


def test_pieces_rest_on_what_lies_below() -> None:
    env, state = make(T, "....#.....", "....#.....")
    env.step([20 + 4])  # upside down, its stem beside the pile: it hangs on the edge
    assert board(state, 3) == ["....###...", "....##....", "....#....."]


def test_a_full_line_goes_and_the_rest_sinks() -> None:
    env, state = make(I, "#.........", "####....##", ".#########")
    _, reward, _, _, _ = env.step([4])
    assert reward[0] == 1.0 and state["lines"][0] == 1
    assert board(state, 3) == ["..........", "#.........", ".#########"]


def test_four_lines_at_once() -> None:
    env, state = make(I, ".#########", ".#########", ".#########", ".#########")
    _, reward, _, _, _ = env.step([10])
    assert reward[0] == 4.0
    assert not state["rows"].any()


def test_a_piece_is_pushed_back_from_the_wall() -> None:
    env, state = make(O)
    env.step([9])
    assert board(state, 2) == ["........##", "........##"]


def test_above_the_top_ends_the_episode() -> None:
    pile = ["#........."] * 19
    env, state = make(O, *pile)
    before = state["rows"].copy()
    _, reward, terminated, truncated, _ = env.step([0])
    assert reward[0] == -1.0 and terminated[0] and not truncated[0]
    np.testing.assert_array_equal(state["rows"], before)
    env, state = make(O, *pile[1:])
    _, reward, terminated, _, _ = env.step([0])  # 18 + 2 just fits
    assert reward[0] == 0.0 and not terminated[0]


@pytest.mark.parametrize("piece", SHAPES)
def test_the_mask_allows_each_look_once_and_inside_the_walls(piece: int) -> None:
    env, state = make(O)
    state["next"] = piece
    env.step([0])
    looks, widths = SHAPES[piece]
    mask = env.buffers.arrays["mask"].reshape(4, 10)
    expected = np.zeros((4, 10), bool)
    for turn in range(looks):
        expected[turn, : 11 - widths[turn]] = True
    np.testing.assert_array_equal(mask, expected)


def test_observation() -> None:
    env, state = make(O, "##........", "#.#.......", "###......#")
    state["next"] = J
    obs = env.step([7])[0][0]  # the O goes into columns 7 and 8
    assert board(state, 3) == ["##........", "#.#....##.", "###....###"]
    parts = np.split(obs, np.cumsum([40, 40, 40, 10, 9, 10, 7]))
    rest, covers, clears, height, step, holes, piece, following = parts
    np.testing.assert_allclose(20 * height, [3, 3, 2, 0, 0, 0, 0, 2, 2, 1], atol=1e-5)
    np.testing.assert_allclose(4 * step, [0, 1, 2, 0, 0, 0, -2, 0, 1], atol=1e-5)
    np.testing.assert_array_equal(4 * holes, [0, 1, 0, 0, 0, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(piece, np.eye(7)[J])
    assert following.sum() == 1
    # J as it comes, three wide: rests on the highest of its columns
    np.testing.assert_allclose(20 * rest[:8], [3, 3, 2, 0, 0, 2, 2, 2], atol=1e-5)
    np.testing.assert_array_equal(4 * covers[:8], [1, 4, 4, 0, 0, 4, 2, 1])
    assert (rest[8:10] == 1).all() and (covers[8:10] == 1).all()
    assert not clears.any()


def test_lines_are_foreseen() -> None:
    env, state = make(O, "...#######", "...#######")
    state["next"] = L
    obs = env.step([8])[0][0]
    clears = 4 * obs[80:120].reshape(4, 10)
    expected = np.zeros((4, 10))
    expected[0, 0] = 1  # as it comes, it fills the lowest row
    expected[2, 0] = 1  # upside down, the one above
    np.testing.assert_array_equal(clears, expected)
    assert env.step([0])[1][0] == 1.0


def test_seven_pieces_come_before_any_comes_again() -> None:
    env = headrace.make_vec("tetris", 50)
    env.reset(seed=1)
    states = env.state.view(STATE)[:, 0]
    seen = [states["piece"].copy()]
    for turn in range(6):
        env.step(np.full(50, 2 * turn if turn < 5 else 0))
        seen.append(states["piece"].copy())
    assert (np.sort(np.array(seen), axis=0) == np.arange(7)[:, None]).all()
    assert len({tuple(order) for order in np.array(seen).T}) > 40
