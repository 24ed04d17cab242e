/* Catch: move a paddle under the ball that falls through a grid.
 *
 * observation  the grid, 1 where the ball or the paddle is; action  0 left, 1 stay, 2 right
 * reward       1 for a catch, -1 for a miss, both of which end the episode
 *
 * Train it:  headrace train examples/catch.c
 */
#include <headrace.h>

#ifndef SIZE
#define SIZE 8
#endif

typedef hr_none Params;
typedef struct {
    int32_t ball_row, ball_column, paddle;
} State;
typedef struct {
    int32_t move;
} Action;
typedef struct {
    uint8_t grid[SIZE][SIZE];
} Obs;

static inline void catch_reset(const Params *p, State *s, hr_rng *rng) {
    (void)p;
    s->ball_column = hr_randint(rng, SIZE);
    s->paddle = SIZE / 2;
}

static inline void catch_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                              hr_rng *rng) {
    (void)p, (void)rng;
    int32_t paddle = s->paddle + a->move - 1;
    s->paddle = paddle < 0 ? 0 : paddle >= SIZE ? SIZE - 1 : paddle;
    s->ball_row++;
    out->terminated = s->ball_row == SIZE - 1;
    out->reward = !out->terminated ? 0.0f : s->ball_column == s->paddle ? 1.0f : -1.0f;
}

static inline void catch_observe(const Params *p, const State *s, Obs o[]) {
    (void)p;
    for (int row = 0; row < SIZE; row++)
        for (int column = 0; column < SIZE; column++) o->grid[row][column] = 0;
    o->grid[s->ball_row][s->ball_column] = 1;
    o->grid[SIZE - 1][s->paddle] = 1;
}

HR_ENV(catch, HR_OBS(HR_FIELD(Obs, grid, 0, 1)), HR_ACTION(HR_DISCRETE(Action, move, 3)),
       HR_PARAMS())
