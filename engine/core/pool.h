/* One pool of threads for everything: stepping, collecting and learning.
 *
 * A job is a function called for tasks 0 .. tasks-1, in any order, on any thread, each once.
 * Waiting is a short spin, then a futex (a condition variable where there is none). The
 * thread that waits for a job works on it too, so a pool of 1 has no threads of its own.
 */
#ifndef HEADRACE_POOL_H
#define HEADRACE_POOL_H

#include <stdatomic.h>
#include <stdint.h>

typedef struct hr_pool hr_pool;

/* worker: 0 .. threads-1, a slot for per-thread scratch; 0 is whichever thread waits. */
typedef void (*hr_task_fn)(void *arg, int64_t task, int worker);

/* Caller-owned; may live on the stack. Fill fn, arg, tasks; the rest belongs to the pool. */
typedef struct hr_job {
    hr_task_fn fn;
    void *arg;
    int64_t tasks;
    struct hr_job *next_job;
    _Atomic int64_t next_task; /* first task nobody has taken */
    _Atomic int64_t unfinished; /* tasks not yet finished */
    _Atomic int32_t users; /* workers that may still look at the job */
} hr_job;

/* threads >= 1 counts the caller. Returns NULL when memory or threads cannot be had. */
hr_pool *hr_pool_new(int threads);
/* Waits for running tasks, joins the threads, frees. pool may be NULL. */
void hr_pool_free(hr_pool *pool);
int hr_pool_threads(const hr_pool *pool);
/* Queues the job and returns at once; jobs start in the order of submission. */
void hr_pool_submit(hr_pool *pool, hr_job *job);
/* Works on the job until none of its tasks is left, then waits until all have finished. */
void hr_pool_wait(hr_pool *pool, hr_job *job);
/* 1 when all tasks of the job have finished; never blocks. */
int hr_pool_done(hr_pool *pool, hr_job *job);
/* submit + wait; runs in the calling thread when the pool or the job has only one. */
void hr_pool_run(hr_pool *pool, hr_task_fn fn, void *arg, int64_t tasks);

/* What other extension modules see of the pool (capsule "headrace.hr_pool_api"), since
 * separately loaded modules do not link to each other. */
typedef struct hr_pool_api {
    void (*run)(hr_pool *pool, hr_task_fn fn, void *arg, int64_t tasks);
    void (*submit)(hr_pool *pool, hr_job *job);
    void (*wait)(hr_pool *pool, hr_job *job);
    int (*done)(hr_pool *pool, hr_job *job);
    int (*threads)(const hr_pool *pool);
} hr_pool_api;

#endif /* HEADRACE_POOL_H */
