/* Breakout as a picture: the shipped game, seen as planes of cells.
 *
 * observation  uint8 [4, 26, 18]: the bricks, the ball, the ball one step of the physics before,
 *              and the paddle, each cell as bright as the share of it that is covered; x to the
 *              right, y downwards. A cell is as wide and high as a brick, and the first row begins
 *              half a cell above the court, so that each brick fills one
 * everything else is as in envs/breakout.c
 */
#include <headrace.h>

/* The game's own file, but for its observation and its descriptor. */
#pragma push_macro("HR_ENV")
#undef HR_ENV
#define HR_ENV(...)
#define Obs Numbers
#include "../envs/breakout.c"
#undef Obs
#pragma pop_macro("HR_ENV")

#define HEIGHT     26 /* cells of BRICK_HEIGHT, half a cell more than the court at either end */
#define WALL_ROW   3  /* of the topmost bricks */
#define PADDLE_ROW 24

typedef struct {
    uint8_t picture[4][HEIGHT][COLUMNS];
} Obs;

static inline void breakout_picture_reset(const Params *p, State *s, hr_rng *rng) {
    breakout_reset(p, s, rng);
}

static inline void breakout_picture_step(const Params *p, State *s, const Action a[],
                                         hr_outcome out[], hr_rng *rng) {
    breakout_step(p, s, a, out, rng);
}

/* What of cell `at` lies between low and high, all in cells: 0 to 255. */
static inline uint8_t covered(int32_t at, float low, float high) {
    float part = hr_min((float)(at + 1), high) - hr_max((float)at, low);
    return (uint8_t)(255.0f * hr_clamp(part, 0.0f, 1.0f));
}

/* A spot of the size of a cell around (x, y), shared by the cells on which it lies. */
static inline void spot(uint8_t plane[HEIGHT][COLUMNS], float x, float y) {
    float left = hr_clamp(x, 0.0f, 1.0f) * (float)COLUMNS - 0.5f;
    float top = hr_clamp(y, 0.0f, 1.0f) * (float)(HEIGHT - 1);
    int32_t column = (int32_t)(left + 1.0f) - 1, row = (int32_t)(top + 1.0f) - 1;
    for (int32_t r = row; r <= row + 1; r++)
        for (int32_t c = column; c <= column + 1; c++)
            if (r >= 0 && r < HEIGHT && c >= 0 && c < COLUMNS)
                plane[r][c] = (uint8_t)((float)covered(c, left, left + 1.0f) *
                                        (float)covered(r, top, top + 1.0f) * (1.0f / 255.0f));
}

static inline void breakout_picture_observe(const Params *p, const State *s, Obs o[]) {
    (void)p;
    for (int32_t plane = 0; plane < 4; plane++)
        for (int32_t row = 0; row < HEIGHT; row++)
            for (int32_t column = 0; column < COLUMNS; column++) o->picture[plane][row][column] = 0;
    for (int32_t row = 0; row < ROWS; row++)
        for (int32_t column = 0; column < COLUMNS; column++)
            o->picture[0][WALL_ROW + row][column] = s->bricks[row] >> column & 1u ? 255 : 0;
    spot(o->picture[1], s->x, s->y);
    spot(o->picture[2], s->x - s->vx, s->y - s->vy);
    float left = (s->paddle - PADDLE_HALF) * (float)COLUMNS;
    float right = (s->paddle + PADDLE_HALF) * (float)COLUMNS;
    for (int32_t column = 0; column < COLUMNS; column++)
        o->picture[3][PADDLE_ROW][column] = covered(column, left, right);
}

HR_ENV(breakout_picture, HR_OBS(HR_FIELD(Obs, picture, 0, 255)),
       HR_ACTION(HR_DISCRETE(Action, move, 3)),
       HR_PARAMS(HR_PARAM(frame_skip, 4), HR_PARAM(balls, 5), HR_PARAM(paddle_speed, 0.02f),
                 HR_PARAM(ball_speed, 0.014f), HR_PARAM(max_speed, 0.022f),
                 HR_PARAM(speedup, 1.02f)),
       .max_steps = 5000, .metrics = breakout_metrics, HR_METRICS(cleared, won),
       .draw = breakout_draw)
