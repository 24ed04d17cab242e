/* CartPole: a cart on a track balances a pole (Barto, Sutton and Anderson, 1983).
 *
 * The dynamics, spaces, reward and limits of Gymnasium's CartPole-v1, in float32.
 *
 * observation  cart position (m), cart velocity, pole angle (rad), angular velocity
 * action       0 pushes the cart to the left, 1 to the right
 * reward       1 for every step, the last one included
 * start        each of the four uniform in [-0.05, 0.05)
 * end          terminated beyond 2.4 m or 12 degrees; truncated after 500 steps
 */
#include <headrace.h>

typedef struct {
    float gravity;                 /* m/s^2 */
    float masscart;                /* kg */
    float masspole;                /* kg */
    float length;                  /* half the pole's length, m */
    float force_mag;               /* N */
    float tau;                     /* seconds per step */
    float theta_threshold_radians; /* the episode ends beyond this angle */
    float x_threshold;             /* ... and beyond this position, m */
} Params;

typedef struct {
    float x, x_dot, theta, theta_dot;
} State;

typedef struct {
    int32_t push;
} Action;

typedef struct {
    float x, x_dot, theta, theta_dot;
} Obs;

static inline void cartpole_reset(const Params *p, State *s, hr_rng *rng) {
    (void)p;
    float start[4];
    hr_uniforms(rng, start, 4, -0.05f, 0.05f);
    s->x = start[0];
    s->x_dot = start[1];
    s->theta = start[2];
    s->theta_dot = start[3];
}

static inline void cartpole_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                                 hr_rng *rng) {
    (void)rng;
    float inverse_mass = 1.0f / (p->masscart + p->masspole);
    float pole_moment = p->masspole * p->length;
    float force = a->push == 1 ? p->force_mag : -p->force_mag;
    float sine = hr_sin(s->theta), cosine = hr_cos(s->theta);

    float push = (force + pole_moment * s->theta_dot * s->theta_dot * sine) * inverse_mass;
    float theta_acc = (p->gravity * sine - cosine * push) /
                      (p->length * (4.0f / 3.0f - p->masspole * cosine * cosine * inverse_mass));
    float x_acc = push - pole_moment * theta_acc * cosine * inverse_mass;

    s->x += p->tau * s->x_dot;
    s->x_dot += p->tau * x_acc;
    s->theta += p->tau * s->theta_dot;
    s->theta_dot += p->tau * theta_acc;
    out->reward = 1.0f;
    out->terminated =
        (hr_fabs(s->x) > p->x_threshold) | (hr_fabs(s->theta) > p->theta_threshold_radians);
}

static inline void cartpole_observe(const Params *p, const State *s, Obs o[]) {
    (void)p;
    o->x = s->x;
    o->x_dot = s->x_dot;
    o->theta = s->theta;
    o->theta_dot = s->theta_dot;
}

/* The track is as wide as the frame, twice the distance at which the episode ends. */
static inline void cartpole_draw(const Params *p, const State *s, hr_frame *frame) {
    float width = (float)frame->width, height = (float)frame->height;
    float scale = width / (4.0f * p->x_threshold); /* pixels per metre */
    float ground = 0.75f * height, pivot = ground - 0.04f * width;
    float x = 0.5f * width + s->x * scale, reach = 2.0f * p->length * scale * 2.0f;
    hr_fill(frame, hr_rgb(255, 255, 255));
    hr_line(frame, 0.0f, ground, width, ground, 2.0f, hr_rgb(0, 0, 0));
    hr_rect(frame, x - 0.05f * width, pivot, 0.1f * width, 0.06f * width, hr_rgb(40, 40, 40));
    hr_line(frame, x, pivot, x + reach * hr_sin(s->theta), pivot - reach * hr_cos(s->theta),
            0.016f * width, hr_rgb(202, 152, 101));
    hr_disc(frame, x, pivot, 0.01f * width, hr_rgb(129, 132, 203));
}

HR_ENV(cartpole,
       HR_OBS(HR_FIELD(Obs, x, -4.8f, 4.8f), HR_FIELD(Obs, x_dot, -HR_INFINITY, HR_INFINITY),
              HR_FIELD(Obs, theta, -0.41887903f, 0.41887903f),
              HR_FIELD(Obs, theta_dot, -HR_INFINITY, HR_INFINITY)),
       HR_ACTION(HR_DISCRETE(Action, push, 2)),
       HR_PARAMS(HR_PARAM(gravity, 9.8f), HR_PARAM(masscart, 1.0f), HR_PARAM(masspole, 0.1f),
                 HR_PARAM(length, 0.5f), HR_PARAM(force_mag, 10.0f), HR_PARAM(tau, 0.02f),
                 HR_PARAM(theta_threshold_radians, 0.20943951f), HR_PARAM(x_threshold, 2.4f)),
       .max_steps = 500, .draw = cartpole_draw)
