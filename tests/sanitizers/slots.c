/* Weights published while others read them, for ThreadSanitizer (see run.sh): every reader must
 * see all of one version, and never an older one than it saw before. The publisher overwrites
 * what a slot pointed to as soon as the slot is its own, as if the memory had been freed. */
#include "../../trainers/csrc/slots.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { READERS = 4, SLOTS = READERS + 2, VERSIONS = 100000, PARAMS = 16 };

typedef struct shared {
    hr_slots slots;
    hr_slot slot[SLOTS];
    float params[SLOTS][PARAMS]; /* plain memory: a race here is a fault of the slots */
    int64_t reads[READERS];
} shared;

typedef struct reader {
    shared *all;
    int index;
} reader;

static void fail(const char *what, int64_t version, int64_t other) {
    fprintf(stderr, "slots: %s: version %ld, %ld\n", what, (long)version, (long)other);
    exit(1);
}

static void fill(hr_weights *weights, float *params, int64_t version) {
    for (int k = 0; k < PARAMS; k++) params[k] = (float)version;
    *weights = (hr_weights){.params = params, .reward_scale = (float)version, .version = version};
}

static void *read_all(void *arg) {
    const reader *self = arg;
    int64_t seen = 0;
    while (seen < VERSIONS) {
        hr_slot *slot = hr_slots_acquire(&self->all->slots);
        const hr_weights *w = &slot->weights;
        if (w->version < seen) fail("went back", w->version, seen);
        seen = w->version;
        for (int k = 0; k < PARAMS; k++)
            if (w->params[k] != (float)seen) fail("torn", seen, (int64_t)w->params[k]);
        if (w->reward_scale != (float)seen) fail("torn", seen, (int64_t)w->reward_scale);
        hr_slots_release(slot);
        self->all->reads[self->index]++;
    }
    return NULL;
}

int main(void) {
    static shared all;
    pthread_t threads[READERS];
    reader readers[READERS];
    hr_weights weights;
    all.slots.slot = all.slot;
    all.slots.count = SLOTS;
    fill(&weights, all.params[0], 0);
    hr_slots_init(&all.slots, &weights);
    for (int k = 0; k < READERS; k++) {
        readers[k] = (reader){&all, k};
        pthread_create(&threads[k], NULL, read_all, &readers[k]);
    }
    for (int64_t version = 1; version <= VERSIONS; version++) {
        const int claimed = hr_slots_claim(&all.slots);
        fill(&weights, all.params[claimed], version);
        hr_slots_publish(&all.slots, claimed, &weights);
    }
    int64_t reads = 0;
    for (int k = 0; k < READERS; k++) {
        pthread_join(threads[k], NULL);
        reads += all.reads[k];
    }
    for (int k = 0; k < SLOTS; k++)
        if (atomic_load(&all.slot[k].users) != 0) fail("still in use", k, all.slot[k].users);
    printf("slots, %d versions, %ld reads: clean\n", VERSIONS, (long)reads);
    return 0;
}
