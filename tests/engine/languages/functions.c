/* All that environments in Numba may call, as the header has it. */
#include <headrace.h>

typedef hr_none Params;

typedef struct {
    float draws[16];
    int32_t order[8];
    float x, y;
} State;

typedef struct {
    float x, y;
} Action;

typedef struct {
    float values[15];
    float draws[16];
    int32_t order[8];
} Obs;

static inline void functions_reset(const Params *p, State *s, hr_rng *rng) {
    (void)p, (void)rng;
    s->x = s->y = 0.0f;
}

static inline void functions_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                                  hr_rng *rng) {
    (void)p, (void)out;
    s->x = a->x;
    s->y = a->y;
    uint64_t bits = hr_bits(rng);
    s->draws[0] = (float)(bits >> 40);
    s->draws[1] = (float)(bits & 0xffffff);
    s->draws[2] = hr_unit(rng);
    s->draws[3] = hr_uniform(rng, -3.0f, 0.1f);
    s->draws[4] = hr_normal(rng);
    s->draws[5] = (float)hr_randint(rng, 7);
    s->draws[6] = (float)hr_randint(rng, 2147483647);
    s->draws[7] = hr_bernoulli(rng, 0.3f);
    for (int32_t k = 0; k < 8; k++) s->order[k] = k;
    hr_shuffle(rng, s->order, 8);
    hr_uniforms(rng, s->draws + 8, 7, -0.05f, 0.07f);
    s->draws[15] = hr_unit(rng);
}

static inline void functions_observe(const Params *p, const State *s, Obs o[]) {
    (void)p;
    float x = s->x, y = s->y;
    o->values[0] = hr_sin(x);
    o->values[1] = hr_cos(x);
    o->values[2] = hr_tan(x);
    o->values[3] = hr_exp(x);
    o->values[4] = hr_log(x);
    o->values[5] = hr_tanh(x);
    o->values[6] = hr_floor(x);
    o->values[7] = hr_sqrt(x);
    o->values[8] = hr_fabs(x);
    o->values[9] = hr_atan2(y, x);
    o->values[10] = hr_wrap_angle(x);
    o->values[11] = hr_min(x, y);
    o->values[12] = hr_max(x, y);
    o->values[13] = hr_clamp(x, -0.7f, 1.3f);
    o->values[14] = x * 0.1f + y / 3.0f;
    for (int32_t k = 0; k < 16; k++) o->draws[k] = s->draws[k];
    for (int32_t k = 0; k < 8; k++) o->order[k] = s->order[k];
}

static void functions_draw(const Params *p, const State *s, hr_frame *frame) {
    (void)p;
    float w = (float)frame->width, h = (float)frame->height;
    hr_fill(frame, hr_rgb(10, 20, 30));
    for (int32_t k = 0; k < 16; k++) {
        float j = (float)k;
        float x = s->draws[k % 8 + 8] * 10.0f * w, y = s->draws[2] * h + j * 7.3f;
        hr_line(frame, x, y, w - x * 1.7f, y * 1.3f - 20.0f, 1.0f + j * 0.7f,
                hr_rgb(200, (uint8_t)(10 * k), 5));
        hr_disc(frame, y, x, 3.0f + j * 0.9f, hr_rgb((uint8_t)(5 * k), 200, 90));
        hr_rect(frame, x - 8.0f, y + 20.0f, 5.5f, 9.25f, hr_rgb((uint8_t)k, (uint8_t)k, 255));
    }
    float end = hr_text(frame, -7.0f, 11.5f, 2.5f, hr_rgb(255, 255, 0), "Hello, ~world~ 42%\xe9!");
    hr_text(frame, end, 60.0f, 1.3f, hr_rgb(255, 255, 255), "end");
    hr_rect(frame, 5.0f, 5.0f, -3.0f, 4.0f, hr_rgb(1, 1, 1));
    hr_rect(frame, w - 3.0f, h - 3.0f, 1e9f, 1e9f, hr_rgb(1, 2, 3));
}

HR_ENV(functions,
       HR_OBS(HR_FIELD(Obs, values, -HR_INFINITY, HR_INFINITY),
              HR_FIELD(Obs, draws, -HR_INFINITY, HR_INFINITY), HR_FIELD(Obs, order, 0, 7)),
       HR_ACTION(HR_FIELD(Action, x, -HR_INFINITY, HR_INFINITY),
                 HR_FIELD(Action, y, -HR_INFINITY, HR_INFINITY)),
       HR_PARAMS(), .draw = functions_draw)
