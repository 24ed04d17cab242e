/* Worlds in flight: stepped in any order, whichever are ready first.
 *
 * How work is cut depends on the measured cost of a world; results never do.
 */
#ifndef HEADRACE_FLIGHT_H
#define HEADRACE_FLIGHT_H

#include <stdint.h>

#include "pace.h"
#include "pool.h"
#include "vec.h"

/* Worlds in flight, returned in the order in which they finish. One thread at a time calls
 * these functions. */
typedef struct hr_async hr_async;

/* pool NULL: submitted worlds are stepped at once by the caller. vec, pool and pace outlive
 * the result. Returns NULL when memory cannot be had. */
hr_async *hr_async_new(hr_vec *vec, hr_pool *pool, hr_pace *pace);
/* Waits for everything in flight, then frees. async may be NULL. */
void hr_async_free(hr_async *async);

#define HR_ASYNC_OK        (-1)
#define HR_ASYNC_NO_MEMORY (-2)
#define HR_ASYNC_FORKED    (-3) /* this process is a fork: what was in flight is the parent's */

/* Starts the step of n worlds, whose actions are in place. Returns HR_ASYNC_OK, or the index
 * in `ids` of the first world that does not exist or is in flight, or another HR_ASYNC_ code;
 * nothing is started then. */
int64_t hr_async_submit(hr_async *async, const int64_t *ids, int64_t n);
/* Waits until n worlds are finished and takes them: ids [n] in order of completion. Returns
 * n; 0 when the time is up first; HR_ASYNC_FORKED. n is at most hr_async_in_flight. */
int64_t hr_async_wait(hr_async *async, int64_t *ids, int64_t n, int64_t timeout_ns);
/* Worlds submitted and not yet taken by hr_async_wait. */
int64_t hr_async_in_flight(const hr_async *async);
/* Worlds that a wait would get without waiting; HR_ASYNC_FORKED. */
int64_t hr_async_ready(hr_async *async);

#endif /* HEADRACE_FLIGHT_H */
