"""Squared in Numba: envs/squared.c line by line."""

import numpy as np

from headrace import discrete, field, numba_env

SIZE = 11  # cells in a row, at least 2


@numba_env
class Squared:
    params = {"limit": 3 * SIZE}
    state = np.dtype([("row", "i4"), ("column", "i4"), ("target", "i4"), ("steps", "i4")])
    action = {"move": discrete(5)}
    obs = {"cell": field(-1, 1, dtype=np.int8, shape=(SIZE, SIZE))}

    def reset(p, s, rng):
        s.row = s.column = SIZE // 2
        place = rng.randint(4 * (SIZE - 1))
        side, along, far = place // (SIZE - 1), place % (SIZE - 1), SIZE - 1
        row = 0 if side == 0 else along if side == 1 else far if side == 2 else far - along
        column = along if side == 0 else far if side == 1 else far - along if side == 2 else 0
        s.target = row * SIZE + column

    def step(p, s, a, out, rng):
        row = s.row + (a.move == 2) - (a.move == 1)
        column = s.column + (a.move == 4) - (a.move == 3)
        shown_row = min(max(row, 0), SIZE - 1)
        shown_column = min(max(column, 0), SIZE - 1)
        left = (row != shown_row) | (column != shown_column)
        reached = (not left) & (row * SIZE + column == s.target)
        s.row = shown_row
        s.column = shown_column
        s.steps += 1
        late = s.steps >= p.limit
        out.reward = 1.0 if reached else -1.0 if left | late else 0.0
        out.terminated = left | reached
        out.truncated = late & (not (left | reached))

    def observe(p, s, o):
        o.cell[:] = 0
        o.cell[s.target // SIZE, s.target % SIZE] = -1
        o.cell[s.row, s.column] = 1
