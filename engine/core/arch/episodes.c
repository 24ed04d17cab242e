#include "episodes.h"

#include "passes.h"

/* Rows, of which at most 64 are looked at together, as bits: those that ended. */
static inline uint64_t ended_bits(const hr_vec *vec, int64_t row, int64_t rows) {
    return bits_of(vec->batch.terminated + row, rows) | bits_of(vec->batch.truncated + row, rows);
}

static void add_rows(const hr_vec *vec, const int32_t *rows, int32_t count, double *totals) {
    double returns = totals[HR_RETURN_SUM], lengths = totals[HR_LENGTH_SUM];
    double lowest = totals[HR_RETURN_MIN], highest = totals[HR_RETURN_MAX];
    for (int32_t k = 0; k < count; k++) {
        const double value = (double)vec->last_return[rows[k]];
        returns += value;
        lengths += (double)vec->last_length[rows[k]];
        lowest = value < lowest ? value : lowest;
        highest = value > highest ? value : highest;
    }
    totals[HR_EPISODES] += (double)count;
    totals[HR_RETURN_SUM] = returns;
    totals[HR_LENGTH_SUM] = lengths;
    totals[HR_RETURN_MIN] = lowest;
    totals[HR_RETURN_MAX] = highest;
}

static void add_world(const hr_vec *vec, int64_t world, double *totals) {
    const int32_t metrics = vec->env->metrics_size;
    totals[HR_METRIC_EPISODES] += 1.0;
    for (int32_t m = 0; m < metrics; m++)
        totals[HR_EPISODE_TOTALS + m] += (double)vec->last_metrics[world * metrics + m];
}

int64_t HR_SYM(hr_count_episodes)(const hr_vec *vec, int64_t lo, int64_t hi, double *totals) {
    const int64_t end = hi * vec->env->agents;
    int64_t ended = 0;
    for (int64_t row = lo * vec->env->agents; row < end;) {
        int32_t rows[HR_CELL + 4], count = 0;
        for (const int64_t stop = least(row + HR_CELL, end); row < stop; row += 64)
            count += list_bits(rows + count, row, ended_bits(vec, row, least(64, stop - row)));
        add_rows(vec, rows, count, totals);
        ended += count;
    }
    if (vec->env->metrics_size > 0)
        for (int64_t w = next_set(vec->world_over, lo, hi); w < hi;
             w = next_set(vec->world_over, w + 1, hi))
            add_world(vec, w, totals);
    return ended;
}
