#define _GNU_SOURCE /* clock_gettime */
#include "stepper.h"

#include <sched.h>
#include <stdbool.h>
#include <string.h>

#include "episodes.h"
#include "waitword.h"

#define SHARE_NS    15000 /* less work than this is not worth waking a thread for */
#define MAX_REGIONS 64

/* A part of the batch that one thread starts with, so that it finds the same worlds in its
 * cache at each step; who is done early takes from the others'. */
typedef struct region {
    _Atomic int64_t unchecked; /* first world whose actions nobody has checked */
    _Atomic int64_t next;      /* first world nobody has stepped */
    int64_t end;
    _Atomic int owned; /* 1: the thread that starts with it is there */
    char padding[36];  /* one region, one cache line */
} region;

_Static_assert(sizeof(region) == 64, "a cache line");

typedef struct share {
    hr_vec *vec;
    hr_pace *pace;
    hr_turn *turn;
    int64_t chunk; /* worlds */
    int regions_count;
    _Atomic int64_t waiting; /* worlds whose actions are still to be checked */
    _Atomic int wrong;       /* 1: an action is not allowed */
    _Alignas(64) region regions[MAX_REGIONS];
} share;

static bool counts(const hr_turn *turn) { return turn != NULL && turn->totals != NULL; }

/* Counts the episodes that ended in the worlds of [lo, hi), whole cells. */
static void count_cells(const hr_vec *vec, const hr_turn *turn, int64_t lo, int64_t hi) {
    for (int64_t end; lo < hi; lo = end) {
        end = hr_least(lo + HR_CELL, hi);
        double *cell = turn->cells + lo / HR_CELL * hr_totals_size(vec->env);
        hr_totals_clear(vec->env, cell);
        turn->level->count_episodes(vec, lo, end, cell);
    }
}

static void add_cells(const hr_vec *vec, hr_turn *turn) {
    const int64_t size = hr_totals_size(vec->env), cells = hr_cells_of(vec->worlds);
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

/* Copies the results of the worlds of [lo, hi). */
static void copy_worlds(const hr_turn *turn, int64_t lo, int64_t hi) {
    for (int k = 0; turn != NULL && k < turn->copies_count; k++) {
        const hr_copy *copy = &turn->copies[k];
        if (copy->size == 0) continue; /* it may lie nowhere */
        memcpy(copy->into + lo * copy->size, copy->from + lo * copy->size,
               (size_t)((hi - lo) * copy->size));
    }
}

/* Whether all cells are stepped whole, each by one thread. */
static bool steps_cells(const share *all) { return counts(all->turn) && all->chunk % HR_CELL == 0; }

/* The next chunk of a region; false when there is none. */
static bool next_chunk(const share *all, _Atomic int64_t *next, int64_t end, int64_t *lo,
                       int64_t *hi) {
    if (atomic_load_explicit(next, memory_order_relaxed) >= end) return false;
    *lo = atomic_fetch_add_explicit(next, all->chunk, memory_order_relaxed);
    *hi = hr_least(*lo + all->chunk, end);
    return *lo < end;
}

/* Checks the actions of one region's worlds until none is left. */
static void check_region(share *all, region *part) {
    const int64_t agents = all->vec->env->agents;
    int64_t lo, hi;
    while (next_chunk(all, &part->unchecked, part->end, &lo, &hi)) {
        const int64_t wrong = all->turn->level->check(all->turn->taking, lo * agents, hi * agents);
        if (wrong >= 0) atomic_store(&all->wrong, 1);
        atomic_fetch_sub(&all->waiting, hi - lo);
    }
}

/* Whether a thread that is done with its own region leaves the rest of another to its owner: the
 * last chunk, while brief worlds would only be sent from one cache to the other and back. */
static bool leaves(const share *all, region *part) {
    if (all->chunk < HR_BLOCK || !atomic_load(&part->owned)) return false;
    return part->end - atomic_load(&part->next) <= all->chunk;
}

/* Writes the actions of the worlds of [lo, hi), which were allowed when they were checked. Where
 * somebody has changed them since, these worlds get action 0, which every environment has. */
static void write_actions(const share *all, int64_t lo, int64_t hi) {
    const hr_taking *taking = all->turn->taking;
    const int64_t agents = all->vec->env->agents;
    if (take_worlds(all->vec, all->turn, lo, hi) < 0) return;
    memset((char *)taking->slots + lo * agents * taking->stride, 0,
           (size_t)((hi - lo) * agents * taking->stride));
}

/* Steps worlds of one region, once their actions are written, until none is left; returns how
 * many. */
static int64_t step_region(share *all, region *part, bool own) {
    int64_t worlds = 0, lo, hi;
    if (own) atomic_store(&part->owned, 1);
    while ((own || !leaves(all, part)) && next_chunk(all, &part->next, part->end, &lo, &hi)) {
        if (all->turn && all->turn->taking) write_actions(all, lo, hi);
        all->vec->step(all->vec, lo, hi);
        copy_worlds(all->turn, lo, hi);
        if (steps_cells(all)) count_cells(all->vec, all->turn, lo, hi);
        worlds += hi - lo;
    }
    return worlds;
}

/* Checks actions, waits until all are (others may be about to find a wrong one), steps. */
static void step_share(void *arg, int64_t task, int worker) {
    (void)task;
    share *all = arg;
    for (int i = 0; i < all->regions_count && atomic_load(&all->waiting) > 0; i++)
        check_region(all, &all->regions[(worker + i) % all->regions_count]);
    for (int turns = 1; atomic_load(&all->waiting) > 0; turns++) {
        hr__pause();
        if (turns % 64 == 0) sched_yield();
    }
    if (atomic_load(&all->wrong)) return;
    const int64_t start = worker == 0 ? hr__now_ns() : 0;
    int64_t worlds = 0;
    for (int i = 0; i < all->regions_count; i++)
        worlds += step_region(all, &all->regions[(worker + i) % all->regions_count], i == 0);
    if (worker == 0) hr_pace_add(all->pace, hr__now_ns() - start, worlds);
}

/* Steps the worlds from `first` on; false when an action is not allowed and nothing was done. */
static bool step_shared(hr_vec *vec, hr_pool *pool, hr_pace *pace, hr_turn *turn, int64_t first) {
    const int64_t worlds = vec->worlds - first;
    const int threads = hr_pool_threads(pool);
    share all = {
        .vec = vec, .pace = pace, .turn = turn, .chunk = hr_pace_chunk(pace, worlds, threads)};
    if (all.chunk > HR_CELL) all.chunk -= all.chunk % HR_CELL;
    all.regions_count = (int)hr_least(threads, MAX_REGIONS);
    atomic_init(&all.waiting, turn && turn->taking ? worlds : 0);
    atomic_init(&all.wrong, 0);
    const int64_t grain = all.chunk < HR_BLOCK ? 1 : hr_least(all.chunk, HR_CELL);
    int64_t lo = first;
    for (int i = 0; i < all.regions_count; i++) {
        const int64_t cut = first + worlds * (i + 1) / all.regions_count;
        const int64_t hi = i + 1 == all.regions_count ? vec->worlds : cut - cut % grain;
        atomic_init(&all.regions[i].unchecked, lo);
        atomic_init(&all.regions[i].owned, 0);
        atomic_init(&all.regions[i].next, lo);
        all.regions[i].end = hi > lo ? hi : lo;
        lo = all.regions[i].end;
    }
    const int64_t chunks = (worlds + all.chunk - 1) / all.chunk;
    hr_pool_run(pool, step_share, &all, hr_least(threads, chunks));
    if (atomic_load(&all.wrong)) return false;
    if (counts(turn) && !steps_cells(&all)) count_cells(vec, turn, 0, vec->worlds);
    return true;
}

/* The same in the calling thread alone. */
static bool step_alone(hr_vec *vec, hr_pace *pace, hr_turn *turn, int64_t first) {
    if (turn && turn->taking && take_worlds(vec, turn, 0, vec->worlds) >= 0) return false;
    const int64_t start = hr__now_ns();
    vec->step(vec, first, vec->worlds);
    hr_pace_add(pace, hr__now_ns() - start, vec->worlds - first);
    copy_worlds(turn, first, vec->worlds);
    if (counts(turn)) count_cells(vec, turn, 0, vec->worlds);
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
    hr_pace_add(pace, hr__now_ns() - start, 1);
    step_all(vec, pool, pace, NULL, 1);
    copy_worlds(turn, 0, vec->worlds);
    if (counts(turn)) count_cells(vec, turn, 0, vec->worlds);
    return true;
}

void hr_step_all(hr_vec *vec, hr_pool *pool, hr_pace *pace, hr_turn *turn) {
    const bool measured = hr_pace_ns(pace, 1000000) > 0;
    const bool stepped =
        measured ? step_all(vec, pool, pace, turn, 0) : step_first(vec, pool, pace, turn);
    if (turn == NULL) return;
    turn->wrong = -1;
    if (!stepped) { /* the first of them; 0 where it has been changed since */
        const int64_t wrong = turn->level->check(turn->taking, 0, vec->rows);
        turn->wrong = wrong < 0 ? 0 : wrong;
    }
    turn->ended = 0;
    if (stepped && counts(turn)) add_cells(vec, turn);
}
