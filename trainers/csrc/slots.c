#include "slots.h"

#define FILLING (INT64_MIN / 2) /* added to `users` while the publisher owns the slot */

void hr_slots_init(hr_slots *slots, const hr_weights *first) {
    for (int k = 0; k < slots->count; k++) atomic_init(&slots->slot[k].users, 0);
    slots->slot[0].weights = *first;
    atomic_init(&slots->newest, 0);
}

hr_slot *hr_slots_acquire(hr_slots *slots) {
    for (;;) {
        const int32_t newest = atomic_load(&slots->newest);
        hr_slot *slot = &slots->slot[newest];
        atomic_fetch_add(&slot->users, 1);
        /* Still the newest after being counted in: nobody fills it before it is let go. */
        if (atomic_load(&slots->newest) == newest) return slot;
        atomic_fetch_sub(&slot->users, 1);
    }
}

void hr_slots_release(hr_slot *slot) { atomic_fetch_sub(&slot->users, 1); }

int hr_slots_claim(hr_slots *slots) {
    const int32_t newest = atomic_load(&slots->newest);
    for (int32_t k = 0;; k = (k + 1) % slots->count) {
        int64_t free = 0;
        if (k != newest && atomic_compare_exchange_strong(&slots->slot[k].users, &free, FILLING))
            return k;
    }
}

void hr_slots_publish(hr_slots *slots, int claimed, const hr_weights *weights) {
    hr_slot *slot = &slots->slot[claimed];
    slot->weights = *weights;
    /* Readers that were late count themselves in and out meanwhile: subtract, do not set. */
    atomic_fetch_sub(&slot->users, FILLING);
    atomic_store(&slots->newest, claimed);
}
