/* Statistics of finished episodes, gathered after each step. */
#ifndef HEADRACE_EPISODES_H
#define HEADRACE_EPISODES_H

#include <math.h>

#include "vec.h"

/* Layout of `totals`: HR_EPISODE_TOTALS doubles, then one sum per metric. */
typedef enum hr_episode_total {
    HR_EPISODES, /* rows whose episode ended */
    HR_RETURN_SUM,
    HR_LENGTH_SUM,      /* steps */
    HR_RETURN_MIN,      /* +infinity before the first episode */
    HR_RETURN_MAX,      /* -infinity before the first episode */
    HR_METRIC_EPISODES, /* worlds whose episode ended: what the metric sums are over */
    HR_EPISODE_TOTALS
} hr_episode_total;

/* A step of all worlds is counted cell by cell, and the cells are added up in order, so that
 * sums do not depend on which thread counts what. */
#define HR_CELL 512 /* worlds */

static inline int64_t hr_cells_of(int64_t worlds) { return (worlds + HR_CELL - 1) / HR_CELL; }

/* Doubles in the totals of an environment. */
static inline int64_t hr_totals_size(const hr_env *env) {
    return HR_EPISODE_TOTALS + env->metrics_size;
}

/* As before the first episode. */
static inline void hr_totals_clear(const hr_env *env, double *totals) {
    for (int64_t i = 0; i < hr_totals_size(env); i++) totals[i] = 0.0;
    totals[HR_RETURN_MIN] = (double)INFINITY;
    totals[HR_RETURN_MAX] = -(double)INFINITY;
}

static inline void hr_totals_add(const hr_env *env, double *totals, const double *more) {
    const double least = more[HR_RETURN_MIN], most = more[HR_RETURN_MAX];
    for (int64_t i = 0; i < hr_totals_size(env); i++)
        if (i != HR_RETURN_MIN && i != HR_RETURN_MAX) totals[i] += more[i];
    if (least < totals[HR_RETURN_MIN]) totals[HR_RETURN_MIN] = least;
    if (most > totals[HR_RETURN_MAX]) totals[HR_RETURN_MAX] = most;
}

#endif /* HEADRACE_EPISODES_H */
