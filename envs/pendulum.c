/* Pendulum: swing a rod up and hold it there, with a motor too weak to lift it at once.
 *
 * The dynamics, spaces, reward and limits of Gymnasium's Pendulum-v1, in float32. The angle is
 * kept in [-pi, pi], which changes neither observations nor rewards.
 *
 * observation  cosine and sine of the angle (0: upright), angular velocity (rad/s)
 * action       torque of the motor in [-2, 2] (N m), clipped
 * reward       -(angle^2 + 0.1 velocity^2 + 0.001 torque^2), of the state before the step
 * start        angle uniform in [-pi, pi), angular velocity in [-1, 1)
 * end          never terminated; truncated after 200 steps
 */
#include <headrace.h>

#define MAX_SPEED  8.0f
#define MAX_TORQUE 2.0f

typedef struct {
    float g;  /* m/s^2 */
    float m;  /* kg */
    float l;  /* m */
    float dt; /* seconds per step */
} Params;

typedef struct {
    float theta;     /* rad, 0 upright, grows clockwise on the screen */
    float theta_dot; /* rad/s */
} State;

typedef struct {
    float torque;
} Action;

typedef struct {
    float cosine, sine, theta_dot;
} Obs;

static inline void pendulum_reset(const Params *p, State *s, hr_rng *rng) {
    (void)p;
    s->theta = hr_uniform(rng, -HR_PI, HR_PI);
    s->theta_dot = hr_uniform(rng, -1.0f, 1.0f);
}

static inline void pendulum_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                                 hr_rng *rng) {
    (void)rng;
    float torque = hr_clamp(a->torque, -MAX_TORQUE, MAX_TORQUE);
    float theta = hr_wrap_angle(s->theta), speed = s->theta_dot;
    out->reward = -(theta * theta + 0.1f * (speed * speed) + 0.001f * (torque * torque));

    float turn = 1.5f * p->g / p->l * hr_sin(theta) + 3.0f / (p->m * p->l * p->l) * torque;
    speed = hr_clamp(speed + turn * p->dt, -MAX_SPEED, MAX_SPEED);
    s->theta = hr_wrap_angle(theta + speed * p->dt);
    s->theta_dot = speed;
}

static inline void pendulum_observe(const Params *p, const State *s, Obs o[]) {
    (void)p;
    o->cosine = hr_cos(s->theta);
    o->sine = hr_sin(s->theta);
    o->theta_dot = s->theta_dot;
}

static inline void pendulum_draw(const Params *p, const State *s, hr_frame *frame) {
    (void)p;
    float x = 0.5f * (float)frame->width, y = 0.5f * (float)frame->height;
    float unit = 0.05f * hr_min(x, y); /* a twentieth of the largest circle */
    float tip_x = x + 14.0f * unit * hr_sin(s->theta), tip_y = y - 14.0f * unit * hr_cos(s->theta);
    float share = s->theta_dot / MAX_SPEED;
    hr_fill(frame, hr_rgb(250, 250, 248));
    hr_disc(frame, x, y, 17.5f * unit, hr_rgb(232, 234, 237));
    hr_disc(frame, x, y, 17.0f * unit, hr_rgb(250, 250, 248));
    hr_line(frame, x, y, tip_x, tip_y, 3.4f * unit, hr_rgb(176, 62, 57));
    hr_line(frame, x, y, tip_x, tip_y, 2.6f * unit, hr_rgb(214, 90, 82));
    hr_disc(frame, x, y, 0.9f * unit, hr_rgb(40, 40, 40));
    /* below: how fast, and which way */
    hr_rect(frame, x - 8.0f * unit, y + 18.4f * unit, 16.0f * unit, 0.3f * unit,
            hr_rgb(200, 200, 200));
    hr_rect(frame, x + hr_min(8.0f * share, 0.0f) * unit, y + 18.2f * unit,
            8.0f * hr_fabs(share) * unit, 0.7f * unit, hr_rgb(66, 103, 178));
}

HR_ENV(pendulum,
       HR_OBS(HR_FIELD(Obs, cosine, -1.0f, 1.0f), HR_FIELD(Obs, sine, -1.0f, 1.0f),
              HR_FIELD(Obs, theta_dot, -MAX_SPEED, MAX_SPEED)),
       HR_ACTION(HR_FIELD(Action, torque, -MAX_TORQUE, MAX_TORQUE)),
       HR_PARAMS(HR_PARAM(g, 10.0f), HR_PARAM(m, 1.0f), HR_PARAM(l, 1.0f), HR_PARAM(dt, 0.05f)),
       .max_steps = 200, .draw = pendulum_draw)
