/* Weights that actors read while a learner publishes newer ones.
 *
 * A slot points to weights that nobody writes; it is counted while somebody reads them. Readers
 * never wait: they take the newest slot and count themselves in. The one publisher fills a slot
 * that nobody reads and that is not the newest, then makes it the newest by one atomic store:
 * so a reader sees all of a version or none of it, and what it reads stays until it lets go.
 * With one slot more than readers and the newest take, there is always a free one.
 */
#ifndef HEADRACE_SLOTS_H
#define HEADRACE_SLOTS_H

#include <stdatomic.h>
#include <stdint.h>

#include "rollout.h"

typedef struct hr_slot {
    hr_weights weights;
    _Atomic int64_t users; /* readers; far below 0 while the slot is being filled */
} hr_slot;

/* Memory belongs to the caller; what the weights point to must live while they are in a slot. */
typedef struct hr_slots {
    hr_slot *slot; /* [count] */
    int32_t count; /* readers at once + 2 */
    _Atomic int32_t newest;
} hr_slots;

/* Makes all slots free but 0, which holds the first weights. */
void hr_slots_init(hr_slots *slots, const hr_weights *first);
/* The newest weights, held until released; any thread. */
hr_slot *hr_slots_acquire(hr_slots *slots);
void hr_slots_release(hr_slot *slot);
/* Takes a free slot for the publisher, and returns its number. What its weights pointed to may
 * be freed from now on. One publisher at a time. */
int hr_slots_claim(hr_slots *slots);
/* Publishes weights in a slot that was claimed. */
void hr_slots_publish(hr_slots *slots, int claimed, const hr_weights *weights);

#endif /* HEADRACE_SLOTS_H */
