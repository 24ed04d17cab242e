#define _GNU_SOURCE /* futex */
#include "flight.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "waitword.h"

#define PATIENT_NS 200000 /* a wait does not start on longer tasks while others work */

/* Neighbours: worlds [first, first + count). */
typedef struct run {
    int64_t first, count;
} run;

/* Worlds submitted together: one job, whose tasks are chunks of them. */
typedef struct group {
    hr_job job;
    hr_async *owner;
    struct group *next;
    int64_t count, chunk; /* worlds */
    int64_t first;        /* of neighbours; -1: they are those of `ids` */
    int64_t capacity;     /* of `ids` */
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
    int64_t head;         /* oldest run's place in the ring */
    int64_t runs;         /* in the ring */
    int64_t ready;        /* finished worlds in the ring */
    int64_t wanted;       /* the waiter is to be told when so many are */
    run *ring;            /* [worlds] finished worlds in order of completion */
    hr__word told;        /* changes when `wanted` is reached */
    _Atomic int32_t sleeper;
};

/* With the lock held: adds a run to the ring, or to the run before it. */
static void push_run(hr_async *async, run part) {
    const int64_t size = async->vec->worlds;
    if (async->runs > 0) {
        run *last = &async->ring[(async->head + async->runs - 1) % size];
        if (last->first + last->count == part.first) {
            last->count += part.count;
            return;
        }
    }
    async->ring[(async->head + async->runs++) % size] = part;
}

/* The longest run of neighbours that ids [n], n > 0, begin with. */
static run first_run(const int64_t *ids, int64_t n) {
    run part = {ids[0], 1};
    while (part.count < n && ids[part.count] == part.first + part.count) part.count++;
    return part;
}

/* Reports ids[0 .. n), or the n neighbours from `first` on where that is not negative. */
static void push_finished(hr_async *async, int64_t first, const int64_t *ids, int64_t n) {
    pthread_mutex_lock(&async->lock);
    if (first >= 0) {
        push_run(async, (run){first, n});
    } else {
        for (int64_t i = 0; i < n;) {
            const run part = first_run(ids + i, n - i);
            push_run(async, part);
            i += part.count;
        }
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

/* Steps the same worlds, neighbours together, and reports them. */
static void step_worlds(hr_async *async, int64_t first, const int64_t *ids, int64_t n) {
    const int64_t start = hr__now_ns();
    if (first >= 0) {
        async->vec->step(async->vec, first, first + n);
    } else {
        for (int64_t i = 0; i < n;) {
            const run part = first_run(ids + i, n - i);
            async->vec->step(async->vec, part.first, part.first + part.count);
            i += part.count;
        }
    }
    hr_pace_add(async->pace, hr__now_ns() - start, n);
    push_finished(async, first, ids, n);
}

static void step_task(void *arg, int64_t task, int worker) {
    (void)worker;
    const group *part = arg;
    const int64_t lo = task * part->chunk, n = hr_least(part->chunk, part->count - lo);
    if (part->first >= 0) {
        step_worlds(part->owner, part->first + lo, NULL, n);
    } else {
        step_worlds(part->owner, -1, part->ids + lo, n);
    }
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

/* Whether ids [n] are neighbours, in order, that exist. No early exit, so that it vectorises. */
static bool are_neighbours(const hr_async *async, const int64_t *ids, int64_t n) {
    if (n == 0 || ids[0] < 0 || ids[0] > async->vec->worlds - n) return false;
    int64_t differs = 0;
    for (int64_t i = 0; i < n; i++) differs |= ids[i] ^ (ids[0] + i);
    return differs == 0;
}

/* Marks the worlds as in flight; the index of the first that cannot be, or -1. */
static int64_t send_away(hr_async *async, int64_t first, const int64_t *ids, int64_t n) {
    if (first >= 0) {
        uint8_t *away = async->away + first;
        const uint8_t *flying = memchr(away, 1, (size_t)n);
        if (flying != NULL) return flying - away;
        memset(away, 1, (size_t)n);
        return -1;
    }
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
    const int64_t first = are_neighbours(async, ids, n) ? ids[0] : -1;
    group *part = NULL;
    if (async->pool != NULL) {
        part = new_group(async, first >= 0 ? 0 : n);
        if (part == NULL) return HR_ASYNC_NO_MEMORY;
    }
    const int64_t wrong = send_away(async, first, ids, n);
    if (wrong >= 0) {
        if (part != NULL) {
            part->next = async->spare;
            async->spare = part;
        }
        return wrong;
    }
    async->in_flight += n;
    if (part == NULL) {
        if (n > 0) step_worlds(async, first, ids, n);
        return HR_ASYNC_OK;
    }
    if (first < 0) memcpy(part->ids, ids, (size_t)n * sizeof *ids);
    part->owner = async;
    part->next = NULL;
    part->count = n;
    part->first = first;
    part->chunk = n > 0 ? hr_pace_chunk(async->pace, n, hr_pool_threads(async->pool)) : 1;
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
    for (int64_t got = 0; enough && got < n;) {
        run *oldest = &async->ring[async->head];
        const run part = {oldest->first, hr_least(oldest->count, n - got)};
        for (int64_t i = 0; i < part.count; i++) ids[got + i] = part.first + i;
        memset(async->away + part.first, 0, (size_t)part.count);
        got += part.count;
        oldest->first += part.count;
        oldest->count -= part.count;
        if (oldest->count > 0) break;
        async->runs--;
        if (++async->head == async->vec->worlds) async->head = 0;
    }
    if (enough) async->ready -= n;
    async->wanted = enough ? INT64_MAX : n;
    *seen = atomic_load(&async->told.value);
    pthread_mutex_unlock(&async->lock);
    if (!enough) return 0;
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
