/* Statistics of finished episodes, gathered after each step. */
#ifndef HEADRACE_EPISODES_H
#define HEADRACE_EPISODES_H

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

/* Adds the episodes that ended in the last step of worlds [lo, hi) to `totals`, in order of
 * row. Returns how many rows ended (terminated or truncated). */
int64_t hr_count_episodes(const hr_vec *vec, int64_t lo, int64_t hi, double *totals);

#endif /* HEADRACE_EPISODES_H */
