/* Squared: walk from the centre of a square grid to a target on its edge.
 *
 * observation  the grid of SIZE x SIZE cells: 1 the agent, -1 the target, 0 elsewhere
 * action       0 stays, 1 goes up, 2 down, 3 left, 4 right
 * reward       1 at the target; -1 for leaving the grid or running out of time; 0 otherwise
 * start        the agent in the centre, the target in a random cell of the edge
 * end          terminated at the target and outside the grid (the agent is then shown where
 *              it left); truncated by the environment itself after `limit` steps
 */
#include <headrace.h>

#ifndef SIZE
#define SIZE 11 /* cells in a row, at least 2 */
#endif

typedef struct {
    int32_t limit; /* steps that the agent has */
} Params;

typedef struct {
    int32_t row, column; /* of the agent; row 0 is at the top */
    int32_t target;      /* row * SIZE + column, on the edge */
    int32_t steps;       /* taken so far */
} State;

typedef struct {
    int32_t move;
} Action;

typedef struct {
    int8_t cell[SIZE][SIZE];
} Obs;

static inline void squared_reset(const Params *p, State *s, hr_rng *rng) {
    (void)p;
    s->row = s->column = SIZE / 2;
    /* the edge is four sides of SIZE - 1 cells, clockwise from the top left corner */
    int32_t place = hr_randint(rng, 4 * (SIZE - 1));
    int32_t side = place / (SIZE - 1), along = place % (SIZE - 1), far = SIZE - 1;
    int32_t row = side == 0 ? 0 : side == 1 ? along : side == 2 ? far : far - along;
    int32_t column = side == 0 ? along : side == 1 ? far : side == 2 ? far - along : 0;
    s->target = row * SIZE + column;
}

static inline void squared_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                                hr_rng *rng) {
    (void)rng;
    int32_t row = s->row + (a->move == 2 ? 1 : 0) - (a->move == 1 ? 1 : 0);
    int32_t column = s->column + (a->move == 4 ? 1 : 0) - (a->move == 3 ? 1 : 0);
    int32_t shown_row = row < 0 ? 0 : row > SIZE - 1 ? SIZE - 1 : row;
    int32_t shown_column = column < 0 ? 0 : column > SIZE - 1 ? SIZE - 1 : column;
    bool left = (row != shown_row) | (column != shown_column);
    bool reached = !left & (row * SIZE + column == s->target);

    s->row = shown_row;
    s->column = shown_column;
    s->steps += 1;
    bool late = s->steps >= p->limit;
    out->reward = reached ? 1.0f : (left | late) ? -1.0f : 0.0f;
    out->terminated = left | reached;
    out->truncated = late & !(left | reached);
}

static inline void squared_observe(const Params *p, const State *s, Obs o[]) {
    (void)p;
    __builtin_memset(o->cell, 0, sizeof o->cell);
    o->cell[s->target / SIZE][s->target % SIZE] = -1;
    o->cell[s->row][s->column] = 1;
}

static inline void squared_draw(const Params *p, const State *s, hr_frame *frame) {
    float width = (float)frame->width, height = (float)frame->height;
    float cell = hr_min(width, height) / ((float)SIZE + 1.0f);
    float left = 0.5f * (width - cell * (float)SIZE), top = 0.5f * (height - cell * (float)SIZE);
    float left_over = 1.0f - (float)s->steps / (float)p->limit; /* share of the time */
    hr_fill(frame, hr_rgb(28, 31, 38));
    for (int32_t row = 0; row < SIZE; row++)
        for (int32_t column = 0; column < SIZE; column++)
            hr_rect(frame, left + (float)column * cell, top + (float)row * cell, 0.94f * cell,
                    0.94f * cell, hr_rgb(46, 51, 61));
    hr_rect(frame, left + (float)(s->target % SIZE) * cell, top + (float)(s->target / SIZE) * cell,
            0.94f * cell, 0.94f * cell, hr_rgb(232, 184, 72));
    hr_disc(frame, left + ((float)s->column + 0.47f) * cell, top + ((float)s->row + 0.47f) * cell,
            0.38f * cell, hr_rgb(86, 182, 194));
    hr_rect(frame, left, height - 0.35f * cell, cell * (float)SIZE * left_over, 0.2f * cell,
            hr_rgb(120, 126, 140));
}

HR_ENV(squared, HR_OBS(HR_FIELD(Obs, cell, -1, 1)), HR_ACTION(HR_DISCRETE(Action, move, 5)),
       HR_PARAMS(HR_PARAM(limit, 3 * SIZE)), .draw = squared_draw)
