/* For the tests: two runners, of whom one runs at a time. Actions are orders of the test.
 *
 * action of the one who runs, a sum: 1 hand over, 2 the other is given -1, 4 the other
 * terminates, 8 the other is truncated, 16 the runner terminates, 32 both leave
 */
#include <headrace.h>

typedef hr_none Params;

typedef struct {
    int32_t clock, runner; /* 2: nobody */
} State;

typedef struct {
    int32_t order;
} Action;

typedef struct {
    int32_t clock;
} Obs;

static inline void relay_reset(const Params *p, State *s, hr_rng *rng) {
    (void)p;
    (void)s;
    (void)rng;
}

static inline void relay_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                              hr_rng *rng) {
    (void)p;
    (void)rng;
    int32_t runner = s->runner, other = 1 - runner, order = a[runner].order;
    s->clock += 1;
    out[runner].reward = 1.0f;
    out[runner].terminated = (order & 16) != 0;
    out[other].reward = (order & 2) != 0 ? -1.0f : 0.0f;
    out[other].terminated = (order & 4) != 0;
    out[other].truncated = (order & 8) != 0;
    s->runner = (order & 32) != 0 ? 2 : (order & 1) != 0 ? other : runner;
}

static inline void relay_observe(const Params *p, const State *s, Obs o[]) {
    (void)p;
    o[0].clock = o[1].clock = s->clock;
}

static inline void relay_present(const Params *p, const State *s, bool present[]) {
    (void)p;
    if (s->runner < 2) present[s->runner] = true;
}

HR_ENV(relay, HR_OBS(HR_FIELD(Obs, clock, 0, 1000000)), HR_ACTION(HR_DISCRETE(Action, order, 64)),
       HR_PARAMS(), .agents = 2, .present = relay_present)
