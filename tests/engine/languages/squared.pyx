"""Squared in Cython: envs/squared.c line by line."""

from headrace cimport *

cdef extern from *:
    """
    #ifndef SIZE
    #define SIZE 11
    #endif
    """
    enum: SIZE


cdef struct Params:
    int32_t limit


cdef struct State:
    int32_t row
    int32_t column
    int32_t target
    int32_t steps


cdef struct Action:
    int32_t move


cdef struct Obs:
    int8_t cell[SIZE][SIZE]


cdef void squared_reset(const Params *p, State *s, hr_rng *rng) noexcept nogil:
    cdef int32_t far = SIZE - 1, place = hr_randint(rng, 4 * (SIZE - 1))
    cdef int32_t side = place / (SIZE - 1), along = place % (SIZE - 1)
    cdef int32_t row, column
    s.row = s.column = SIZE / 2
    row = 0 if side == 0 else along if side == 1 else far if side == 2 else far - along
    column = along if side == 0 else far if side == 1 else far - along if side == 2 else 0
    s.target = row * SIZE + column


cdef void squared_step(const Params *p, State *s, const Action *a, hr_outcome *out,
                       hr_rng *rng) noexcept nogil:
    cdef int32_t row = s.row + (a.move == 2) - (a.move == 1)
    cdef int32_t column = s.column + (a.move == 4) - (a.move == 3)
    cdef int32_t shown_row = 0 if row < 0 else SIZE - 1 if row > SIZE - 1 else row
    cdef int32_t shown_column = 0 if column < 0 else SIZE - 1 if column > SIZE - 1 else column
    cdef bint left = (row != shown_row) | (column != shown_column)
    cdef bint reached = (not left) & (row * SIZE + column == s.target)
    cdef bint late
    s.row = shown_row
    s.column = shown_column
    s.steps += 1
    late = s.steps >= p.limit
    out.reward = 1 if reached else -1 if left | late else 0
    out.terminated = left | reached
    out.truncated = late & (not (left | reached))


cdef void squared_observe(const Params *p, const State *s, Obs *o) noexcept nogil:
    cdef int32_t row, column
    for row in range(SIZE):
        for column in range(SIZE):
            o.cell[row][column] = 0
    o.cell[s.target / SIZE][s.target % SIZE] = -1
    o.cell[s.row][s.column] = 1


cdef extern from *:
    """
    HR_ENV(squared, HR_OBS(HR_FIELD(Obs, cell, -1, 1)), HR_ACTION(HR_DISCRETE(Action, move, 5)),
           HR_PARAMS(HR_PARAM(limit, 3 * SIZE)))
    """
