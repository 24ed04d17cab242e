/* What a world's step costs, and how much work makes a task. */
#ifndef HEADRACE_PACE_H
#define HEADRACE_PACE_H

#include <stdatomic.h>
#include <stdint.h>

#include "vec.h"

#define HR_TASK_MIN_NS 5000 /* a task costs some 50 ns to take */
#define HR_TASK_MAX_NS 50000
#define HR_ASSUMED_PS  1000000 /* a world's step before any was measured: 1 us */

/* Running estimate of the cost of one world's step. */
typedef struct hr_pace {
    _Atomic int64_t world_ps; /* picoseconds; 0: not measured yet */
} hr_pace;

static inline int64_t hr_least(int64_t a, int64_t b) { return a < b ? a : b; }

static inline int64_t hr_clamp(int64_t value, int64_t low, int64_t high) {
    return value < low ? low : hr_least(value, high);
}

/* Expected cost of stepping `worlds` worlds on one thread, ns; 0 before the first measurement. */
static inline int64_t hr_pace_ns(const hr_pace *pace, int64_t worlds) {
    const int64_t ps = atomic_load_explicit(&pace->world_ps, memory_order_relaxed);
    return (int64_t)((double)ps * (double)worlds / 1000.0);
}

/* Takes in that `worlds` worlds took `ns`. Down at once, up slowly: interruptions only ever make
 * a step look dearer. */
static inline void hr_pace_add(hr_pace *pace, int64_t ns, int64_t worlds) {
    if (worlds == 0) return;
    const int64_t before = atomic_load_explicit(&pace->world_ps, memory_order_relaxed);
    const int64_t ps = hr_clamp(ns * 1000 / worlds, 1, INT64_MAX);
    const int64_t now = before == 0 || ps < before ? ps : before + (ps - before) / 8;
    atomic_store_explicit(&pace->world_ps, now, memory_order_relaxed);
}

/* Worlds in one task when `worlds` are shared by `threads`: blocks, unless worlds are slow. */
static inline int64_t hr_pace_chunk(const hr_pace *pace, int64_t worlds, int threads) {
    const int64_t measured = atomic_load_explicit(&pace->world_ps, memory_order_relaxed);
    const int64_t ps = measured > 0 ? measured : HR_ASSUMED_PS;
    const int64_t task_ns = hr_clamp((int64_t)((double)ps * (double)worlds / 8000.0) / threads,
                                     HR_TASK_MIN_NS, HR_TASK_MAX_NS);
    const int64_t chunk = hr_clamp(task_ns * 1000 / ps, 1, worlds);
    return chunk < HR_BLOCK ? chunk : chunk - chunk % HR_BLOCK;
}

#endif /* HEADRACE_PACE_H */
