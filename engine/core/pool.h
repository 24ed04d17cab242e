/* One pool of threads for everything: stepping, collecting and learning.
 *
 * A job is a function called for tasks 0 .. tasks-1, in any order, on any thread, each once.
 * Tasks are dealt out in equal ranges, one for each worker: it takes its own from the front, and
 * when none is left, others' from the back. So the same parts of two jobs run mostly on the same
 * thread, which finds the memory that they share in its own cache: the cores of one machine may
 * lie so far apart that fetching it from another's costs more than the work.
 * Waiting is a short spin, then a futex (a condition variable where there is none). The
 * thread that waits for a job works on it too, so a pool of 1 has no threads of its own.
 */
#ifndef HEADRACE_POOL_H
#define HEADRACE_POOL_H

#include <stdatomic.h>
#include <stdint.h>

typedef struct hr_pool hr_pool;

/* worker: 0 .. threads-1, a slot for scratch that belongs to the job; 0 is whichever thread
 * waits for it, so that two jobs waited for by two threads may both run as 0 at once. */
typedef void (*hr_task_fn)(void *arg, int64_t task, int worker);

#define HR_POOL_RANGES 32 /* of a job at most; of more workers several share one */

/* Tasks that nobody has taken, a cache line away from others. */
typedef struct hr_range {
    char apart[56];
    _Atomic uint64_t untaken; /* the first, and in the upper half the end */
} hr_range;
_Static_assert(sizeof(hr_range) == 64, "a cache line");

/* Caller-owned; may live on the stack. See hr_job_set; the rest belongs to the pool. */
typedef struct hr_job {
    hr_task_fn fn;
    void *arg;
    int64_t tasks;
    struct hr_job *next_job;
    uint32_t generation;       /* of the pool: a job does not survive a fork */
    int32_t ranges;            /* how many of them are used */
    _Atomic int32_t all_taken; /* 1 once somebody has seen to it that the queue lets go */
    _Atomic int32_t users;     /* the queue and the workers that still look at the job; 0: done */
    hr_range range[HR_POOL_RANGES];
} hr_job;

/* What a job is before it is submitted; tasks below 2^31. */
static inline void hr_job_set(hr_job *job, hr_task_fn fn, void *arg, int64_t tasks) {
    job->fn = fn;
    job->arg = arg;
    job->tasks = tasks;
}

/* threads >= 1 counts the caller; threads are started by the first job. Where the system
 * grants fewer the pool is slower, never wrong. Returns NULL when memory cannot be had.
 *
 * After a fork the child's first job starts threads of its own; jobs that were in flight
 * at the fork are the parent's, and count as done in the child. */
hr_pool *hr_pool_new(int threads);
/* Waits for the jobs submitted so far and ends the threads; the next job starts them again. */
void hr_pool_stop(hr_pool *pool);
/* Stops, then frees. pool may be NULL. */
void hr_pool_free(hr_pool *pool);
int hr_pool_threads(const hr_pool *pool);
/* How long threads spin before they sleep; 0 where threads outnumber the CPUs. */
void hr_pool_set_spin(hr_pool *pool, int64_t nanoseconds);
int64_t hr_pool_spin(const hr_pool *pool);
/* Jobs will follow each other closely, and nobody else in this process has work for the CPUs
 * meanwhile: threads that have just waited for a short time only spin for longer. Does nothing
 * where they do not spin. */
void hr_pool_be_patient(hr_pool *pool);
/* Changes in a forked child: what was in flight under another generation is lost. */
uint32_t hr_pool_generation(hr_pool *pool);
/* Queues the job and returns at once; jobs start in the order of submission. */
void hr_pool_submit(hr_pool *pool, hr_job *job);
/* Works on the job until none of its tasks is left, then waits until all have finished. */
void hr_pool_wait(hr_pool *pool, hr_job *job);
/* Runs one task of the job in the calling thread; returns 0 when none was left to take. */
int hr_pool_help(hr_pool *pool, hr_job *job);
/* 1 when all tasks of the job have finished; never blocks. */
int hr_pool_done(hr_pool *pool, hr_job *job);
/* submit + wait; runs in the calling thread when the pool is NULL or of one thread, or the
 * job has one task. */
void hr_pool_run(hr_pool *pool, hr_task_fn fn, void *arg, int64_t tasks);

/* What other extension modules see of the pool (capsule "headrace.hr_pool_api"), since
 * separately loaded modules do not link to each other. */
typedef struct hr_pool_api {
    uint64_t size;     /* sizeof(hr_pool_api), */
    uint64_t job_size; /* sizeof(hr_job): others mean another version */
    void (*run)(hr_pool *pool, hr_task_fn fn, void *arg, int64_t tasks);
    void (*submit)(hr_pool *pool, hr_job *job);
    void (*wait)(hr_pool *pool, hr_job *job);
    int (*done)(hr_pool *pool, hr_job *job);
    int (*threads)(const hr_pool *pool);
} hr_pool_api;

#endif /* HEADRACE_POOL_H */
