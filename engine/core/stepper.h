/* Steps a whole batch on a pool, all worlds at once.
 *
 * How work is cut depends on the measured cost of a world; results never do.
 */
#ifndef HEADRACE_STEPPER_H
#define HEADRACE_STEPPER_H

#include <stdint.h>

#include "level.h"
#include "pace.h"
#include "pool.h"
#include "vec.h"

/* An array of the batch, and a copy that is made of it: the same number of bytes for each world. */
typedef struct hr_copy {
    const char *from;
    char *into;
    int64_t size;
} hr_copy;

/* What goes with a step of all worlds. */
typedef struct hr_turn {
    const hr_level *level;
    const hr_taking *taking; /* actions to be taken before the step; NULL: they are in place */
    const hr_copy *copies;   /* [copies_count] made of the results */
    int32_t copies_count;
    double *totals; /* episodes that end are added here (episodes.h); NULL: not counted */
    double *cells;  /* [hr_cells_of(worlds)][hr_totals_size] scratch */
    int64_t wrong;  /* out: -1, or hr_level.take's: nothing was stepped */
    int64_t ended;  /* out: rows that ended, 0 where they are not counted */
} hr_turn;

/* Steps all worlds: in the calling thread when pool is NULL or sharing would not pay. turn: what
 * to do beside, in the same threads; NULL: nothing. */
void hr_step_all(hr_vec *vec, hr_pool *pool, hr_pace *pace, hr_turn *turn);

#endif /* HEADRACE_STEPPER_H */
