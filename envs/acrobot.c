/* Acrobot: two links hang from a bar; swing the tip above a line (Sutton, 1996).
 *
 * The dynamics ("book"), spaces, reward and limits of Gymnasium's Acrobot-v1: one Runge-Kutta
 * step of fourth order a step, angles wrapped, angular velocities bounded.
 *
 * observation  cosine and sine of both joint angles, both angular velocities (rad/s)
 * action       torque at the joint between the links: 0 is -1, 1 is 0, 2 is +1 (N m)
 * reward       -1 for every step, 0 for the one that reaches the goal
 * start        angles and angular velocities uniform in [-0.1, 0.1)
 * end          terminated when the tip is more than link 1's length above the bar; truncated
 *              after 500 steps
 */
#include <headrace.h>

#define MAX_SPEED_1 (4.0f * HR_PI)
#define MAX_SPEED_2 (9.0f * HR_PI)
#define GRAVITY     9.8f

typedef struct {
    double link_length_1;  /* m; link 2's matters only to the eye */
    double link_mass_1;    /* kg */
    double link_mass_2;    /* kg */
    double link_com_pos_1; /* m, from the joint to the centre of mass */
    double link_com_pos_2; /* m */
    double link_moi;       /* moment of inertia of each link, kg m^2 */
    double dt;             /* seconds per step */
} Params;

typedef struct {
    float theta1;     /* rad, 0 hanging down */
    float theta2;     /* rad, of link 2 against link 1 */
    float theta1_dot; /* rad/s */
    float theta2_dot; /* rad/s */
} State;

typedef struct {
    int32_t torque;
} Action;

typedef struct {
    float cosine1, sine1, cosine2, sine2, theta1_dot, theta2_dot;
} Obs;

static inline void acrobot_reset(const Params *p, State *s, hr_rng *rng) {
    (void)p;
    s->theta1 = hr_uniform(rng, -0.1f, 0.1f);
    s->theta2 = hr_uniform(rng, -0.1f, 0.1f);
    s->theta1_dot = hr_uniform(rng, -0.1f, 0.1f);
    s->theta2_dot = hr_uniform(rng, -0.1f, 0.1f);
}

/* The integration runs in double precision: fast states amplify rounding a thousandfold within
 * one step. */
typedef struct {
    double theta1, theta2, theta1_dot, theta2_dot;
} Motion;

/* Sine of x + quarters * pi/2, to 1e-11 for |x| <= 1e6; vectorises. */
static inline double turned_sine(double x, uint64_t quarters) {
    double shifted = x * 0.63661977236758134308 + 6755399441055744.0; /* 1.5 * 2^52 */
    double turns = shifted - 6755399441055744.0;
    double rest = (x - turns * 1.57079632673412561417) - turns * 6.07710050650619224932e-11;
    uint64_t bits;
    __builtin_memcpy(&bits, &shifted, sizeof bits);
    quarters += bits; /* the two low bits count */

    double z = rest * rest; /* Taylor series: |rest| <= pi/4 */
    double sine = -1.0 / 39916800.0 * z + 1.0 / 362880.0;
    sine = ((sine * z - 1.0 / 5040.0) * z + 1.0 / 120.0) * z - 1.0 / 6.0;
    sine = sine * z * rest + rest;
    double cosine = 1.0 / 479001600.0 * z - 1.0 / 3628800.0;
    cosine = ((cosine * z + 1.0 / 40320.0) * z - 1.0 / 720.0) * z + 1.0 / 24.0;
    cosine = (cosine * z - 0.5) * z + 1.0;
    double value = (quarters & 1u) != 0u ? cosine : sine;
    return (quarters & 2u) != 0u ? -value : value;
}

/* Time derivative of the motion (Sutton and Barto, "Reinforcement Learning", 1998, example
 * 11.3; cos(x - pi/2) there is sin(x) here). */
static inline Motion derivative(const Params *p, Motion s, double torque) {
    double m1 = p->link_mass_1, m2 = p->link_mass_2, l1 = p->link_length_1;
    double lc1 = p->link_com_pos_1, lc2 = p->link_com_pos_2, moi = p->link_moi;
    double v1 = s.theta1_dot, v2 = s.theta2_dot;
    double sine2 = turned_sine(s.theta2, 0), cosine2 = turned_sine(s.theta2, 1);
    double coupling = m2 * l1 * lc2;

    double d1 = m1 * lc1 * lc1 + m2 * (l1 * l1 + lc2 * lc2) + 2.0 * coupling * cosine2 + 2.0 * moi;
    double d2 = m2 * lc2 * lc2 + coupling * cosine2 + moi;
    double phi2 = m2 * lc2 * GRAVITY * turned_sine(s.theta1 + s.theta2, 0);
    double phi1 = (m1 * lc1 + m2 * l1) * GRAVITY * turned_sine(s.theta1, 0) + phi2 -
                  coupling * sine2 * v2 * (v2 + 2.0 * v1);
    double ratio = d2 / d1;
    Motion change;
    change.theta1 = v1;
    change.theta2 = v2;
    change.theta2_dot = (torque + ratio * phi1 - coupling * v1 * v1 * sine2 - phi2) /
                        (m2 * lc2 * lc2 + moi - d2 * ratio);
    change.theta1_dot = -(d2 * change.theta2_dot + phi1) / d1;
    return change;
}

/* s + time * change */
static inline Motion advance(Motion s, double time, Motion change) {
    s.theta1 += time * change.theta1;
    s.theta2 += time * change.theta2;
    s.theta1_dot += time * change.theta1_dot;
    s.theta2_dot += time * change.theta2_dot;
    return s;
}

/* One step of the classical Runge-Kutta method. */
static inline Motion integrate(const Params *p, Motion s, double torque) {
    double dt = p->dt;
    Motion k1 = derivative(p, s, torque);
    Motion k2 = derivative(p, advance(s, 0.5 * dt, k1), torque);
    Motion k3 = derivative(p, advance(s, 0.5 * dt, k2), torque);
    Motion k4 = derivative(p, advance(s, dt, k3), torque);
    Motion sum = advance(advance(advance(k1, 2.0, k2), 2.0, k3), 1.0, k4);
    return advance(s, dt / 6.0, sum);
}

/* The angle in [-pi, pi] that differs from x by whole turns. */
static inline float wrap(double x) {
    double turns = (x * 0.15915494309189533577 + 6755399441055744.0) - 6755399441055744.0;
    return hr_clamp((float)(x - turns * 6.28318530717958647693), -HR_PI, HR_PI);
}

static inline void acrobot_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                                hr_rng *rng) {
    (void)rng;
    Motion motion;
    motion.theta1 = s->theta1;
    motion.theta2 = s->theta2;
    motion.theta1_dot = s->theta1_dot;
    motion.theta2_dot = s->theta2_dot;
    motion = integrate(p, motion, (double)(a->torque - 1));

    s->theta1 = wrap(motion.theta1);
    s->theta2 = wrap(motion.theta2);
    s->theta1_dot = hr_clamp((float)motion.theta1_dot, -MAX_SPEED_1, MAX_SPEED_1);
    s->theta2_dot = hr_clamp((float)motion.theta2_dot, -MAX_SPEED_2, MAX_SPEED_2);
    bool above = -hr_cos(s->theta1) - hr_cos(s->theta1 + s->theta2) > 1.0f;
    out->reward = above ? 0.0f : -1.0f;
    out->terminated = above;
}

static inline void acrobot_observe(const Params *p, const State *s, Obs o[]) {
    (void)p;
    o->cosine1 = hr_cos(s->theta1);
    o->sine1 = hr_sin(s->theta1);
    o->cosine2 = hr_cos(s->theta2);
    o->sine2 = hr_sin(s->theta2);
    o->theta1_dot = s->theta1_dot;
    o->theta2_dot = s->theta2_dot;
}

static inline void acrobot_draw(const Params *p, const State *s, hr_frame *frame) {
    (void)p;
    float x = 0.5f * (float)frame->width, y = 0.5f * (float)frame->height;
    float unit = hr_min(x, y) / 2.3f; /* pixels per link */
    float angle = s->theta1 + s->theta2;
    float knee_x = x + unit * hr_sin(s->theta1), knee_y = y + unit * hr_cos(s->theta1);
    float tip_x = knee_x + unit * hr_sin(angle), tip_y = knee_y + unit * hr_cos(angle);
    hr_fill(frame, hr_rgb(250, 250, 248));
    hr_rect(frame, 0.0f, y - unit, 2.0f * x, 0.03f * unit, hr_rgb(214, 69, 65));
    hr_rect(frame, x - 0.5f * unit, y - 0.03f * unit, unit, 0.06f * unit, hr_rgb(150, 150, 150));
    hr_line(frame, x, y, knee_x, knee_y, 0.2f * unit, hr_rgb(38, 132, 141));
    hr_line(frame, knee_x, knee_y, tip_x, tip_y, 0.2f * unit, hr_rgb(72, 178, 186));
    hr_disc(frame, x, y, 0.09f * unit, hr_rgb(232, 190, 67));
    hr_disc(frame, knee_x, knee_y, 0.09f * unit, hr_rgb(232, 190, 67));
    hr_disc(frame, tip_x, tip_y, 0.06f * unit, hr_rgb(40, 40, 40));
}

HR_ENV(acrobot,
       HR_OBS(HR_FIELD(Obs, cosine1, -1.0f, 1.0f), HR_FIELD(Obs, sine1, -1.0f, 1.0f),
              HR_FIELD(Obs, cosine2, -1.0f, 1.0f), HR_FIELD(Obs, sine2, -1.0f, 1.0f),
              HR_FIELD(Obs, theta1_dot, -MAX_SPEED_1, MAX_SPEED_1),
              HR_FIELD(Obs, theta2_dot, -MAX_SPEED_2, MAX_SPEED_2)),
       HR_ACTION(HR_DISCRETE(Action, torque, 3)),
       HR_PARAMS(HR_PARAM(link_length_1, 1.0), HR_PARAM(link_mass_1, 1.0),
                 HR_PARAM(link_mass_2, 1.0), HR_PARAM(link_com_pos_1, 0.5),
                 HR_PARAM(link_com_pos_2, 0.5), HR_PARAM(link_moi, 1.0), HR_PARAM(dt, 0.2)),
       .max_steps = 500, .draw = acrobot_draw)
