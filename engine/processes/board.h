/* How a batch hands worlds to worker processes and gets them back: rings in shared memory.
 *
 * The front (one process) posts numbers of worlds on the desks (one per worker process); the
 * worker takes them one after the other, steps them, and lays them on its pile of finished
 * ones, from which the front collects. Every ring has one writer and one reader, so a process
 * that is killed at any point leaves them usable. Whoever finds nothing sleeps on a bell.
 *
 * A world is posted at most once before it is collected, so a ring of as many places as the
 * worker has worlds never runs over.
 */
#ifndef HEADRACE_BOARD_H
#define HEADRACE_BOARD_H

#define HR_SHARED_WORDS
#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "waitword.h"

#define HR__LINE 64 /* bytes of a cache line */

typedef struct hr_finished {
    int64_t world;
    uint64_t ticket; /* position in the order in which all workers' worlds were finished */
} hr_finished;

typedef struct hr_bell {
    alignas(HR__LINE) hr__word rung; /* changes when a sleeper is woken */
    _Atomic uint32_t sleeping;       /* 1 when somebody sleeps on it or is about to */
} hr_bell;

typedef struct hr_front {
    hr_bell bell;
    alignas(HR__LINE) _Atomic uint64_t tickets; /* given out so far */
    _Atomic uint64_t finished;                  /* worlds finished so far, by all workers */
    _Atomic uint64_t wanted;                    /* the front is to be woken at this count */
    _Atomic int64_t spin_ns;                    /* workers look out for so long before they sleep */
} hr_front;

typedef struct hr_desk {
    hr_bell bell;
    alignas(HR__LINE) _Atomic uint64_t posted; /* by the front: worlds given to the worker */
    _Atomic uint32_t letters_in;               /* messages sent to the worker by other means */
    int64_t capacity;                          /* places of either ring */
    alignas(HR__LINE) _Atomic uint64_t taken;  /* by the worker: worlds that it began to step */
    _Atomic uint64_t finished;                 /* worlds on its pile since the start */
    _Atomic uint32_t letters_out;              /* messages that it has sent or is about to send */
    _Atomic uint64_t begun;                    /* worlds that it began to step or reset */
    _Atomic int64_t current;                   /* the one that it steps or resets now, or -1 */
} hr_desk;

static inline size_t hr_round_line(size_t bytes) {
    return (bytes + HR__LINE - 1) / HR__LINE * HR__LINE;
}

/* Bytes of a desk with its rings. */
static inline size_t hr_desk_bytes(int64_t capacity) {
    return hr_round_line(sizeof(hr_desk) + (size_t)capacity * sizeof(int64_t)) +
           hr_round_line((size_t)capacity * sizeof(hr_finished));
}

static inline int64_t *hr_desk_todo(hr_desk *desk) { return (int64_t *)(desk + 1); }

static inline hr_finished *hr_desk_pile(hr_desk *desk) {
    const size_t todo = hr_round_line(sizeof(hr_desk) + (size_t)desk->capacity * sizeof(int64_t));
    return (hr_finished *)((char *)desk + todo);
}

static inline void hr_bell_init(hr_bell *bell) {
    hr__word_init(&bell->rung);
    atomic_init(&bell->sleeping, 0);
}

/* Wakes the sleeper, if there is one. What it is to find must have been written before, with
 * the default memory order: either this sees it sleeping, or it sees what was written. */
static inline void hr_bell_ring(hr_bell *bell) {
    if (atomic_load(&bell->sleeping) && atomic_exchange(&bell->sleeping, 0)) {
        atomic_fetch_add(&bell->rung.value, 1);
        hr__word_wake(&bell->rung, 1);
    }
}

static inline void hr_front_init(hr_front *front) {
    memset(front, 0, sizeof *front);
    hr_bell_init(&front->bell);
}

/* An empty desk; nobody may be using it. */
static inline void hr_desk_init(hr_desk *desk, int64_t capacity) {
    memset(desk, 0, sizeof *desk);
    hr_bell_init(&desk->bell);
    desk->capacity = capacity;
    atomic_init(&desk->current, -1);
}

/* ---- the front ------------------------------------------------------------------------- */

/* Puts a world on the desk; hr_bell_ring afterwards. */
static inline void hr_desk_post(hr_desk *desk, int64_t world) {
    const uint64_t at = atomic_load_explicit(&desk->posted, memory_order_relaxed);
    hr_desk_todo(desk)[at % (uint64_t)desk->capacity] = world;
    atomic_store(&desk->posted, at + 1);
}

/* Takes what lies on the pile beyond *collected; returns how many were written to `out`. */
static inline int64_t hr_desk_collect(hr_desk *desk, uint64_t *collected, hr_finished *out) {
    const uint64_t until = atomic_load(&desk->finished);
    int64_t count = 0;
    while (*collected < until) {
        out[count++] = hr_desk_pile(desk)[(*collected)++ % (uint64_t)desk->capacity];
    }
    return count;
}

/* Writes the worlds that were posted and not finished to `out`; returns how many. */
static inline int64_t hr_desk_unfinished(hr_desk *desk, int64_t *out) {
    const uint64_t posted = atomic_load(&desk->posted);
    int64_t count = 0;
    for (uint64_t at = atomic_load(&desk->finished); at < posted; at++) {
        out[count++] = hr_desk_todo(desk)[at % (uint64_t)desk->capacity];
    }
    return count;
}

/* Sleeps until `finished` workers' worlds in all have been counted, the bell is rung for a
 * letter, or the time is up. `letters` is what the desks had announced when last looked at.
 * desks: the addresses of `workers` desks. */
static inline void hr_front_sleep(hr_front *front, uint64_t finished, hr_desk *const *desks,
                                  int64_t workers, uint32_t letters, int64_t spin_ns,
                                  int64_t timeout_ns) {
    const uint32_t rung = atomic_load(&front->bell.rung.value);
    atomic_store(&front->wanted, finished);
    atomic_store(&front->bell.sleeping, 1);
    uint32_t announced = 0;
    for (int64_t w = 0; w < workers; w++) announced += atomic_load(&desks[w]->letters_out);
    if (announced == letters && atomic_load(&front->finished) < finished) {
        if (!hr__word_spin(&front->bell.rung, rung, spin_ns)) {
            hr__word_wait(&front->bell.rung, rung, timeout_ns);
        }
    }
    atomic_store(&front->bell.sleeping, 0);
}

/* A letter has been sent to the worker: it will look for it. */
static inline void hr_desk_tell(hr_desk *desk) {
    atomic_fetch_add(&desk->letters_in, 1);
    hr_bell_ring(&desk->bell);
}

/* Workers look out for work for so long, from their next wait on. */
static inline void hr_front_set_spin(hr_front *front, int64_t spin_ns) {
    atomic_store_explicit(&front->spin_ns, spin_ns, memory_order_relaxed);
}

static inline uint64_t hr_front_finished(hr_front *front) { return atomic_load(&front->finished); }
static inline uint32_t hr_desk_announced(hr_desk *desk) { return atomic_load(&desk->letters_out); }
static inline uint64_t hr_desk_posted(hr_desk *desk) { return atomic_load(&desk->posted); }
static inline uint64_t hr_desk_begun(hr_desk *desk) { return atomic_load(&desk->begun); }
static inline int64_t hr_desk_current(hr_desk *desk) { return atomic_load(&desk->current); }

/* ---- a worker ---------------------------------------------------------------------------- */

/* Notes what the worker does now: -1 for nothing. */
static inline void hr_desk_begin(hr_desk *desk, int64_t world) {
    const uint64_t begun = atomic_load_explicit(&desk->begun, memory_order_relaxed);
    atomic_store_explicit(&desk->current, world, memory_order_relaxed);
    atomic_store_explicit(&desk->begun, begun + 1, memory_order_relaxed);
}

enum { HR_NOTHING = -1, HR_LETTER = -2 };

/* The next world, HR_LETTER when letters have come since `letters`, or HR_NOTHING. */
static inline int64_t hr_desk_take(hr_desk *desk, uint32_t letters) {
    if (atomic_load(&desk->letters_in) != letters) return HR_LETTER;
    const uint64_t at = atomic_load_explicit(&desk->taken, memory_order_relaxed);
    if (at == atomic_load(&desk->posted)) return HR_NOTHING;
    const int64_t world = hr_desk_todo(desk)[at % (uint64_t)desk->capacity];
    hr_desk_begin(desk, world);
    atomic_store_explicit(&desk->taken, at + 1, memory_order_release);
    return world;
}

/* Sleeps until hr_desk_take may find something, or the time is up. */
static inline void hr_desk_sleep(hr_desk *desk, hr_front *front, uint32_t letters,
                                 int64_t timeout_ns) {
    const int64_t spin_ns = atomic_load_explicit(&front->spin_ns, memory_order_relaxed);
    const uint32_t rung = atomic_load(&desk->bell.rung.value);
    atomic_store(&desk->bell.sleeping, 1);
    if (atomic_load(&desk->letters_in) == letters &&
        atomic_load(&desk->taken) == atomic_load(&desk->posted)) {
        if (!hr__word_spin(&desk->bell.rung, rung, spin_ns)) {
            hr__word_wait(&desk->bell.rung, rung, timeout_ns);
        }
    }
    atomic_store(&desk->bell.sleeping, 0);
}

/* Lays the current world on the pile, and wakes the front when that is what it waits for. */
static inline void hr_desk_finish(hr_desk *desk, hr_front *front, int64_t world) {
    const uint64_t at = atomic_load_explicit(&desk->finished, memory_order_relaxed);
    hr_finished *place = &hr_desk_pile(desk)[at % (uint64_t)desk->capacity];
    place->world = world;
    place->ticket = atomic_fetch_add(&front->tickets, 1);
    atomic_store_explicit(&desk->current, -1, memory_order_relaxed);
    atomic_store(&desk->finished, at + 1);
    if (atomic_fetch_add(&front->finished, 1) + 1 >= atomic_load(&front->wanted)) {
        hr_bell_ring(&front->bell);
    }
}

/* A letter to the front is about to be sent: it will look for it. */
static inline void hr_desk_announce(hr_desk *desk, hr_front *front) {
    atomic_fetch_add(&desk->letters_out, 1);
    hr_bell_ring(&front->bell);
}

#endif /* HEADRACE_BOARD_H */
