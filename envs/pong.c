/* Pong: against a built-in opponent, first to 21.
 *
 * The court is the square [-1, 1] x [-1, 1]; the agent's paddle is on the right. The further
 * from its middle a paddle hits the ball, the steeper the ball flies back; each hit makes it a
 * little faster. The opponent follows an approaching ball, but slower than the agent can, and
 * goes back to the middle while the ball flies away.
 *
 * observation  agent's and opponent's paddle, ball's place (x, y) and velocity (x, y; 1: as
 *              fast as it gets), agent's and opponent's points (1: the last one)
 * action       0 stays, 1 moves up (y falls), 2 moves down
 * reward       1 for each point won, -1 for each point lost
 * start        0 : 0; each ball is served from the centre to either side, at a random angle
 * end          terminated when one side has 21 points; truncated after 5,000 steps
 */
#include <headrace.h>

#define WIN          21.0f
#define GOAL         0.95f /* distance of the paddles' faces from the centre */
#define REACH        0.2f  /* a ball this far from a paddle's middle is still hit */
#define WALL         0.97f /* the ball's centre turns back here */
#define PADDLE_LIMIT 0.83f /* the farthest that a paddle's middle goes */

typedef struct {
    float paddle_speed;   /* of the agent, per step */
    float opponent_speed; /* per step */
    float serve_speed;    /* horizontal speed of a served ball, per step */
    float max_speed;      /* the fastest horizontal speed */
    float max_rise;       /* the fastest vertical speed, off a paddle's end */
    float speedup;        /* factor on the horizontal speed at each hit */
} Params;

/* Eight floats, so that worlds are stepped side by side in vector registers. */
typedef struct {
    float paddle, opponent; /* y of their middles */
    float x, y, vx, vy;     /* the ball */
    float points, lost;     /* of the agent, of the opponent */
} State;

typedef struct {
    int32_t move;
} Action;

typedef struct {
    float paddle, opponent, x, y, vx, vy, points, lost;
} Obs;

/* A ball in the centre, flying to either side. */
static inline void serve(const Params *p, State *s, hr_rng *rng, bool now) {
    float chance = hr_uniform(rng, -1.0f, 1.0f);
    float rise = (2.0f * hr_fabs(chance) - 1.0f) * 0.5f * p->max_rise;
    s->x = now ? 0.0f : s->x;
    s->y = now ? 0.0f : s->y;
    s->vx = now ? (chance < 0.0f ? -p->serve_speed : p->serve_speed) : s->vx;
    s->vy = now ? rise : s->vy;
}

static inline void pong_reset(const Params *p, State *s, hr_rng *rng) { serve(p, s, rng, true); }

static inline void pong_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                             hr_rng *rng) {
    float move = (a->move == 2 ? p->paddle_speed : 0.0f) - (a->move == 1 ? p->paddle_speed : 0.0f);
    s->paddle = hr_clamp(s->paddle + move, -PADDLE_LIMIT, PADDLE_LIMIT);
    float chase = (s->vx < 0.0f ? s->y : 0.0f) - s->opponent;
    s->opponent += hr_clamp(chase, -p->opponent_speed, p->opponent_speed);
    s->opponent = hr_clamp(s->opponent, -PADDLE_LIMIT, PADDLE_LIMIT);

    /* fly, and turn back at the walls */
    float x = s->x + s->vx, y = s->y + s->vy;
    float beyond = hr_fabs(y) - WALL;
    s->vy = beyond > 0.0f ? -s->vy : s->vy;
    y = beyond > 0.0f ? (y > 0.0f ? WALL - beyond : beyond - WALL) : y;

    /* a paddle turns the ball back, or misses it */
    float offset = y - (x > 0.0f ? s->paddle : s->opponent);
    float past = hr_fabs(x) - GOAL;
    bool hit = (past > 0.0f) & (hr_fabs(offset) <= REACH);
    bool missed = (past > 0.0f) & (hr_fabs(offset) > REACH);
    float faster = hr_min(hr_fabs(s->vx) * p->speedup, p->max_speed);
    s->vx = hit ? (x > 0.0f ? -faster : faster) : s->vx;
    s->vy = hit ? offset * (p->max_rise / REACH) : s->vy;
    s->x = hit ? (x > 0.0f ? GOAL - past : past - GOAL) : x;
    s->y = y;

    float point = missed ? (x > 0.0f ? -1.0f : 1.0f) : 0.0f;
    s->points += hr_max(point, 0.0f);
    s->lost += hr_max(-point, 0.0f);
    serve(p, s, rng, missed);
    out->reward = point;
    out->terminated = hr_max(s->points, s->lost) >= WIN;
}

static inline void pong_observe(const Params *p, const State *s, Obs o[]) {
    o->paddle = s->paddle;
    o->opponent = s->opponent;
    o->x = s->x;
    o->y = s->y;
    o->vx = hr_clamp(s->vx / p->max_speed, -1.0f, 1.0f);
    o->vy = hr_clamp(s->vy / p->max_rise, -1.0f, 1.0f);
    o->points = s->points * (1.0f / WIN);
    o->lost = s->lost * (1.0f / WIN);
}

/* Two digits, centred at x. */
static inline void number(hr_frame *frame, float x, float y, float scale, float value) {
    char text[3] = {(char)('0' + (int32_t)value / 10), (char)('0' + (int32_t)value % 10), '\0'};
    hr_text(frame, x - 5.5f * scale, y, scale, hr_rgb(210, 210, 210), text);
}

static inline void pong_draw(const Params *p, const State *s, hr_frame *frame) {
    (void)p;
    float width = (float)frame->width, height = (float)frame->height;
    float half = 0.5f * hr_min(width, height / 1.12f); /* pixels per unit; a strip for the score */
    float x = 0.5f * width, y = 0.5f * (height - 2.24f * half) + 1.24f * half;
    hr_color ink = hr_rgb(236, 236, 236), faint = hr_rgb(110, 113, 120);
    hr_fill(frame, hr_rgb(24, 26, 32));
    hr_rect(frame, x - half, y - half - 0.02f * half, 2.0f * half, 0.02f * half, ink);
    hr_rect(frame, x - half, y + half - 0.02f * half, 2.0f * half, 0.02f * half, ink);
    for (int32_t dash = 0; dash < 16; dash++)
        hr_rect(frame, x - 0.01f * half, y + (0.125f * (float)dash - 0.97f) * half, 0.02f * half,
                0.06f * half, faint);
    hr_rect(frame, x - (GOAL + 0.04f) * half, y + (s->opponent - 0.17f) * half, 0.04f * half,
            0.34f * half, hr_rgb(224, 137, 86));
    hr_rect(frame, x + GOAL * half, y + (s->paddle - 0.17f) * half, 0.04f * half, 0.34f * half,
            hr_rgb(103, 190, 120));
    hr_disc(frame, x + s->x * half, y + s->y * half, 0.03f * half, ink);
    number(frame, x - 0.3f * half, y - 1.2f * half, 0.02f * half, s->lost);
    number(frame, x + 0.3f * half, y - 1.2f * half, 0.02f * half, s->points);
}

HR_ENV(pong,
       HR_OBS(HR_FIELD(Obs, paddle, -1.0f, 1.0f), HR_FIELD(Obs, opponent, -1.0f, 1.0f),
              HR_FIELD(Obs, x, -1.0f, 1.0f), HR_FIELD(Obs, y, -1.0f, 1.0f),
              HR_FIELD(Obs, vx, -1.0f, 1.0f), HR_FIELD(Obs, vy, -1.0f, 1.0f),
              HR_FIELD(Obs, points, 0.0f, 1.0f), HR_FIELD(Obs, lost, 0.0f, 1.0f)),
       HR_ACTION(HR_DISCRETE(Action, move, 3)),
       HR_PARAMS(HR_PARAM(paddle_speed, 0.09f), HR_PARAM(opponent_speed, 0.045f),
                 HR_PARAM(serve_speed, 0.075f), HR_PARAM(max_speed, 0.12f),
                 HR_PARAM(max_rise, 0.09f), HR_PARAM(speedup, 1.05f)),
       .max_steps = 5000, .draw = pong_draw)
