/* demo: walk along a line to a target.
 *
 * observation  where the walker and the target are, -1 to 1
 * action       0 goes to the left, 1 stays, 2 goes to the right
 * reward       1 at the target, -0.02 for every other step
 * start        walker and target at random
 * end          terminated at the target; truncated after 100 steps
 */
#include <headrace.h>

typedef struct {
    float pace; /* length of a step */
} Params;

typedef struct {
    float place, target;
} State;

typedef struct {
    int32_t move;
} Action;

typedef struct {
    float place, target;
} Obs;

static inline void demo_reset(const Params *p, State *s, hr_rng *rng) {
    (void)p;
    s->place = hr_uniform(rng, -1.0f, 1.0f);
    s->target = hr_uniform(rng, -1.0f, 1.0f);
}

static inline void demo_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                             hr_rng *rng) {
    (void)rng;
    s->place = hr_clamp(s->place + p->pace * (float)(a->move - 1), -1.0f, 1.0f);
    out->terminated = hr_fabs(s->place - s->target) < p->pace;
    out->reward = out->terminated ? 1.0f : -0.02f;
}

static inline void demo_observe(const Params *p, const State *s, Obs o[]) {
    (void)p;
    o->place = s->place;
    o->target = s->target;
}

static inline void demo_draw(const Params *p, const State *s, hr_frame *frame) {
    (void)p;
    float middle = 0.5f * (float)frame->height, half = 0.5f * (float)frame->width;
    hr_fill(frame, hr_rgb(28, 31, 38));
    hr_line(frame, 0.0f, middle, 2.0f * half, middle, 2.0f, hr_rgb(120, 126, 140));
    hr_disc(frame, half + 0.9f * half * s->target, middle, 16.0f, hr_rgb(232, 184, 72));
    hr_disc(frame, half + 0.9f * half * s->place, middle, 10.0f, hr_rgb(86, 182, 194));
}

HR_ENV(demo, HR_OBS(HR_FIELD(Obs, place, -1.0f, 1.0f), HR_FIELD(Obs, target, -1.0f, 1.0f)),
       HR_ACTION(HR_DISCRETE(Action, move, 3)), HR_PARAMS(HR_PARAM(pace, 0.05f)), .max_steps = 100,
       .draw = demo_draw)
