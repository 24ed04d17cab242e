#include "episodes.h"

#include <string.h>

static void add_row(const hr_vec *vec, int64_t row, double *totals) {
    const double value = (double)vec->last_return[row];
    totals[HR_EPISODES] += 1.0;
    totals[HR_RETURN_SUM] += value;
    totals[HR_LENGTH_SUM] += (double)vec->last_length[row];
    if (value < totals[HR_RETURN_MIN])
        totals[HR_RETURN_MIN] = value;
    if (value > totals[HR_RETURN_MAX])
        totals[HR_RETURN_MAX] = value;
}

static void add_world(const hr_vec *vec, int64_t world, double *totals) {
    const int32_t metrics = vec->env->metrics_size;
    totals[HR_METRIC_EPISODES] += 1.0;
    for (int32_t m = 0; m < metrics; m++)
        totals[HR_EPISODE_TOTALS + m] += (double)vec->last_metrics[world * metrics + m];
}

int64_t hr_count_episodes(const hr_vec *vec, int64_t lo, int64_t hi, double *totals) {
    const uint8_t *terminated = vec->batch.terminated, *truncated = vec->batch.truncated;
    const int64_t end = hi * vec->env->agents;
    int64_t ended = 0, row = lo * vec->env->agents;
    while (row < end) {
        if (row + 8 <= end) { /* most steps end no episode: skip eight rows at a time */
            uint64_t a, b;
            memcpy(&a, terminated + row, sizeof a);
            memcpy(&b, truncated + row, sizeof b);
            if ((a | b) == 0) {
                row += 8;
                continue;
            }
        }
        const int64_t stop = row + 8 <= end ? row + 8 : end;
        for (; row < stop; row++) {
            if ((terminated[row] | truncated[row]) != 0) {
                add_row(vec, row, totals);
                ended++;
            }
        }
    }
    if (vec->env->metrics_size > 0)
        for (int64_t world = lo; world < hi; world++)
            if (vec->world_over[world] != 0)
                add_world(vec, world, totals);
    return ended;
}
