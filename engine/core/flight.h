/* Worlds in flight: stepped in any order, whichever are ready first.
 *
 * Worlds that are submitted together are reported together, in that order, where they are expected
 * to take less than 0.2 ms: neighbours then stay neighbours. Slower ones, and those that are not
 * finished after twice as long, are reported as they finish.
 *
 * How work is cut, and what is reported together, depends on the measured cost of a world; results
 * never do.
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
/* Another bound than 0.2 ms, from the next submission on; 0: nothing is reported together. */
void hr_async_set_patience(hr_async *async, int64_t nanoseconds);

#define HR_ASYNC_OK        (-1)
#define HR_ASYNC_NO_MEMORY (-2)
#define HR_ASYNC_FORKED    (-3) /* this process is a fork: what was in flight is the parent's */

/* Starts the step of n worlds, whose actions are in place: those of ids [n], or, where first is not
 * negative, the neighbours from there on, which exist. Returns HR_ASYNC_OK, or the index of the
 * first world that does not exist or is in flight, or another HR_ASYNC_ code; nothing is started
 * then. */
int64_t hr_async_submit(hr_async *async, int64_t first, const int64_t *ids, int64_t n);
/* Waits until n worlds are finished. Returns n; 0 when the time is up first; HR_ASYNC_FORKED. 0 < n
 * <= hr_async_in_flight. */
int64_t hr_async_wait(hr_async *async, int64_t n, int64_t timeout_ns);
/* Takes the n worlds that were reported first, after hr_async_wait. Returns the first of them where
 * they are neighbours in order; else -1, and they are in ids [n]. ids NULL: takes neighbours only.
 */
int64_t hr_async_take(hr_async *async, int64_t *ids, int64_t n);
/* Worlds submitted and not yet taken by hr_async_take. */
int64_t hr_async_in_flight(const hr_async *async);
/* Worlds that were reported and not taken; HR_ASYNC_FORKED. */
int64_t hr_async_ready(hr_async *async);

#endif /* HEADRACE_FLIGHT_H */
