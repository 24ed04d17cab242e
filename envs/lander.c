/* Lander: bring a rocket down onto its legs, on the pad, with a main and two side engines.
 *
 * A rigid body in the plane. Its legs are damped springs with friction, so it bounces, slides
 * and tips over; it crashes when the hull touches the ground, as when the legs give in.
 * The origin is the middle of the pad; y grows upwards, angles grow to the left.
 *
 * observation  place (x, y of the feet; 1: 10 m), velocity (x, y; 1: 5 m/s), angle (rad),
 *              angular velocity (1: 2 rad/s), whether the left and the right leg touch down
 * action       throttle of the main engine (off below 0), and of the side engines at the top:
 *              positive pushes and tilts to the right; both clipped to [-1, 1]
 * reward       the change of the potential -100 distance - 100 speed - 100 |angle| + 10 for
 *              each leg that touches (distance, speed as observed), minus fuel (0.3 and 0.03
 *              per step at full throttle); 100 for landing, -100 for crashing
 * start        10 m up, at random within 3 m to the side, velocity, angle and spin random
 * end          terminated after standing still for 10 steps (landed), when the hull touches
 *              the ground, 10 m to the side or 20 m up (crashed); truncated after 500 steps
 */
#include <headrace.h>

#define DT          0.01f /* seconds per substep of the physics */
#define SUBSTEPS    4     /* per action */
#define FOOT_X      0.8f  /* the feet, from the centre of mass: to either side and down, m */
#define FOOT_Y      0.9f
#define HULL_X      0.45f /* the hull's corners: a box around the centre of mass, m */
#define HULL_Y      0.55f
#define ENGINE_Y    0.5f  /* the side engines sit so far above the centre of mass, m */
#define GYRATION    0.4f  /* moment of inertia by mass, m^2 */
#define SPRING      20.0f /* of a leg: acceleration per metre of compression, 1/s^2 */
#define DAMPING     4.0f  /* of a leg: acceleration per speed of compression, 1/s */
#define GRIP        10.0f /* acceleration per speed of sliding, 1/s, up to ... */
#define FRICTION    0.6f  /* ... this share of the leg's load */
#define SIDE        10.0f /* m; and twice as high */
#define REST_STEPS  10.0f
#define LENGTH_UNIT 10.0f /* m */
#define SPEED_UNIT  5.0f  /* m/s */
#define SPIN_UNIT   2.0f  /* rad/s */

typedef struct {
    float gravity;    /* m/s^2 */
    float main_power; /* acceleration by the main engine, m/s^2 */
    float side_power; /* acceleration by a side engine, m/s^2 */
    float wind;       /* acceleration to the right, m/s^2 */
} Params;

typedef struct {
    float x, y, vx, vy; /* of the centre of mass, m and m/s */
    float angle, spin;  /* rad and rad/s */
    float throttle;     /* of the main engine in the last step, for the eye */
    float rest;         /* steps for which it has stood still */
} State;

typedef struct {
    float main, side;
} Action;

typedef struct {
    float x, y, vx, vy, angle, spin, left, right;
} Obs;

struct Metrics {
    float landed; /* 1 or 0 */
};

static inline void lander_reset(const Params *p, State *s, hr_rng *rng) {
    (void)p;
    s->x = hr_uniform(rng, -3.0f, 3.0f);
    s->y = 10.0f + FOOT_Y;
    s->vx = hr_uniform(rng, -2.0f, 2.0f);
    s->vy = hr_uniform(rng, -2.0f, 0.0f);
    s->angle = hr_uniform(rng, -0.3f, 0.3f);
    s->spin = hr_uniform(rng, -0.4f, 0.4f);
}

/* Height above the ground of the point (x, y) of the body. */
static inline float height_of(const State *s, float x, float y) {
    return s->y + x * hr_sin(s->angle) + y * hr_cos(s->angle);
}

static inline float left_foot(const State *s) { return height_of(s, -FOOT_X, -FOOT_Y); }
static inline float right_foot(const State *s) { return height_of(s, FOOT_X, -FOOT_Y); }

/* Adds what the ground does to one foot: the force by mass to (ax, ay), its torque to turn. */
static inline void push_foot(const State *s, float foot_x, float sine, float cosine, float *ax,
                             float *ay, float *turn) {
    float rx = foot_x * cosine + FOOT_Y * sine, ry = foot_x * sine - FOOT_Y * cosine;
    float vx = s->vx - s->spin * ry, vy = s->vy + s->spin * rx;
    float depth = -(s->y + ry);
    float pressed = depth > 0.0f ? 1.0f : 0.0f;
    float load = pressed * hr_max(SPRING * depth - DAMPING * vy, 0.0f);
    float drag = hr_clamp(-GRIP * vx, -FRICTION * load, FRICTION * load);
    *ax += drag;
    *ay += load;
    *turn += rx * load - ry * drag;
}

/* One substep (semi-implicit Euler). */
static inline void fly(const Params *p, State *s, float throttle, float side) {
    float sine = hr_sin(s->angle), cosine = hr_cos(s->angle);
    float along = throttle * p->main_power, across = side * p->side_power;
    float ax = across * cosine - along * sine + p->wind;
    float ay = across * sine + along * cosine - p->gravity;
    float turn = -across * ENGINE_Y;
    push_foot(s, -FOOT_X, sine, cosine, &ax, &ay, &turn);
    push_foot(s, FOOT_X, sine, cosine, &ax, &ay, &turn);
    s->vx += DT * ax;
    s->vy += DT * ay;
    s->spin += DT * turn * (1.0f / GYRATION);
    s->x += DT * s->vx;
    s->y += DT * s->vy;
    s->angle += DT * s->spin;
}

static inline float potential(const State *s) {
    float x = s->x / LENGTH_UNIT, y = (s->y - FOOT_Y) / LENGTH_UNIT;
    float vx = s->vx / SPEED_UNIT, vy = s->vy / SPEED_UNIT;
    float legs = (left_foot(s) <= 0.0f ? 10.0f : 0.0f) + (right_foot(s) <= 0.0f ? 10.0f : 0.0f);
    float lacks = hr_sqrt(x * x + y * y) + hr_sqrt(vx * vx + vy * vy) + hr_fabs(s->angle);
    return legs - 100.0f * lacks;
}

/* The lowest of the hull's four corners. */
static inline float hull_bottom(const State *s) {
    return s->y - HULL_X * hr_fabs(hr_sin(s->angle)) - HULL_Y * hr_fabs(hr_cos(s->angle));
}

static inline void lander_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                               hr_rng *rng) {
    (void)rng;
    float throttle = hr_clamp(a->main, 0.0f, 1.0f), side = hr_clamp(a->side, -1.0f, 1.0f);
    float before = potential(s);
    HR_UNROLL
    for (int32_t k = 0; k < SUBSTEPS; k++) fly(p, s, throttle, side);
    s->throttle = throttle;

    bool touches = hr_max(left_foot(s), right_foot(s)) <= 0.0f;
    float motion = hr_fabs(s->vx) + hr_fabs(s->vy) + hr_fabs(s->spin);
    s->rest = touches & (motion < 0.1f) ? s->rest + 1.0f : 0.0f;
    bool crashed = (hull_bottom(s) < 0.0f) | (hr_fabs(s->x) > SIDE) | (s->y > 2.0f * SIDE);
    float ending = crashed ? -100.0f : s->rest >= REST_STEPS ? 100.0f : 0.0f;
    float fuel = 0.3f * throttle + 0.03f * hr_fabs(side);
    out->reward = potential(s) - before - fuel + ending;
    out->terminated = ending != 0.0f;
}

static inline void lander_observe(const Params *p, const State *s, Obs o[]) {
    (void)p;
    o->x = hr_clamp(s->x / LENGTH_UNIT, -1.5f, 1.5f);
    o->y = hr_clamp((s->y - FOOT_Y) / LENGTH_UNIT, -0.5f, 2.5f);
    o->vx = hr_clamp(s->vx / SPEED_UNIT, -5.0f, 5.0f);
    o->vy = hr_clamp(s->vy / SPEED_UNIT, -5.0f, 5.0f);
    o->angle = hr_clamp(s->angle, -2.0f * HR_PI, 2.0f * HR_PI);
    o->spin = hr_clamp(s->spin / SPIN_UNIT, -5.0f, 5.0f);
    o->left = left_foot(s) <= 0.0f ? 1.0f : 0.0f;
    o->right = right_foot(s) <= 0.0f ? 1.0f : 0.0f;
}

static inline void lander_metrics(const Params *p, const State *s, struct Metrics *metrics) {
    (void)p;
    metrics->landed = s->rest >= REST_STEPS ? 1.0f : 0.0f;
}

/* The frame shows all of the width, and 15 m of the height. */
static inline float pixels_per_metre(const hr_frame *frame) {
    return hr_min((float)frame->width / (2.0f * SIDE), 0.88f * (float)frame->height / 15.0f);
}

/* A line between two points of the body, in a frame whose origin on the ground is given. */
static inline void body_line(hr_frame *frame, const State *s, float x0, float y0, float x1,
                             float y1, float thickness, hr_color color) {
    float unit = pixels_per_metre(frame);
    float middle = 0.5f * (float)frame->width, ground = 0.88f * (float)frame->height;
    float sine = hr_sin(s->angle), cosine = hr_cos(s->angle);
    hr_line(frame, middle + unit * (s->x + x0 * cosine - y0 * sine),
            ground - unit * (s->y + x0 * sine + y0 * cosine),
            middle + unit * (s->x + x1 * cosine - y1 * sine),
            ground - unit * (s->y + x1 * sine + y1 * cosine), unit * thickness, color);
}

static inline void draw_ground(hr_frame *frame) {
    float width = (float)frame->width, height = (float)frame->height;
    float unit = pixels_per_metre(frame), ground = 0.88f * height, middle = 0.5f * width;
    hr_fill(frame, hr_rgb(16, 18, 30));
    for (int32_t star = 0; star < 40; star++) { /* two low-discrepancy sequences */
        float across = 0.7548777f * (float)star, down = 0.5698403f * (float)star;
        hr_disc(frame, width * (across - hr_floor(across)), ground * (down - hr_floor(down)),
                0.05f * unit, hr_rgb(150, 152, 170));
    }
    for (int32_t column = 0; column < frame->width; column++) {
        float x = (float)column / width;
        float hill = 1.2f + 0.7f * hr_sin(9.0f * x + 1.0f) + 0.4f * hr_sin(23.0f * x);
        hr_rect(frame, (float)column, ground - unit * hill, 1.0f, unit * hill, hr_rgb(40, 42, 58));
    }
    hr_rect(frame, 0.0f, ground, width, height - ground, hr_rgb(112, 112, 120));
    hr_rect(frame, middle - 2.0f * unit, ground, 4.0f * unit, 0.2f * unit, hr_rgb(222, 196, 88));
    for (float x = -2.0f; x <= 2.0f; x += 4.0f) { /* a flag at either end of the pad */
        hr_rect(frame, middle + x * unit, ground - 1.2f * unit, 0.08f * unit, 1.2f * unit,
                hr_rgb(220, 220, 224));
        hr_rect(frame, middle + x * unit, ground - 1.2f * unit, 0.6f * unit, 0.4f * unit,
                hr_rgb(214, 82, 70));
    }
}

static inline void lander_draw(const Params *p, const State *s, hr_frame *frame) {
    (void)p;
    draw_ground(frame);
    float flame = 0.3f + 1.1f * s->throttle;
    if (s->throttle > 0.05f) {
        body_line(frame, s, 0.0f, -0.5f, 0.0f, -0.5f - flame, 0.34f, hr_rgb(236, 128, 52));
        body_line(frame, s, 0.0f, -0.5f, 0.0f, -0.5f - 0.6f * flame, 0.2f, hr_rgb(250, 226, 120));
    }
    for (float side = -1.0f; side <= 1.0f; side += 2.0f) {
        body_line(frame, s, side * 0.35f, -0.2f, side * FOOT_X, -FOOT_Y, 0.12f,
                  hr_rgb(170, 174, 186));
        body_line(frame, s, side * (FOOT_X - 0.15f), -FOOT_Y, side * (FOOT_X + 0.15f), -FOOT_Y,
                  0.12f, hr_rgb(170, 174, 186));
    }
    body_line(frame, s, -0.2f, -0.3f, 0.2f, -0.3f, 0.5f, hr_rgb(122, 128, 186));
    body_line(frame, s, 0.0f, -0.2f, 0.0f, 0.2f, 0.8f, hr_rgb(144, 150, 208));
    body_line(frame, s, 0.0f, 0.2f, 0.0f, 0.35f, 0.4f, hr_rgb(206, 226, 240));
}

HR_ENV(lander,
       HR_OBS(HR_FIELD(Obs, x, -1.5f, 1.5f), HR_FIELD(Obs, y, -0.5f, 2.5f),
              HR_FIELD(Obs, vx, -5.0f, 5.0f), HR_FIELD(Obs, vy, -5.0f, 5.0f),
              HR_FIELD(Obs, angle, -2.0f * HR_PI, 2.0f * HR_PI), HR_FIELD(Obs, spin, -5.0f, 5.0f),
              HR_FIELD(Obs, left, 0.0f, 1.0f), HR_FIELD(Obs, right, 0.0f, 1.0f)),
       HR_ACTION(HR_FIELD(Action, main, -1.0f, 1.0f), HR_FIELD(Action, side, -1.0f, 1.0f)),
       HR_PARAMS(HR_PARAM(gravity, 3.0f), HR_PARAM(main_power, 7.0f), HR_PARAM(side_power, 1.0f),
                 HR_PARAM(wind, 0.0f)),
       .max_steps = 500, .metrics = lander_metrics, HR_METRICS(landed), .draw = lander_draw)
