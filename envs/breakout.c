/* Breakout: clear a wall of bricks with a ball and a paddle.
 *
 * The court is 1 wide and 1 high, y grows downwards. Where the ball meets the paddle decides
 * its direction, up to 60 degrees from straight up; it flies faster with each return. An
 * action lasts `frame_skip` steps of the physics.
 *
 * observation  paddle (x), ball (x, y, velocity x, y; 1: as fast as it gets), share of the
 *              balls left, then the bricks, row by row from the top: 1 where one stands
 * action       0 stays, 1 moves left, 2 moves right
 * reward       1 for each brick
 * start        all bricks, the ball just below them at a random x, flying down at a random
 *              angle; so does each further ball
 * end          terminated when no brick or no ball is left; truncated after 5,000 steps
 */
#include <headrace.h>

#define ROWS         6
#define COLUMNS      18   /* bricks are bits of one integer per row, so at most 31 */
#define WALL_TOP     0.1f /* y of the topmost bricks */
#define BRICK_HEIGHT 0.04f
#define PADDLE_Y     0.94f /* where the ball's centre is turned back */
#define PADDLE_HALF  0.07f /* a ball this far from the paddle's middle is still returned */
#define BALL_HALF    0.01f /* the ball's centre turns back this far from the walls */
#define MAX_BALLS    5.0f  /* so that their share can be observed whatever the parameters */

typedef struct {
    int32_t frame_skip; /* physics steps per action */
    int32_t balls;      /* at the start, 1 to 5 */
    float paddle_speed; /* per physics step */
    float ball_speed;   /* of a new ball, per physics step */
    float max_speed;    /* the fastest ball, at most BRICK_HEIGHT */
    float speedup;      /* factor on the speed at each return */
} Params;

typedef struct {
    uint32_t bricks[ROWS]; /* bit c of row r: brick c stands; row 0 is the topmost */
    float paddle;          /* x of its middle */
    float x, y, vx, vy;    /* the ball */
    float speed;           /* length of (vx, vy) */
    int32_t balls;         /* left, the one in play included */
    int32_t cleared;       /* bricks so far */
} State;

typedef struct {
    int32_t move;
} Action;

typedef struct {
    float paddle, x, y, vx, vy, balls;
    float bricks[ROWS][COLUMNS];
} Obs;

struct Metrics {
    float cleared; /* bricks */
    float won;     /* 1 when none was left */
};

static inline void serve(const Params *p, State *s, hr_rng *rng) {
    float angle = hr_uniform(rng, -0.8f, 0.8f);
    s->x = hr_uniform(rng, 0.1f, 0.9f);
    s->y = WALL_TOP + (float)(ROWS + 1) * BRICK_HEIGHT;
    s->speed = p->ball_speed;
    s->vx = s->speed * hr_sin(angle);
    s->vy = s->speed * hr_cos(angle);
}

static inline void breakout_reset(const Params *p, State *s, hr_rng *rng) {
    for (int32_t row = 0; row < ROWS; row++) s->bricks[row] = (1u << COLUMNS) - 1u;
    s->paddle = 0.5f;
    s->balls = p->balls;
    serve(p, s, rng);
}

/* Takes the brick at (x, y) away; false where there is none. */
static inline bool break_brick(State *s, float x, float y) {
    int32_t row = (int32_t)((y - WALL_TOP) * (1.0f / BRICK_HEIGHT) + 1.0f) - 1; /* rounds down */
    int32_t column = (int32_t)(x * (float)COLUMNS);
    if (row < 0 || row >= ROWS || column < 0 || column >= COLUMNS) return false;
    uint32_t bit = 1u << column;
    bool stood = (s->bricks[row] & bit) != 0u;
    s->bricks[row] &= ~bit;
    s->cleared += stood ? 1 : 0;
    return stood;
}

/* The paddle sends the ball up again, the more aslant the farther from its middle it is. */
static inline void return_ball(const Params *p, State *s, float offset) {
    float angle = offset * (1.0471976f / PADDLE_HALF); /* up to 60 degrees */
    s->speed = hr_min(s->speed * p->speedup, p->max_speed);
    s->vx = s->speed * hr_sin(angle);
    s->vy = -s->speed * hr_cos(angle);
    s->y = 2.0f * PADDLE_Y - s->y;
}

/* One step of the physics, first along x, then along y; a ball that is lost ends up below 1. */
static inline void fly(const Params *p, State *s, float push) {
    s->paddle = hr_clamp(s->paddle + push, PADDLE_HALF, 1.0f - PADDLE_HALF);
    float x = s->x + s->vx;
    if (x < BALL_HALF || x > 1.0f - BALL_HALF) {
        x = x < BALL_HALF ? 2.0f * BALL_HALF - x : 2.0f * (1.0f - BALL_HALF) - x;
        s->vx = -s->vx;
    }
    if (break_brick(s, x, s->y)) {
        x = s->x;
        s->vx = -s->vx;
    }
    s->x = x;

    float y = s->y + s->vy;
    if (y < BALL_HALF) {
        y = 2.0f * BALL_HALF - y;
        s->vy = -s->vy;
    }
    if (break_brick(s, x, y)) {
        y = s->y;
        s->vy = -s->vy;
    }
    bool crosses = s->y <= PADDLE_Y && y > PADDLE_Y;
    s->y = y;
    if (crosses && hr_fabs(x - s->paddle) <= PADDLE_HALF) return_ball(p, s, x - s->paddle);
}

static inline void breakout_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                                 hr_rng *rng) {
    float push = a->move == 1 ? -p->paddle_speed : a->move == 2 ? p->paddle_speed : 0.0f;
    int32_t before = s->cleared;
    bool lost = false;
    for (int32_t frame = 0; frame < p->frame_skip && !lost; frame++) {
        fly(p, s, push);
        lost = s->y > 1.0f;
    }
    if (lost) {
        s->balls -= 1;
        serve(p, s, rng);
    }
    out->reward = (float)(s->cleared - before);
    out->terminated = s->balls <= 0 || s->cleared == ROWS * COLUMNS;
}

static inline void breakout_observe(const Params *p, const State *s, Obs o[]) {
    o->paddle = s->paddle;
    o->x = s->x;
    o->y = hr_clamp(s->y, 0.0f, 1.0f);
    o->vx = hr_clamp(s->vx / p->max_speed, -1.0f, 1.0f);
    o->vy = hr_clamp(s->vy / p->max_speed, -1.0f, 1.0f);
    o->balls = hr_clamp((float)s->balls / MAX_BALLS, 0.0f, 1.0f);
    for (int32_t row = 0; row < ROWS; row++)
        for (int32_t column = 0; column < COLUMNS; column++)
            o->bricks[row][column] = (float)(int32_t)(s->bricks[row] >> column & 1u);
}

static inline void breakout_metrics(const Params *p, const State *s, struct Metrics *metrics) {
    (void)p;
    metrics->cleared = (float)s->cleared;
    metrics->won = s->cleared == ROWS * COLUMNS ? 1.0f : 0.0f;
}

static inline hr_color brick_color(int32_t row) {
    const uint8_t rgb[ROWS][3] = {{205, 76, 70},  {219, 126, 66}, {226, 178, 72},
                                  {104, 168, 92}, {70, 142, 176}, {104, 99, 182}};
    return hr_rgb(rgb[row][0], rgb[row][1], rgb[row][2]);
}

static inline void breakout_draw(const Params *p, const State *s, hr_frame *frame) {
    (void)p;
    float width = (float)frame->width, height = (float)frame->height;
    float size = hr_min(width, height); /* pixels per unit */
    float left = 0.5f * (width - size), top = 0.5f * (height - size);
    float brick = size / (float)COLUMNS;
    hr_fill(frame, hr_rgb(60, 64, 74));
    hr_rect(frame, left, top, size, size, hr_rgb(20, 22, 28));
    for (int32_t row = 0; row < ROWS; row++)
        for (int32_t column = 0; column < COLUMNS; column++)
            if (s->bricks[row] >> column & 1u)
                hr_rect(frame, left + ((float)column + 0.05f) * brick,
                        top + (WALL_TOP + ((float)row + 0.08f) * BRICK_HEIGHT) * size, 0.9f * brick,
                        0.84f * BRICK_HEIGHT * size, brick_color(row));
    hr_rect(frame, left + (s->paddle - PADDLE_HALF) * size, top + (PADDLE_Y + BALL_HALF) * size,
            2.0f * PADDLE_HALF * size, 0.022f * size, hr_rgb(226, 226, 230));
    hr_disc(frame, left + s->x * size, top + s->y * size, 0.013f * size, hr_rgb(255, 255, 255));
    for (int32_t ball = 0; ball < s->balls - 1; ball++)
        hr_disc(frame, left + (0.03f + 0.035f * (float)ball) * size, top + 0.05f * size,
                0.01f * size, hr_rgb(150, 154, 164));
}

HR_ENV(breakout,
       HR_OBS(HR_FIELD(Obs, paddle, 0.0f, 1.0f), HR_FIELD(Obs, x, 0.0f, 1.0f),
              HR_FIELD(Obs, y, 0.0f, 1.0f), HR_FIELD(Obs, vx, -1.0f, 1.0f),
              HR_FIELD(Obs, vy, -1.0f, 1.0f), HR_FIELD(Obs, balls, 0.0f, 1.0f),
              HR_FIELD(Obs, bricks, 0.0f, 1.0f)),
       HR_ACTION(HR_DISCRETE(Action, move, 3)),
       HR_PARAMS(HR_PARAM(frame_skip, 4), HR_PARAM(balls, 5), HR_PARAM(paddle_speed, 0.02f),
                 HR_PARAM(ball_speed, 0.014f), HR_PARAM(max_speed, 0.022f),
                 HR_PARAM(speedup, 1.02f)),
       .max_steps = 5000, .metrics = breakout_metrics, HR_METRICS(cleared, won),
       .draw = breakout_draw)
