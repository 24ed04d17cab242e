/* What the engine has for each instruction-set level: engine/core/arch, compiled once for each. */
#ifndef HEADRACE_LEVEL_H
#define HEADRACE_LEVEL_H

#include "actions.h"
#include "vec.h"

typedef struct hr_level {
    /* Step worlds [lo, hi): of one agent that is always there, or of any. */
    hr_step_fn step_plain, step_agents;
    /* Checks value rows [lo, hi) and writes them. Returns -1, or the flat index (row * members +
     * member) of the first number that is not allowed; slots may then hold some of them already. */
    int64_t (*take)(const hr_taking *taking, int64_t lo, int64_t hi);
    /* The same without writing. */
    int64_t (*check)(const hr_taking *taking, int64_t lo, int64_t hi);
    /* Adds the episodes that ended in the last step of worlds [lo, hi) to `totals` (episodes.h),
     * in order of row. Returns how many rows ended (terminated or truncated). */
    int64_t (*count_episodes)(const hr_vec *vec, int64_t lo, int64_t hi, double *totals);
} hr_level;

/* The best that this CPU has and HEADRACE_ISA allows (isa.h). */
const hr_level *hr_level_get(void);

static inline hr_step_fn hr_step_for(const hr_level *level, const hr_env *env) {
    return env->agents == 1 && env->present == NULL ? level->step_plain : level->step_agents;
}

#endif /* HEADRACE_LEVEL_H */
