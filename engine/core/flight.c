#define _GNU_SOURCE /* futex */
#include "flight.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "ring.h"
#include "waitword.h"

#define PATIENT_NS 200000 /* a wait does not start on longer tasks while others work */
#define SURE       8      /* so many groups in a row that seem slow are */
#define WARY_LEAST 4      /* groups reported chunk by chunk after one that took too long, */
#define WARY_MOST  256    /* ... and after many such */

/* Worlds submitted together: one job, whose tasks are chunks of them. */
typedef struct group {
    hr_job job;
    hr_async *owner;
    struct group *next;
    int64_t count, chunk; /* worlds */
    int64_t first;        /* of neighbours; -1: they are those of `ids` */
    int64_t left;         /* chunks that are not finished; guarded by the owner's lock */
    bool whole;           /* its worlds are reported together; likewise */
    int64_t since;        /* when it was submitted, ns */
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
    int64_t patience_ns;  /* groups that take less are reported whole, */
    int32_t wary;         /* ... but not the next so many; negative: so many were since then */
    int32_t caution;      /* how many that will be after the next one that takes too long */
    int32_t slow;         /* groups in a row that were expected to take longer */
    pthread_mutex_t lock; /* guards the fields down to `ring` */
    bool mixed;           /* chunks were reported apart: the ring may be out of order */
    uint8_t *held;        /* [worlds] 1: a chunk that begins with it waits for its group */
    int64_t wanted;       /* the waiter is to be told when so many worlds are in the ring */
    hr_ring ring;         /* finished worlds as they were reported */
    hr__word told;        /* changes when `wanted` is reached */
    _Atomic int32_t sleeper;
};

/* With the lock held: reports the worlds `from` to `to` of a group. */
static void push_worlds(hr_async *async, const group *part, int64_t from, int64_t to) {
    if (part->first >= 0) {
        hr_ring_push(&async->ring, (hr_run){part->first + from, to - from});
        return;
    }
    while (from < to) {
        const hr_run next = hr_first_run(part->ids + from, to - from);
        hr_ring_push(&async->ring, next);
        from += next.count;
    }
}

/* The world at a place of the group. */
static int64_t world_at(const group *part, int64_t place) {
    return part->first >= 0 ? part->first + place : part->ids[place];
}

/* Takes in that the worlds `from` to `to` of a group, a chunk, have been stepped: the last chunk of
 * a whole group reports them all, in the order in which they were submitted. */
static void finish_chunk(hr_async *async, group *part, int64_t from, int64_t to) {
    pthread_mutex_lock(&async->lock);
    part->left--;
    if (part->whole && part->left > 0) {
        async->held[world_at(part, from)] = 1;
    } else if (part->whole) {
        push_worlds(async, part, 0, part->count);
    } else {
        push_worlds(async, part, from, to);
        async->mixed |= to - from < part->count;
    }
    const bool tell = async->ring.ready >= async->wanted;
    if (tell) {
        async->wanted = INT64_MAX;
        atomic_fetch_add(&async->told.value, 1);
    }
    pthread_mutex_unlock(&async->lock);
    if (tell && atomic_load(&async->sleeper)) hr__word_wake(&async->told, 1);
}

static void step_task(void *arg, int64_t task, int worker) {
    (void)worker;
    group *part = arg;
    hr_async *async = part->owner;
    hr_vec *vec = async->vec;
    const int64_t from = task * part->chunk, to = hr_least(from + part->chunk, part->count);
    const int64_t start = hr__now_ns();
    if (part->first >= 0) {
        vec->step(vec, part->first + from, part->first + to);
    } else {
        for (int64_t place = from; place < to;) { /* neighbours together */
            const hr_run next = hr_first_run(part->ids + place, to - place);
            vec->step(vec, next.first, next.first + next.count);
            place += next.count;
        }
    }
    hr_pace_add(async->pace, hr__now_ns() - start, to - from);
    finish_chunk(async, part, from, to);
}

hr_async *hr_async_new(hr_vec *vec, hr_pool *pool, hr_pace *pace) {
    hr_async *async = calloc(1, sizeof *async);
    if (async == NULL) return NULL;
    async->away = calloc((size_t)vec->worlds, 1);
    async->held = calloc((size_t)vec->worlds, 1);
    if (!hr_ring_init(&async->ring, vec->worlds) || async->away == NULL || async->held == NULL) {
        free(async->ring.runs);
        free(async->away);
        free(async->held);
        free(async);
        return NULL;
    }
    async->vec = vec;
    async->pool = pool;
    async->pace = pace;
    async->generation = pool == NULL ? 0 : hr_pool_generation(pool);
    async->patience_ns = PATIENT_NS;
    async->caution = WARY_LEAST;
    async->wanted = INT64_MAX;
    pthread_mutex_init(&async->lock, NULL);
    hr__word_init(&async->told);
    return async;
}

void hr_async_set_patience(hr_async *async, int64_t nanoseconds) {
    async->patience_ns = nanoseconds;
    async->slow = nanoseconds > 0 ? 0 : SURE - 1;
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
    free(async->ring.runs);
    free(async->held);
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

/* Cuts a group into chunks. Whole groups are those that are expected to be brief, or whose cost is
 * not known yet. */
static void plan_group(hr_async *async, group *part) {
    const int threads = async->pool == NULL ? 1 : hr_pool_threads(async->pool);
    const int64_t n = part->count;
    part->chunk = async->pool == NULL ? n : hr_pace_chunk(async->pace, n, threads);
    part->left = n == 0 ? 0 : (n + part->chunk - 1) / part->chunk;
    const bool brief = hr_pace_ns(async->pace, n) / threads < async->patience_ns;
    async->slow = brief ? 0 : (int32_t)hr_least(async->slow + 1, SURE);
    if (async->slow == SURE) {
        async->wary = WARY_LEAST;
    } else if (async->wary > -WARY_MOST) {
        async->wary--;
    } else {
        async->caution = WARY_LEAST;
    }
    part->whole = async->wary <= 0;
    for (int64_t place = 0; part->whole && place < n; place += part->chunk)
        async->held[world_at(part, place)] = 0;
}

int64_t hr_async_submit(hr_async *async, int64_t first, const int64_t *ids, int64_t n) {
    if (is_forked(async) && !start_anew(async)) return HR_ASYNC_FORKED;
    if (first < 0 && are_neighbours(async, ids, n)) first = ids[0];
    group *part = new_group(async, first >= 0 ? 0 : n);
    if (part == NULL) return HR_ASYNC_NO_MEMORY;
    const int64_t wrong = send_away(async, first, ids, n);
    if (wrong >= 0 || n == 0) {
        part->next = async->spare;
        async->spare = part;
        return wrong;
    }
    if (first < 0) memcpy(part->ids, ids, (size_t)n * sizeof *ids);
    part->owner = async;
    part->next = NULL;
    part->count = n;
    part->first = first;
    part->since = hr__now_ns();
    plan_group(async, part);
    hr_job_set(&part->job, step_task, part, part->left);
    async->in_flight += n;
    if (async->pool == NULL) {
        step_task(part, 0, 0);
        part->next = async->spare;
        async->spare = part;
        return HR_ASYNC_OK;
    }
    group **link = &async->live;
    while (*link != NULL) link = &(*link)->next;
    *link = part;
    hr_pool_submit(async->pool, &part->job);
    return HR_ASYNC_OK;
}

/* What is finished of groups that were to be whole is reported, and the rest as it comes: of those
 * that were submitted before a time and are finished in part, though other groups go on, or of all,
 * where the waiter has been held up for too long. */
static void open_groups(hr_async *async, bool all, int64_t before) {
    pthread_mutex_lock(&async->lock);
    bool opened = all && async->mixed;
    for (group *at = async->live; at != NULL; at = at->next) {
        if (!at->whole || at->left == 0) continue;
        if (!all && (at->since > before || at->left == at->job.tasks)) continue;
        opened = true;
        at->whole = false;
        for (int64_t place = 0; place < at->count; place += at->chunk)
            if (async->held[world_at(at, place)])
                push_worlds(async, at, place, hr_least(place + at->chunk, at->count));
        async->mixed = true;
    }
    if (opened) {
        async->wary = async->caution;
        async->caution = (int32_t)hr_least(2 * async->caution, WARY_MOST);
    }
    pthread_mutex_unlock(&async->lock);
}

/* With the lock held and everything in flight finished: the ring by number, from the n worlds on
 * that the oldest belongs to, so that from now on neighbours come together. */
static void sort_ring(hr_async *async, int64_t n) {
    const int64_t worlds = async->vec->worlds, oldest = async->ring.runs[async->ring.head].first;
    const int64_t start = oldest - oldest % n;
    hr_ring_clear(&async->ring);
    for (int64_t i = 0; i < worlds; i++) {
        const int64_t world = start + i < worlds ? start + i : start + i - worlds;
        if (async->away[world]) hr_ring_push(&async->ring, (hr_run){world, 1});
    }
    async->mixed = false;
}

/* Whether n worlds are finished; else the waiter asks to be told. After chunks were reported apart
 * it waits once for everything in flight, to bring it in order, where that is brief. */
static bool are_finished(hr_async *async, int64_t n, uint32_t *seen) {
    pthread_mutex_lock(&async->lock);
    const bool sorts = async->mixed && async->wary <= 0;
    const int64_t wanted = sorts ? async->in_flight : n;
    const bool enough = async->ring.ready >= wanted;
    if (enough && sorts) sort_ring(async, n);
    async->wanted = enough ? INT64_MAX : wanted;
    *seen = atomic_load(&async->told.value);
    pthread_mutex_unlock(&async->lock);
    return enough;
}

int64_t hr_async_take(hr_async *async, int64_t *ids, int64_t n) {
    pthread_mutex_lock(&async->lock);
    const hr_run *oldest = &async->ring.runs[async->ring.head];
    const int64_t first = n > 0 && oldest->count >= n ? oldest->first : -1;
    const int64_t taken = first >= 0 || ids != NULL ? n : 0;
    for (int64_t got = 0; got < taken;) {
        const hr_run part = hr_ring_take(&async->ring, n - got);
        for (int64_t i = 0; first < 0 && i < part.count; i++) ids[got + i] = part.first + i;
        memset(async->away + part.first, 0, (size_t)part.count);
        got += part.count;
    }
    pthread_mutex_unlock(&async->lock);
    async->in_flight -= taken;
    return first;
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

int64_t hr_async_wait(hr_async *async, int64_t n, int64_t timeout_ns) {
    const int64_t start = hr__now_ns();
    const int64_t spin_ns = async->pool == NULL ? 0 : hr_pool_spin(async->pool);
    int64_t slice_ns = 2 * hr_least(async->patience_ns, timeout_ns / 2);
    const int64_t late_ns = 2 * hr_least(async->patience_ns, INT64_MAX / 4);
    if (!is_forked(async)) open_groups(async, false, start - late_ns);
    for (;;) {
        uint32_t seen;
        if (is_forked(async)) return HR_ASYNC_FORKED;
        if (are_finished(async, n, &seen)) return n;
        if (help(async, false)) continue;
        if (hr__word_spin(&async->told, seen, spin_ns)) continue;
        const int64_t left = start + slice_ns - hr__now_ns();
        if (left > 0) {
            atomic_store(&async->sleeper, 1);
            hr__word_wait(&async->told, seen, left);
            atomic_store(&async->sleeper, 0);
        } else if (slice_ns < timeout_ns) {
            open_groups(async, true, 0);
            slice_ns = timeout_ns;
        } else if (!help(async, true)) {
            return 0;
        }
    }
}

int64_t hr_async_in_flight(const hr_async *async) { return async->in_flight; }

int64_t hr_async_ready(hr_async *async) {
    if (is_forked(async)) return HR_ASYNC_FORKED;
    pthread_mutex_lock(&async->lock);
    const int64_t ready = async->ring.ready;
    pthread_mutex_unlock(&async->lock);
    return ready;
}
