/* An environment that uses all that the header offers; two agents. */
#define N 11
#define H 3
#define i 1
#include <headrace.h>

#ifndef SIZE
#define SIZE 3
#endif
#ifndef AGENTS
#define AGENTS 2
#endif

typedef struct {
    const float *prices; /* an array that Python gives */
    int64_t big;
    double fine;
    float scale;
    int32_t prices_length;
    int32_t offset;
    int32_t unused;
} Params;

typedef struct {
    float value[AGENTS];
    int32_t steps;
    int32_t last[AGENTS];
} State;

typedef struct {
    int32_t turn;
    int32_t fingers[2];
    float push[2];
} Action;

typedef struct {
    float place;
    float cube[2][3][SIZE][1];
    int32_t count;
    int16_t height[2];
    int8_t small[3];
    uint8_t pixel[SIZE][2][1];
    uint8_t fill[(4 - (3 + 2 * SIZE) % 4) % 4 + 4];
} Obs;

struct Metrics {
    float total, longest;
};

static inline void everything_reset(const Params *p, State *s, hr_rng *rng) {
    for (int k = 0; k < AGENTS; k++) s->value[k] = p->scale * hr_unit(rng);
    s->steps = (int32_t)hr_bernoulli(rng, 0.0f);
}

static inline void everything_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                                   hr_rng *rng) {
    (void)rng;
    s->steps++;
    HR_CHECK(s->steps < 3, "more than two steps");
    for (int k = 0; k < AGENTS; k++) {
        s->last[k] = a[k].turn;
        s->value[k] += a[k].push[0] + (float)a[k].fingers[i] + p->prices[p->prices_length - 1];
        out[k].reward = s->value[k] * (float)N;
        if (a[k].turn == 2) out[k].terminated = true;
        if (a[k].turn == 1) out[k].truncated = true;
    }
}

static inline void everything_observe(const Params *p, const State *s, Obs o[]) {
    for (int k = 0; k < AGENTS; k++) {
        __builtin_memset(&o[k], 0, sizeof o[k]);
        o[k].place = s->value[k];
        o[k].cube[1][2][SIZE - 1][0] = (float)p->fine;
        o[k].count = s->steps;
        o[k].height[1] = (int16_t)p->offset;
        o[k].small[0] = (int8_t)-k;
        o[k].pixel[SIZE - 1][1][0] = (uint8_t)(H + p->big);
    }
}

static void everything_present(const Params *p, const State *s, bool present[]) {
    (void)p;
    for (int k = 0; k < AGENTS; k++) present[k] = s->last[k] == 0;
}

static void everything_mask(const Params *p, const State *s, bool allowed[]) {
    (void)p;
    for (int k = 0; k < AGENTS; k++) allowed[11 * k + s->last[k]] = true;
}

static void everything_metrics(const Params *p, const State *s, struct Metrics *m) {
    m->total = p->scale + s->value[0];
    m->longest = (float)s->steps;
}

static void everything_draw(const Params *p, const State *s, hr_frame *frame) {
    (void)p;
    hr_fill(frame, hr_rgb(1, 2, 3));
    hr_rect(frame, (float)s->steps, 0.0f, 1.0f, 1.0f, hr_rgb(9, 8, 7));
}

HR_ENV(everything,
       HR_OBS(HR_FIELD(Obs, place, -HR_INFINITY, HR_INFINITY), HR_FIELD(Obs, cube, 0, 1),
              HR_DISCRETE(Obs, count, 1000), HR_FIELD(Obs, height, -5, 5),
              HR_FIELD(Obs, small, -128, 127), HR_FIELD(Obs, pixel, 0, 255),
              HR_FIELD(Obs, fill, 0, 0)),
       HR_ACTION(HR_DISCRETE(Action, turn, 3), HR_DISCRETE(Action, fingers, 4),
                 HR_FIELD(Action, push, -1.0f, 1.0f)),
       HR_PARAMS(HR_ARRAY(prices, prices_length), HR_PARAM(big, 1 << 20), HR_PARAM(fine, 0.125),
                 HR_PARAM(scale, 2.0f), HR_PARAM(offset, -3)),
       .max_steps = 40, .agents = AGENTS, .present = everything_present, .mask = everything_mask,
       .metrics = everything_metrics, HR_METRICS(total, longest), .draw = everything_draw)

#include "driver.h"
