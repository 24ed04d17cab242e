#define _GNU_SOURCE /* sched_getaffinity, futex */
#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "crash.h"
#include "waitword.h"

#define SPIN_NS    20000  /* a sleeping thread takes about this long to get going again */
#define PATIENT_NS 200000 /* a patient pool's threads spin so long while waits are shorter: */
#define CALM       32     /* after so many in a row, so that few are in vain on a busy machine */
#define REVIVING   UINT32_MAX

/* Forks between the load of this module and the running process, counted in the child. */
static _Atomic uint32_t forks;

typedef struct worker {
    struct hr_pool *pool;
    pthread_t thread;
    int index; /* 1 .. threads-1 */
} worker;

/* In cache lines by who writes and who reads them. */
struct hr_pool {
    int threads;                 /* with the one that waits */
    _Atomic int64_t spin_ns;     /* spin this long before sleeping, */
    _Atomic int64_t patient_ns;  /* ... and this long after CALM waits shorter than that */
    _Atomic uint32_t generation; /* value of `forks` under which the fields below hold */
    _Atomic int closing;         /* 1: threads leave when the queue is empty */
    char apart[64];
    pthread_mutex_t lock; /* guards the queue and `started` */
    hr_job *first, *last; /* jobs that still have tasks to take, oldest first */
    int started;          /* threads running */
    char apart_too[64];
    hr__word submitted;            /* counts submissions: idle threads wait for it */
    _Atomic int32_t idle_sleepers; /* threads asleep on it */
    char apart_again[64];
    hr__word finished;             /* counts finished jobs: waiting threads wait for it */
    _Atomic int32_t done_sleepers; /* threads asleep on it */
    _Atomic int32_t done_calm;     /* waits for it since one that took patient_ns */
    worker workers[];              /* [threads - 1] */
};

/* ---- fork ------------------------------------------------------------------------ */

static void after_fork_in_child(void) { atomic_fetch_add(&forks, 1); }

static void register_fork_handler(void) { pthread_atfork(NULL, NULL, after_fork_in_child); }

/* Puts every field that threads share into its first state: no thread, no job. */
static void set_idle(hr_pool *pool) {
    pool->started = 0;
    pool->first = pool->last = NULL;
    pthread_mutex_init(&pool->lock, NULL);
    hr__word_init(&pool->submitted);
    hr__word_init(&pool->finished);
    atomic_init(&pool->idle_sleepers, 0);
    atomic_init(&pool->done_sleepers, 0);
    atomic_init(&pool->done_calm, 0);
    atomic_init(&pool->closing, 0);
}

/* In a forked child the parent's threads do not exist and its lock may be held by one of
 * them: the first caller starts the pool afresh. */
static void ensure_own_generation(hr_pool *pool) {
    const uint32_t now = atomic_load(&forks);
    uint32_t seen = atomic_load_explicit(&pool->generation, memory_order_acquire);
    if (seen == now) return;
    if (seen != REVIVING && atomic_compare_exchange_strong(&pool->generation, &seen, REVIVING)) {
        set_idle(pool);
        atomic_store(&pool->generation, now);
    }
    while (atomic_load(&pool->generation) != now) sched_yield();
}

/* ---- jobs ------------------------------------------------------------------------ */

/* Gives back one reference. The job may be gone afterwards. */
static void release(hr_pool *pool, hr_job *job) {
    if (atomic_fetch_sub(&job->users, 1) != 1) return;
    atomic_fetch_add(&pool->finished.value, 1);
    if (atomic_load(&pool->done_sleepers) > 0) hr__word_wake(&pool->finished, INT32_MAX);
}

/* Takes the job, whose last task has been taken, off the queue. Called once, by who has found that
 * none is left, while holding a reference of its own. */
static void unlink_job(hr_pool *pool, hr_job *job) {
    pthread_mutex_lock(&pool->lock);
    hr_job *before = NULL;
    for (hr_job *at = pool->first; at != job; at = at->next_job) before = at;
    if (before == NULL) {
        pool->first = job->next_job;
    } else {
        before->next_job = job->next_job;
    }
    if (pool->last == job) pool->last = before;
    pthread_mutex_unlock(&pool->lock);
    release(pool, job); /* the queue's reference */
}

static uint64_t range_of(uint64_t first, uint64_t end) { return end << 32 | first; }

static bool is_empty(uint64_t untaken) { return (uint32_t)untaken >= untaken >> 32; }

/* Deals the tasks out to the workers. */
static void deal(hr_job *job, int threads) {
    const int64_t most = threads < HR_POOL_RANGES ? threads : HR_POOL_RANGES;
    job->ranges = (int32_t)(job->tasks < most ? job->tasks : most);
    for (int64_t k = 0; k < job->ranges; k++)
        atomic_init(&job->range[k].untaken,
                    range_of((uint64_t)(job->tasks * k / job->ranges),
                             (uint64_t)(job->tasks * (k + 1) / job->ranges)));
}

static bool is_taken(hr_job *job) {
    for (int k = 0; k < job->ranges; k++)
        if (!is_empty(atomic_load(&job->range[k].untaken))) return false;
    return true;
}

/* A task of one range, its first or its last; -1 where it is empty. `*emptied`: it was the only
 * one. */
static int64_t take(hr_range *range, bool from_front, bool *emptied) {
    uint64_t seen = atomic_load_explicit(&range->untaken, memory_order_relaxed);
    while (!is_empty(seen)) {
        const uint64_t first = (uint32_t)seen, end = seen >> 32;
        const uint64_t left = from_front ? range_of(first + 1, end) : range_of(first, end - 1);
        if (!atomic_compare_exchange_weak(&range->untaken, &seen, left)) continue;
        *emptied = is_empty(left);
        return (int64_t)(from_front ? first : end - 1);
    }
    return -1;
}

/* Runs one task as `index`, of its own range or else of the next that has one; false when none
 * was left. The caller holds a reference. */
static bool run_one(hr_pool *pool, hr_job *job, int index) {
    for (int k = 0; k < job->ranges; k++) {
        bool emptied = false;
        const int64_t task = take(&job->range[(index + k) % job->ranges], k == 0, &emptied);
        if (task < 0) continue;
        if (emptied && is_taken(job) && !atomic_exchange(&job->all_taken, 1)) unlink_job(pool, job);
        job->fn(job->arg, task, index);
        return true;
    }
    return false;
}

/* The oldest job with tasks to take, with a reference to it; NULL when there is none. */
static hr_job *take_job(hr_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    hr_job *job = pool->first;
    while (job != NULL && atomic_load(&job->all_taken))
        job = job->next_job; /* still being unlinked */
    if (job != NULL) atomic_fetch_add(&job->users, 1);
    pthread_mutex_unlock(&pool->lock);
    return job;
}

/* ---- waiting --------------------------------------------------------------------- */

/* Spins while the word equals `seen`, then sleeps as one of `sleepers`. `calm`: short waits in a
 * row before; returns how many they are now. */
static int32_t wait_for(const hr_pool *pool, hr__word *word, uint32_t seen,
                        _Atomic int32_t *sleepers, int32_t calm) {
    const int64_t brief = atomic_load(&pool->spin_ns), patient = atomic_load(&pool->patient_ns);
    const int64_t start = hr__now_ns();
    if (!hr__word_spin(word, seen, calm >= CALM && patient > 0 ? patient : brief)) {
        atomic_fetch_add(sleepers, 1);
        hr__word_wait(word, seen, -1); /* not where it has changed meanwhile */
        atomic_fetch_sub(sleepers, 1);
    }
    if (hr__now_ns() - start >= patient) return 0;
    return calm < CALM ? calm + 1 : CALM;
}

/* ---- threads --------------------------------------------------------------------- */

static void *work(void *arg) {
    const worker *self = arg;
    hr_pool *pool = self->pool;
    int32_t calm = 0;
    hr_crash_stack();
    for (;;) {
        const uint32_t seen = atomic_load(&pool->submitted.value);
        hr_job *job = take_job(pool);
        if (job != NULL) {
            while (run_one(pool, job, self->index)) {
            }
            release(pool, job);
            continue;
        }
        if (atomic_load(&pool->closing)) return NULL;
        calm = wait_for(pool, &pool->submitted, seen, &pool->idle_sleepers, calm);
    }
}

/* Called with the lock held. Signals are left to the threads of the caller's program, but for
 * those that a thread's own faults raise: blocked, they end the process unheard. */
static void start_threads(hr_pool *pool) {
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGFPE);
    sigdelset(&all, SIGILL);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool->started < pool->threads - 1) {
        worker *next = &pool->workers[pool->started];
        next->pool = pool;
        next->index = pool->started + 1;
        if (pthread_create(&next->thread, NULL, work, next) != 0) break;
        pool->started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static int usable_cpus(void) {
#ifdef __linux__
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online < 1 ? 1 : (int)online;
}

/* ---- public ---------------------------------------------------------------------- */

hr_pool *hr_pool_new(int threads) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_fork_handler);
    if (threads < 1) threads = 1;
    hr_pool *pool = calloc(1, sizeof *pool + (size_t)(threads - 1) * sizeof(worker));
    if (pool == NULL) return NULL;
    pool->threads = threads;
    set_idle(pool);
    atomic_init(&pool->spin_ns, threads > usable_cpus() ? 0 : SPIN_NS);
    atomic_init(&pool->patient_ns, 0);
    atomic_init(&pool->generation, atomic_load(&forks));
    return pool;
}

void hr_pool_stop(hr_pool *pool) {
    ensure_own_generation(pool);
    atomic_store(&pool->closing, 1);
    atomic_fetch_add(&pool->submitted.value, 1);
    hr__word_wake(&pool->submitted, INT32_MAX);
    for (int i = 0; i < pool->started; i++) pthread_join(pool->workers[i].thread, NULL);
    pool->started = 0;
    atomic_store(&pool->closing, 0);
}

void hr_pool_free(hr_pool *pool) {
    if (pool == NULL) return;
    hr_pool_stop(pool);
    hr__word_destroy(&pool->submitted);
    hr__word_destroy(&pool->finished);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

int hr_pool_threads(const hr_pool *pool) { return pool->threads; }

void hr_pool_set_spin(hr_pool *pool, int64_t nanoseconds) {
    atomic_store(&pool->spin_ns, nanoseconds);
}

int64_t hr_pool_spin(const hr_pool *pool) { return atomic_load(&pool->spin_ns); }

void hr_pool_be_patient(hr_pool *pool) {
    if (hr_pool_spin(pool) > 0) atomic_store(&pool->patient_ns, PATIENT_NS);
}

uint32_t hr_pool_generation(hr_pool *pool) {
    ensure_own_generation(pool);
    return atomic_load(&pool->generation);
}

/* `helpers`: threads that may be of use beside the caller. */
static void enqueue(hr_pool *pool, hr_job *job, int64_t helpers) {
    ensure_own_generation(pool);
    job->next_job = NULL;
    job->generation = atomic_load(&pool->generation);
    atomic_init(&job->all_taken, 0);
    atomic_init(&job->users, job->tasks > 0 ? 1 : 0);
    if (job->tasks <= 0) return;
    deal(job, pool->threads);
    pthread_mutex_lock(&pool->lock);
    if (pool->started < pool->threads - 1) start_threads(pool);
    if (pool->last == NULL) {
        pool->first = job;
    } else {
        pool->last->next_job = job;
    }
    pool->last = job;
    pthread_mutex_unlock(&pool->lock);
    atomic_fetch_add(&pool->submitted.value, 1);
    if (atomic_load(&pool->idle_sleepers) > 0) hr__word_wake(&pool->submitted, helpers);
}

void hr_pool_submit(hr_pool *pool, hr_job *job) { enqueue(pool, job, job->tasks); }

int hr_pool_done(hr_pool *pool, hr_job *job) {
    ensure_own_generation(pool);
    return job->generation != atomic_load(&pool->generation) || atomic_load(&job->users) == 0;
}

int hr_pool_help(hr_pool *pool, hr_job *job) {
    if (hr_pool_done(pool, job)) return 0;
    atomic_fetch_add(&job->users, 1);
    const bool ran = run_one(pool, job, 0);
    release(pool, job);
    return ran;
}

void hr_pool_wait(hr_pool *pool, hr_job *job) {
    if (hr_pool_done(pool, job)) return;
    atomic_fetch_add(&job->users, 1);
    while (run_one(pool, job, 0)) {
    }
    release(pool, job);
    while (!hr_pool_done(pool, job)) {
        const uint32_t seen = atomic_load(&pool->finished.value);
        if (hr_pool_done(pool, job)) return;
        const int32_t calm = atomic_load(&pool->done_calm);
        atomic_store(&pool->done_calm,
                     wait_for(pool, &pool->finished, seen, &pool->done_sleepers, calm));
    }
}

void hr_pool_run(hr_pool *pool, hr_task_fn fn, void *arg, int64_t tasks) {
    if (pool == NULL || pool->threads == 1 || tasks <= 1) {
        for (int64_t task = 0; task < tasks; task++) fn(arg, task, 0);
        return;
    }
    hr_job job;
    hr_job_set(&job, fn, arg, tasks);
    enqueue(pool, &job, tasks - 1);
    hr_pool_wait(pool, &job);
}
