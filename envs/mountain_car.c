/* Mountain car: a car too weak for the slope swings up to the flag (Moore, 1990).
 *
 * The dynamics, spaces, reward and limits of Gymnasium's MountainCar-v0, in float32.
 *
 * observation  position, velocity (per step)
 * action       0 accelerates to the left, 1 not at all, 2 to the right
 * reward       -1 for every step, the last one included
 * start        position uniform in [-0.6, -0.4), at rest
 * end          terminated at position 0.5 or beyond, at goal_velocity or faster; truncated
 *              after 200 steps
 */
#include <headrace.h>

#define MIN_POSITION (-1.2f)
#define MAX_POSITION 0.6f
#define MAX_SPEED    0.07f

typedef struct {
    float force;         /* change of velocity by the motor, per step */
    float gravity;       /* change of velocity by a vertical slope, per step */
    float goal_position; /* where the flag stands */
    float goal_velocity; /* the least velocity that counts as an arrival */
} Params;

typedef struct {
    float position, velocity;
} State;

typedef struct {
    int32_t push;
} Action;

typedef struct {
    float position, velocity;
} Obs;

static inline void mountain_car_reset(const Params *p, State *s, hr_rng *rng) {
    (void)p;
    s->position = hr_uniform(rng, -0.6f, -0.4f);
    s->velocity = 0.0f;
}

static inline void mountain_car_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                                     hr_rng *rng) {
    (void)rng;
    float push = (float)(a->push - 1) * p->force;
    float velocity = s->velocity + (push - hr_cos(3.0f * s->position) * p->gravity);
    velocity = hr_clamp(velocity, -MAX_SPEED, MAX_SPEED);
    float position = hr_clamp(s->position + velocity, MIN_POSITION, MAX_POSITION);
    /* the wall on the left stops the car */
    velocity = hr_max(velocity, position > MIN_POSITION ? -MAX_SPEED : 0.0f);

    s->position = position;
    s->velocity = velocity;
    out->reward = -1.0f;
    out->terminated = (position >= p->goal_position) & (velocity >= p->goal_velocity);
}

static inline void mountain_car_observe(const Params *p, const State *s, Obs o[]) {
    (void)p;
    o->position = s->position;
    o->velocity = s->velocity;
}

/* Height of the ground at a position, both in the observation's units. */
static inline float ground(float position) { return 0.45f * hr_sin(3.0f * position) + 0.55f; }

static inline void mountain_car_draw(const Params *p, const State *s, hr_frame *frame) {
    float width = (float)frame->width, height = (float)frame->height;
    float scale =
        hr_min(width / (MAX_POSITION - MIN_POSITION), 0.7f * height); /* pixels per unit */
    float middle = 0.5f * width - 0.5f * (MIN_POSITION + MAX_POSITION) * scale;
    float bottom = 0.5f * height + 0.55f * scale, unit = 0.018f * scale;
    hr_fill(frame, hr_rgb(222, 238, 250));
    for (int32_t column = 0; column < frame->width; column++) {
        float top = bottom - scale * ground(((float)column + 0.5f - middle) / scale);
        hr_rect(frame, (float)column, top, 1.0f, height - top, hr_rgb(126, 153, 95));
        hr_rect(frame, (float)column, top, 1.0f, unit, hr_rgb(74, 104, 57));
    }
    float flag = middle + p->goal_position * scale;
    float foot = bottom - scale * ground(p->goal_position);
    hr_rect(frame, flag, foot - 12.0f * unit, 0.5f * unit, 12.0f * unit, hr_rgb(60, 60, 60));
    hr_rect(frame, flag, foot - 12.0f * unit, 6.0f * unit, 4.0f * unit, hr_rgb(214, 69, 65));

    /* the car stands along the slope: (along, up) are its axes in pixels */
    float slope = 1.35f * hr_cos(3.0f * s->position);
    float length = hr_sqrt(1.0f + slope * slope);
    float along_x = unit / length, along_y = -slope * unit / length;
    float up_x = along_y, up_y = -along_x;
    float x = middle + s->position * scale;
    float y = bottom - scale * ground(s->position);
    hr_line(frame, x - 2.6f * along_x + 2.8f * up_x, y - 2.6f * along_y + 2.8f * up_y,
            x + 2.6f * along_x + 2.8f * up_x, y + 2.6f * along_y + 2.8f * up_y, 2.4f * unit,
            hr_rgb(45, 84, 140));
    hr_line(frame, x - 1.2f * along_x + 4.4f * up_x, y - 1.2f * along_y + 4.4f * up_y,
            x + 1.2f * along_x + 4.4f * up_x, y + 1.2f * along_y + 4.4f * up_y, 2.0f * unit,
            hr_rgb(84, 132, 196));
    for (float side = -1.0f; side <= 1.0f; side += 2.0f)
        hr_disc(frame, x + side * 2.2f * along_x + 1.2f * up_x,
                y + side * 2.2f * along_y + 1.2f * up_y, 1.2f * unit, hr_rgb(30, 30, 30));
}

HR_ENV(mountain_car,
       HR_OBS(HR_FIELD(Obs, position, MIN_POSITION, MAX_POSITION),
              HR_FIELD(Obs, velocity, -MAX_SPEED, MAX_SPEED)),
       HR_ACTION(HR_DISCRETE(Action, push, 3)),
       HR_PARAMS(HR_PARAM(force, 0.001f), HR_PARAM(gravity, 0.0025f), HR_PARAM(goal_position, 0.5f),
                 HR_PARAM(goal_velocity, 0.0f)),
       .max_steps = 200, .draw = mountain_car_draw)
