/* Finished worlds in the order in which they were reported, as runs of neighbours. */
#ifndef HEADRACE_RING_H
#define HEADRACE_RING_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "pace.h"

/* Neighbours: worlds [first, first + count). */
typedef struct hr_run {
    int64_t first, count;
} hr_run;

typedef struct hr_ring {
    int64_t size;  /* worlds in all, so that there is room for each as a run of its own */
    int64_t head;  /* the oldest run's place */
    int64_t count; /* of runs */
    int64_t ready; /* worlds in them */
    hr_run *runs;  /* [size] */
} hr_ring;

/* The longest run of neighbours that ids [n], n > 0, begin with. */
static inline hr_run hr_first_run(const int64_t *ids, int64_t n) {
    hr_run part = {ids[0], 1};
    while (part.count < n && ids[part.count] == part.first + part.count) part.count++;
    return part;
}

/* False when memory cannot be had. */
static inline bool hr_ring_init(hr_ring *ring, int64_t worlds) {
    *ring = (hr_ring){.size = worlds, .runs = calloc((size_t)worlds, sizeof(hr_run))};
    return ring->runs != NULL;
}

static inline void hr_ring_clear(hr_ring *ring) { ring->head = ring->count = ring->ready = 0; }

/* Adds a run, or adds it to the run before it. */
static inline void hr_ring_push(hr_ring *ring, hr_run part) {
    ring->ready += part.count;
    if (ring->count > 0) {
        hr_run *last = &ring->runs[(ring->head + ring->count - 1) % ring->size];
        if (last->first + last->count == part.first) {
            last->count += part.count;
            return;
        }
    }
    ring->runs[(ring->head + ring->count++) % ring->size] = part;
}

/* Takes the oldest run, or the first `most` worlds of it; the ring is not empty. */
static inline hr_run hr_ring_take(hr_ring *ring, int64_t most) {
    hr_run *oldest = &ring->runs[ring->head];
    const hr_run part = {oldest->first, hr_least(oldest->count, most)};
    ring->ready -= part.count;
    oldest->first += part.count;
    oldest->count -= part.count;
    if (oldest->count == 0) {
        ring->count--;
        if (++ring->head == ring->size) ring->head = 0;
    }
    return part;
}

#endif /* HEADRACE_RING_H */
