"""Maze: find one place after another in a maze of which only the surroundings are seen.

observation  around: the VIEW x VIEW cells around the agent, which is in their middle: -1 a wall or
             outside, 0 floor, 1 the place to be found
action       0 goes up, 1 down, 2 left, 3 right; into a wall it stays
reward       1 for finding the place, whereupon another is to be found; 0 otherwise
start        a new maze of SIZE x SIZE cells with one way between any two places (a spanning tree,
             made by a random walk that turns back at dead ends), the agent in a random place
end          truncated after 4 SIZE^2 steps, never terminated

The maze stays as it is for the whole episode: an agent that remembers it finds more.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..engine.numba import discrete, field, numba_env

SIZE = 11  # cells in a row with the outer walls: odd, 5 to 127
VIEW = 5  # cells in a row of what is seen: odd

if SIZE % 2 == 0 or not 5 <= SIZE <= 127:
    raise ValueError(f"SIZE is {SIZE}: give an odd number from 5 to 127")
if VIEW % 2 == 0 or not 1 <= VIEW <= 127:
    raise ValueError(f"VIEW is {VIEW}: give an odd number from 1 to 127")

PLACES = (SIZE - 1) // 2  # in a row: the cells with odd row and column
DOWN = (-1, 1, 0, 0)  # rows that each action goes down
RIGHT = (0, 0, -1, 1)  # columns that each action goes to the right
FLOOR, WALL = 0, 1
CAME = 2  # while the maze is made: CAME + the way by which the walk came


def may_walk(s: Any, row: int, column: int, way: int) -> bool:
    """Whether the place behind the next wall is inside the maze and untouched."""
    row += 2 * DOWN[way]
    column += 2 * RIGHT[way]
    inside = 0 < row < SIZE and 0 < column < SIZE
    return inside and s.cell[row, column] == WALL


def hide(s: Any, rng: Any) -> None:
    """Chooses the place to be found: any but the agent's."""
    place = rng.randint(PLACES * PLACES - 1)
    place += place >= (s.row // 2) * PLACES + s.column // 2
    s.goal_row = 2 * (place // PLACES) + 1
    s.goal_column = 2 * (place % PLACES) + 1


@numba_env(max_steps=4 * SIZE * SIZE)
class Maze:
    """The environment of this file."""

    state = np.dtype(
        [
            ("cell", np.int8, (SIZE, SIZE)),
            ("row", np.int8),
            ("column", np.int8),
            ("goal_row", np.int8),
            ("goal_column", np.int8),
        ]
    )
    action = {"way": discrete(4)}
    obs = {"around": field(-1, 1, dtype=np.int8, shape=(VIEW, VIEW))}

    @staticmethod
    def reset(p: Any, s: Any, rng: Any) -> None:
        s.cell[:] = WALL
        row = 2 * rng.randint(PLACES) + 1
        column = 2 * rng.randint(PLACES) + 1
        s.row, s.column = row, column
        s.cell[row, column] = CAME + 4  # the start: there is no way back from it
        walking = True
        while walking:
            count = 0
            for way in range(4):
                count += may_walk(s, row, column, way)
            if count > 0:
                pick = rng.randint(count)
                for way in range(4):
                    if may_walk(s, row, column, way):
                        if pick == 0:
                            chosen = way
                        pick -= 1
                s.cell[row + DOWN[chosen], column + RIGHT[chosen]] = FLOOR
                row += 2 * DOWN[chosen]
                column += 2 * RIGHT[chosen]
                s.cell[row, column] = CAME + chosen
            else:
                came = s.cell[row, column] - CAME
                s.cell[row, column] = FLOOR
                walking = came < 4
                if walking:
                    row -= 2 * DOWN[came]
                    column -= 2 * RIGHT[came]
        hide(s, rng)

    @staticmethod
    def step(p: Any, s: Any, a: Any, out: Any, rng: Any) -> None:
        row, column = s.row + DOWN[a.way], s.column + RIGHT[a.way]
        if s.cell[row, column] == FLOOR:
            s.row, s.column = row, column
        if s.row == s.goal_row and s.column == s.goal_column:
            out.reward = 1.0
            hide(s, rng)

    @staticmethod
    def observe(p: Any, s: Any, o: Any) -> None:
        for i in range(VIEW):
            for j in range(VIEW):
                row, column = s.row + i - VIEW // 2, s.column + j - VIEW // 2
                seen = -1
                if 0 <= row < SIZE and 0 <= column < SIZE and s.cell[row, column] == FLOOR:
                    seen = 1 if row == s.goal_row and column == s.goal_column else 0
                o.around[i, j] = seen

    @staticmethod
    def draw(p: Any, s: Any, frame: Any) -> None:
        size = min(frame.width, frame.height) / (SIZE + 1)
        left = 0.5 * (frame.width - SIZE * size)
        top = 0.5 * (frame.height - SIZE * size)
        frame.fill((28, 31, 38))
        for row in range(SIZE):
            for column in range(SIZE):
                far = max(abs(row - s.row), abs(column - s.column)) > VIEW // 2
                wall = s.cell[row, column] != FLOOR
                color = (64, 70, 84) if wall else (120, 126, 140) if far else (190, 195, 205)
                frame.rect(left + column * size, top + row * size, size, size, color)
        goal_x, goal_y = left + s.goal_column * size, top + s.goal_row * size
        frame.rect(goal_x, goal_y, size, size, (232, 184, 72))
        center_x, center_y = left + (s.column + 0.5) * size, top + (s.row + 0.5) * size
        frame.disc(center_x, center_y, 0.35 * size, (86, 182, 194))
