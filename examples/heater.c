/* Heater: keep a room warm, for little money, while the weather changes.
 *
 * observation  inside and outside temperature in units of 10 degrees, and the hour as a share
 *              of the day
 * action       power of the heater, 0 to 1
 * reward       0.1 each hour that the room is within 1 degree of 20, minus 0.05 times the power
 * start        inside 12 to 20 degrees, outside -5 to 10 degrees, at any hour
 * end          terminated, with reward -1, when the room freezes; truncated after 96 hours
 */
#include <headrace.h>

#ifndef HOURS
#define HOURS 24 /* of a day */
#endif

typedef struct {
    float leak;  /* share of the difference that gets lost in an hour */
    float power; /* degrees that full power adds in an hour */
} Params;

typedef struct {
    float inside, outside; /* degrees */
    float used;            /* power, summed over the episode */
    int32_t hour;          /* of the day */
} State;

typedef struct {
    float power;
} Action;

typedef struct {
    float inside, outside, hour;
} Obs;

struct Metrics {
    float power_used;
};

static inline void heater_reset(const Params *p, State *s, hr_rng *rng) {
    (void)p;
    s->inside = hr_uniform(rng, 12.0f, 20.0f);
    s->outside = hr_uniform(rng, -5.0f, 10.0f);
    s->hour = hr_randint(rng, HOURS);
}

static inline void heater_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                               hr_rng *rng) {
    float power = hr_clamp(a->power, 0.0f, 1.0f);
    float sun = hr_sin(2.0f * HR_PI * (float)s->hour / (float)HOURS);
    s->outside += 0.1f * (4.0f * sun + 2.0f - s->outside) + 0.5f * hr_normal(rng);
    s->outside = hr_clamp(s->outside, -30.0f, 30.0f);
    s->inside += p->leak * (s->outside - s->inside) + p->power * power;
    s->inside = hr_clamp(s->inside, -30.0f, 60.0f);
    s->hour = (s->hour + 1) % HOURS;
    s->used += power;

    bool frozen = s->inside < 0.0f;
    bool cosy = hr_fabs(s->inside - 20.0f) <= 1.0f;
    out->reward = frozen ? -1.0f : (cosy ? 0.1f : 0.0f) - 0.05f * power;
    out->terminated = frozen;
}

static inline void heater_observe(const Params *p, const State *s, Obs o[]) {
    (void)p;
    o->inside = 0.1f * s->inside;
    o->outside = 0.1f * s->outside;
    o->hour = (float)s->hour / (float)HOURS;
}

static inline void heater_metrics(const Params *p, const State *s, struct Metrics *metrics) {
    (void)p;
    metrics->power_used = s->used;
}

static inline void heater_draw(const Params *p, const State *s, hr_frame *frame) {
    (void)p;
    float width = (float)frame->width, height = (float)frame->height;
    float degree = height / 60.0f, zero = 0.75f * height;
    float warm = hr_clamp(s->inside / 40.0f, 0.0f, 1.0f);
    hr_fill(frame, hr_rgb(28, 31, 38));
    hr_rect(frame, 0.3f * width, zero - degree * s->inside, 0.4f * width, degree * s->inside,
            hr_rgb((uint8_t)(80.0f + 160.0f * warm), 120, (uint8_t)(220.0f - 160.0f * warm)));
    hr_line(frame, 0.0f, zero, width, zero, 2.0f, hr_rgb(120, 126, 140));
    hr_line(frame, 0.25f * width, zero - degree * 20.0f, 0.75f * width, zero - degree * 20.0f, 2.0f,
            hr_rgb(232, 184, 72));
    hr_disc(frame, 0.88f * width, zero - degree * s->outside, 0.03f * height, hr_rgb(86, 182, 194));
}

HR_ENV(heater,
       HR_OBS(HR_FIELD(Obs, inside, -3.0f, 6.0f), HR_FIELD(Obs, outside, -3.0f, 3.0f),
              HR_FIELD(Obs, hour, 0.0f, 1.0f)),
       HR_ACTION(HR_FIELD(Action, power, 0.0f, 1.0f)),
       HR_PARAMS(HR_PARAM(leak, 0.1f), HR_PARAM(power, 4.0f)), .max_steps = 96,
       .metrics = heater_metrics, HR_METRICS(power_used), .draw = heater_draw)
