/* An action of two kinds (a dict), a check that can fail, images of bytes. */
#include <headrace.h>

typedef hr_none Params;

typedef struct {
    int32_t gear;
    float speed;
} State;

typedef struct {
    int32_t gear;
    float throttle[2];
} Action;

typedef struct {
    uint8_t image[4][3];
} Obs;

static inline void kart_reset(const Params *p, State *s, hr_rng *rng) {
    (void)p;
    (void)rng;
    s->gear = 0;
    s->speed = 0.0f;
}

static inline void kart_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                             hr_rng *rng) {
    (void)p;
    (void)rng;
    s->gear = a->gear;
    s->speed += a->throttle[0] - a->throttle[1];
    HR_CHECK(s->speed < 5.0f, "the kart is too fast");
    out->reward = s->speed;
}

static inline void kart_observe(const Params *p, const State *s, Obs o[]) {
    (void)p;
    for (int32_t i = 0; i < 4; i++)
        for (int32_t k = 0; k < 3; k++) o->image[i][k] = (uint8_t)(10 * s->gear + i + k);
}

HR_ENV(kart, HR_OBS(HR_FIELD(Obs, image, 0, 255)),
       HR_ACTION(HR_DISCRETE(Action, gear, 4), HR_FIELD(Action, throttle, 0.0f, 1.0f)), HR_PARAMS(),
       .max_steps = 50)
