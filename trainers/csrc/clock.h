/* Seconds per stage, measured only where somebody asked for them. */
#ifndef HEADRACE_CLOCK_H
#define HEADRACE_CLOCK_H

#include <stddef.h>
#include <time.h>

static inline double hr_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Adds the time since *mark to seconds[stage] and moves *mark on; nothing when seconds is NULL. */
static inline void hr_lap(double *seconds, int stage, double *mark) {
    if (seconds != NULL) {
        const double now = hr_now();
        seconds[stage] += now - *mark;
        *mark = now;
    }
}

static inline double hr_start(const double *seconds) { return seconds ? hr_now() : 0.0; }

#endif /* HEADRACE_CLOCK_H */
