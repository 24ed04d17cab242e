#define _GNU_SOURCE /* futex */
#include "stepper.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "episodes.h"
#include "waitword.h"

#define SHARE_NS    15000 /* less work than this is not worth waking a thread for */
#define TASK_MIN_NS 5000  /* a task costs some 50 ns to take */
#define TASK_MAX_NS 50000
#define PATIENT_NS  200000  /* a wait does not start on longer tasks while others work */
#define ASSUMED_PS  1000000 /* a world's step before any was measured: 1 us */
#define MAX_REGIONS 64

/* ---- pace ------------------------------------------------------------------------- */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t clamp(int64_t value, int64_t low, int64_t high) {
    return value < low ? low : least(value, high);
}

int64_t hr_pace_ns(const hr_pace *pace, int64_t worlds) {
    const int64_t ps = atomic_load_explicit(&pace->world_ps, memory_order_relaxed);
    return (int64_t)((double)ps * (double)worlds / 1000.0);
}

/* Down at once, up slowly: interruptions only ever make a step look dearer. */
static void pace_add(hr_pace *pace, int64_t ns, int64_t worlds) {
    if (worlds == 0) return;
    const int64_t before = atomic_load_explicit(&pace->world_ps, memory_order_relaxed);
    const int64_t ps = clamp(ns * 1000 / worlds, 1, INT64_MAX);
    const int64_t now = before == 0 || ps < before ? ps : before + (ps - before) / 8;
    atomic_store_explicit(&pace->world_ps, now, memory_order_relaxed);
}

/* Worlds in one task when `worlds` are shared by `threads`: blocks, unless worlds are slow. */
static int64_t chunk_of(const hr_pace *pace, int64_t worlds, int threads) {
    const int64_t measured = atomic_load_explicit(&pace->world_ps, memory_order_relaxed);
    const int64_t ps = measured > 0 ? measured : ASSUMED_PS;
    const int64_t task_ns =
        clamp((int64_t)((double)ps * (double)worlds / 8000.0) / threads, TASK_MIN_NS, TASK_MAX_NS);
    const int64_t chunk = clamp(task_ns * 1000 / ps, 1, worlds);
    return chunk < HR_BLOCK ? chunk : chunk - chunk % HR_BLOCK;
}

/* ---- all worlds ------------------------------------------------------------------- */

/* A part of the batch that one thread starts with, so that it finds the same worlds in its
 * cache at each step; who is done early takes from the others'. */
typedef struct region {
    _Atomic int64_t untaken; /* first world whose actions nobody has taken */
    _Atomic int64_t next;    /* first world nobody has stepped */
    int64_t end;
    char padding[40]; /* one region, one cache line */
} region;

typedef struct share {
    hr_vec *vec;
    hr_pace *pace;
    hr_turn *turn;
    int64_t chunk; /* worlds */
    int regions_count;
    _Atomic int64_t waiting; /* worlds whose actions are still to be written */
    _Atomic int wrong;       /* 1: an action is not allowed */
    _Alignas(64) region regions[MAX_REGIONS];
} share;

/* Counts the episodes that ended in the worlds of [lo, hi), whole cells. */
static void count_cells(const hr_vec *vec, const hr_turn *turn, int64_t lo, int64_t hi) {
    for (int64_t end; lo < hi; lo = end) {
        end = least(lo + HR_CELL, hi);
        double *cell = turn->cells + lo / HR_CELL * hr_totals_size(vec->env);
        hr_totals_clear(vec->env, cell);
        turn->level->count_episodes(vec, lo, end, cell);
    }
}

static void add_cells(const hr_vec *vec, hr_turn *turn) {
    const int64_t size = hr_totals_size(vec->env), cells = hr_cells_of(vec->worlds);
    turn->ended = 0;
    for (const double *cell = turn->cells; cell < turn->cells + cells * size; cell += size) {
        turn->ended += (int64_t)cell[HR_EPISODES];
        if (cell[HR_EPISODES] + cell[HR_METRIC_EPISODES] > 0.0)
            hr_totals_add(vec->env, turn->totals, cell);
    }
}

/* Takes the actions of the worlds of [lo, hi); -1, or the index of one that is not allowed. */
static int64_t take_worlds(const hr_vec *vec, const hr_turn *turn, int64_t lo, int64_t hi) {
    return turn->level->take(turn->taking, lo * vec->env->agents, hi * vec->env->agents);
}

/* Whether all cells are stepped whole, each by one thread. */
static bool steps_cells(const share *all) { return all->turn && all->chunk % HR_CELL == 0; }

/* The next chunk of a region; false when there is none. */
static bool next_chunk(const share *all, _Atomic int64_t *next, int64_t end, int64_t *lo,
                       int64_t *hi) {
    if (atomic_load_explicit(next, memory_order_relaxed) >= end) return false;
    *lo = atomic_fetch_add_explicit(next, all->chunk, memory_order_relaxed);
    *hi = least(*lo + all->chunk, end);
    return *lo < end;
}

/* Writes the actions of one region's worlds until none is left. */
static void take_region(share *all, region *part) {
    int64_t lo, hi;
    while (next_chunk(all, &part->untaken, part->end, &lo, &hi)) {
        if (take_worlds(all->vec, all->turn, lo, hi) >= 0) atomic_store(&all->wrong, 1);
        atomic_fetch_sub(&all->waiting, hi - lo);
    }
}

/* Steps worlds of one region until none is left; returns how many. */
static int64_t step_region(share *all, region *part) {
    int64_t worlds = 0, lo, hi;
    while (next_chunk(all, &part->next, part->end, &lo, &hi)) {
        all->vec->step(all->vec, lo, hi);
        if (steps_cells(all)) count_cells(all->vec, all->turn, lo, hi);
        worlds += hi - lo;
    }
    return worlds;
}

/* Takes actions, waits until all are there (others may be about to write theirs), steps. */
static void step_share(void *arg, int64_t task, int worker) {
    (void)task;
    share *all = arg;
    for (int i = 0; i < all->regions_count && atomic_load(&all->waiting) > 0; i++)
        take_region(all, &all->regions[(worker + i) % all->regions_count]);
    for (int turns = 1; atomic_load(&all->waiting) > 0; turns++) {
        hr__pause();
        if (turns % 64 == 0) sched_yield();
    }
    if (atomic_load(&all->wrong)) return;
    const int64_t start = worker == 0 ? hr__now_ns() : 0;
    int64_t worlds = 0;
    for (int i = 0; i < all->regions_count; i++)
        worlds += step_region(all, &all->regions[(worker + i) % all->regions_count]);
    if (worker == 0) pace_add(all->pace, hr__now_ns() - start, worlds);
}

/* Steps the worlds from `first` on; false when an action is not allowed and nothing was done. */
static bool step_shared(hr_vec *vec, hr_pool *pool, hr_pace *pace, hr_turn *turn, int64_t first) {
    const int64_t worlds = vec->worlds - first;
    const int threads = hr_pool_threads(pool);
    share all = {.vec = vec, .pace = pace, .turn = turn, .chunk = chunk_of(pace, worlds, threads)};
    if (all.chunk > HR_CELL) all.chunk -= all.chunk % HR_CELL;
    all.regions_count = (int)least(threads, MAX_REGIONS);
    atomic_init(&all.waiting, turn && turn->taking ? worlds : 0);
    atomic_init(&all.wrong, 0);
    const int64_t grain = all.chunk < HR_BLOCK ? 1 : least(all.chunk, HR_CELL);
    int64_t lo = first;
    for (int i = 0; i < all.regions_count; i++) {
        const int64_t cut = first + worlds * (i + 1) / all.regions_count;
        const int64_t hi = i + 1 == all.regions_count ? vec->worlds : cut - cut % grain;
        atomic_init(&all.regions[i].untaken, lo);
        atomic_init(&all.regions[i].next, lo);
        all.regions[i].end = hi > lo ? hi : lo;
        lo = all.regions[i].end;
    }
    const int64_t chunks = (worlds + all.chunk - 1) / all.chunk;
    hr_pool_run(pool, step_share, &all, least(threads, chunks));
    if (atomic_load(&all.wrong)) return false;
    if (turn && !steps_cells(&all)) count_cells(vec, turn, 0, vec->worlds);
    return true;
}

/* The same in the calling thread alone. */
static bool step_alone(hr_vec *vec, hr_pace *pace, hr_turn *turn, int64_t first) {
    if (turn && turn->taking && take_worlds(vec, turn, 0, vec->worlds) >= 0) return false;
    const int64_t start = hr__now_ns();
    vec->step(vec, first, vec->worlds);
    pace_add(pace, hr__now_ns() - start, vec->worlds - first);
    if (turn) count_cells(vec, turn, 0, vec->worlds);
    return true;
}

static bool step_all(hr_vec *vec, hr_pool *pool, hr_pace *pace, hr_turn *turn, int64_t first) {
    const bool shared = pool != NULL && hr_pool_threads(pool) > 1 && vec->worlds - first > 1 &&
                        hr_pace_ns(pace, vec->worlds) >= SHARE_NS;
    return shared ? step_shared(vec, pool, pace, turn, first) : step_alone(vec, pace, turn, first);
}

/* The first step ever, which measures one world. */
static bool step_first(hr_vec *vec, hr_pool *pool, hr_pace *pace, hr_turn *turn) {
    if (turn && turn->taking && take_worlds(vec, turn, 0, vec->worlds) >= 0) return false;
    const int64_t start = hr__now_ns();
    vec->step(vec, 0, 1);
    pace_add(pace, hr__now_ns() - start, 1);
    step_all(vec, pool, pace, NULL, 1);
    if (turn) count_cells(vec, turn, 0, vec->worlds);
    return true;
}

void hr_step_all(hr_vec *vec, hr_pool *pool, hr_pace *pace, hr_turn *turn) {
    const bool measured = hr_pace_ns(pace, 1000000) > 0;
    const bool stepped =
        measured ? step_all(vec, pool, pace, turn, 0) : step_first(vec, pool, pace, turn);
    if (turn == NULL) return;
    turn->wrong = stepped ? -1 : take_worlds(vec, turn, 0, vec->worlds); /* the first of them */
    if (stepped) add_cells(vec, turn);
}

/* ---- worlds in flight ------------------------------------------------------------- */

/* Worlds submitted together: one job, whose tasks are chunks of `ids`. */
typedef struct group {
    hr_job job;
    hr_async *owner;
    struct group *next;
    int64_t capacity, count, chunk; /* ids */
    int64_t ids[];
} group;

struct hr_async {
    hr_vec *vec;
    hr_pool *pool;
    hr_pace *pace;
    uint32_t generation;  /* of the pool */
    group *live;          /* submitted, oldest first */
    group *spare;         /* to be used again */
    uint8_t *away;        /* [worlds] 1: in flight */
    int64_t in_flight;    /* worlds submitted and not taken */
    pthread_mutex_t lock; /* guards the fields down to `ring` */
    int64_t head;         /* oldest finished world's place in the ring */
    int64_t ready;        /* finished worlds in the ring */
    int64_t wanted;       /* the waiter is to be told when so many are */
    int64_t *ring;        /* [worlds] finished worlds in order of completion */
    hr__word told;        /* changes when `wanted` is reached */
    _Atomic int32_t sleeper;
};

static void push_finished(hr_async *async, const int64_t *ids, int64_t n) {
    pthread_mutex_lock(&async->lock);
    int64_t at = (async->head + async->ready) % async->vec->worlds;
    for (int64_t i = 0; i < n; i++) {
        async->ring[at] = ids[i];
        if (++at == async->vec->worlds) at = 0;
    }
    async->ready += n;
    const bool tell = async->ready >= async->wanted;
    if (tell) {
        async->wanted = INT64_MAX;
        atomic_fetch_add(&async->told.value, 1);
    }
    pthread_mutex_unlock(&async->lock);
    if (tell && atomic_load(&async->sleeper)) hr__word_wake(&async->told, 1);
}

/* Steps ids[0 .. n), neighbours together, and reports them. */
static void step_ids(hr_async *async, const int64_t *ids, int64_t n) {
    const int64_t start = hr__now_ns();
    for (int64_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && ids[end] == ids[end - 1] + 1; end++) {
        }
        async->vec->step(async->vec, ids[i], ids[end - 1] + 1);
    }
    pace_add(async->pace, hr__now_ns() - start, n);
    push_finished(async, ids, n);
}

static void step_task(void *arg, int64_t task, int worker) {
    (void)worker;
    const group *part = arg;
    const int64_t lo = task * part->chunk;
    step_ids(part->owner, part->ids + lo, least(part->chunk, part->count - lo));
}

hr_async *hr_async_new(hr_vec *vec, hr_pool *pool, hr_pace *pace) {
    hr_async *async = calloc(1, sizeof *async);
    if (async == NULL) return NULL;
    async->away = calloc((size_t)vec->worlds, 1);
    async->ring = calloc((size_t)vec->worlds, sizeof *async->ring);
    if (async->away == NULL || async->ring == NULL) {
        free(async->away);
        free(async->ring);
        free(async);
        return NULL;
    }
    async->vec = vec;
    async->pool = pool;
    async->pace = pace;
    async->generation = pool == NULL ? 0 : hr_pool_generation(pool);
    async->wanted = INT64_MAX;
    pthread_mutex_init(&async->lock, NULL);
    hr__word_init(&async->told);
    return async;
}

static void free_groups(group *first) {
    for (group *next; first != NULL; first = next) {
        next = first->next;
        free(first);
    }
}

void hr_async_free(hr_async *async) {
    if (async == NULL) return;
    for (group *at = async->live; at != NULL; at = at->next) hr_pool_wait(async->pool, &at->job);
    free_groups(async->live);
    free_groups(async->spare);
    hr__word_destroy(&async->told);
    pthread_mutex_destroy(&async->lock);
    free(async->ring);
    free(async->away);
    free(async);
}

/* Puts groups whose worlds have all finished aside. */
static void collect_groups(hr_async *async) {
    group **link = &async->live;
    while (*link != NULL) {
        group *at = *link;
        if (hr_pool_done(async->pool, &at->job)) {
            *link = at->next;
            at->next = async->spare;
            async->spare = at;
        } else {
            link = &at->next;
        }
    }
}

/* A group with room for n ids; NULL when memory cannot be had. */
static group *new_group(hr_async *async, int64_t n) {
    collect_groups(async);
    for (group **link = &async->spare; *link != NULL; link = &(*link)->next) {
        group *at = *link;
        if (at->capacity >= n) {
            *link = at->next;
            return at;
        }
    }
    group *fresh = calloc(1, sizeof *fresh + (size_t)n * sizeof(int64_t));
    if (fresh != NULL) fresh->capacity = n;
    return fresh;
}

static bool is_forked(const hr_async *async) {
    return async->pool != NULL && hr_pool_generation(async->pool) != async->generation;
}

/* Marks the worlds as in flight; the index of the first that cannot be, or -1. */
static int64_t send_away(hr_async *async, const int64_t *ids, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (ids[i] >= 0 && ids[i] < async->vec->worlds && !async->away[ids[i]]) {
            async->away[ids[i]] = 1;
            continue;
        }
        for (int64_t k = 0; k < i; k++) async->away[ids[k]] = 0;
        return i;
    }
    return -1;
}

/* In a forked child: goes on from nothing, where nothing was in flight at the fork. */
static bool start_anew(hr_async *async) {
    if (async->in_flight > 0) return false;
    free_groups(async->live); /* done, whether their threads could still say so or not */
    async->live = NULL;
    async->generation = hr_pool_generation(async->pool);
    async->wanted = INT64_MAX;
    atomic_store(&async->sleeper, 0);
    pthread_mutex_init(&async->lock, NULL);
    hr__word_init(&async->told);
    return true;
}

int64_t hr_async_submit(hr_async *async, const int64_t *ids, int64_t n) {
    if (is_forked(async) && !start_anew(async)) return HR_ASYNC_FORKED;
    group *part = NULL;
    if (async->pool != NULL) {
        part = new_group(async, n);
        if (part == NULL) return HR_ASYNC_NO_MEMORY;
    }
    const int64_t wrong = send_away(async, ids, n);
    if (wrong >= 0) {
        if (part != NULL) {
            part->next = async->spare;
            async->spare = part;
        }
        return wrong;
    }
    async->in_flight += n;
    if (part == NULL) {
        if (n > 0) step_ids(async, ids, n);
        return HR_ASYNC_OK;
    }
    memcpy(part->ids, ids, (size_t)n * sizeof *ids);
    part->owner = async;
    part->next = NULL;
    part->count = n;
    part->chunk = n > 0 ? chunk_of(async->pace, n, hr_pool_threads(async->pool)) : 1;
    part->job.fn = step_task;
    part->job.arg = part;
    part->job.tasks = (n + part->chunk - 1) / part->chunk;
    group **link = &async->live;
    while (*link != NULL) link = &(*link)->next;
    *link = part;
    hr_pool_submit(async->pool, &part->job);
    return HR_ASYNC_OK;
}

/* Takes n worlds off the ring when they are there; else asks to be told and returns 0. */
static int64_t take_finished(hr_async *async, int64_t *ids, int64_t n, uint32_t *seen) {
    pthread_mutex_lock(&async->lock);
    const bool enough = async->ready >= n;
    if (enough) {
        for (int64_t i = 0; i < n; i++) {
            ids[i] = async->ring[async->head];
            if (++async->head == async->vec->worlds) async->head = 0;
        }
        async->ready -= n;
    }
    async->wanted = enough ? INT64_MAX : n;
    *seen = atomic_load(&async->told.value);
    pthread_mutex_unlock(&async->lock);
    if (!enough) return 0;
    for (int64_t i = 0; i < n; i++) async->away[ids[i]] = 0;
    async->in_flight -= n;
    return n;
}

/* Runs one task of the oldest group that has one to take. A long one is left to the other
 * threads, unless they have not delivered for a while (`anything`): it would hold up worlds
 * that are ready sooner. */
static bool help(hr_async *async, bool anything) {
    if (async->pool == NULL) return false;
    const bool alone = hr_pool_threads(async->pool) == 1;
    for (group *at = async->live; at != NULL; at = at->next) {
        const int64_t ns = hr_pace_ns(async->pace, at->chunk); /* 0: not measured, may be long */
        const bool brief = 0 < ns && ns < PATIENT_NS;
        if ((brief || alone || anything) && hr_pool_help(async->pool, &at->job)) return true;
    }
    return false;
}

int64_t hr_async_wait(hr_async *async, int64_t *ids, int64_t n, int64_t timeout_ns) {
    const int64_t until = hr__now_ns() + timeout_ns;
    const int64_t spin_ns = async->pool == NULL ? 0 : hr_pool_spin(async->pool);
    for (;;) {
        uint32_t seen;
        if (is_forked(async)) return HR_ASYNC_FORKED;
        if (take_finished(async, ids, n, &seen) == n) return n;
        if (help(async, false)) continue;
        if (hr__word_spin(&async->told, seen, spin_ns)) continue;
        const int64_t left = until - hr__now_ns();
        if (left <= 0) {
            if (help(async, true)) continue;
            return 0;
        }
        atomic_store(&async->sleeper, 1);
        hr__word_wait(&async->told, seen, left);
        atomic_store(&async->sleeper, 0);
    }
}

int64_t hr_async_in_flight(const hr_async *async) { return async->in_flight; }

int64_t hr_async_ready(hr_async *async) {
    if (is_forked(async)) return HR_ASYNC_FORKED;
    pthread_mutex_lock(&async->lock);
    const int64_t ready = async->ready;
    pthread_mutex_unlock(&async->lock);
    return ready;
}
