#define _GNU_SOURCE /* sched_setaffinity */
#include "distance.h"

#ifdef __linux__

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "waitword.h"

#define BURSTS    8
#define WARM      2        /* of them, before time counts */
#define TURNS     250      /* round trips of a burst */
#define SPINS     4096     /* looks at the line, after which the CPU is offered to others */
#define EAGER     64       /* of them without a pause, which would take as long as the line does */
#define LATEST_NS 50000000 /* from the start on: then the CPUs are too busy */
#define OWN_LINES 128      /* bytes: lines that a CPU fetches together */

/* What the two threads share. */
typedef struct exchange {
    _Alignas(OWN_LINES) _Atomic uint32_t word; /* odd: asked; even: answered */
    _Alignas(OWN_LINES) atomic_bool given_up;  /* by either of them */
    int64_t until_ns;                          /* when they give up */
    int cpus[2];                               /* of who asks, of who answers */
    double least_ns;                           /* of a burst's round trips */
} exchange;

static bool moved_to(int cpu) {
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(cpu, &only);
    return sched_setaffinity(0, sizeof only, &only) == 0; /* of this thread */
}

/* Whether the word came to be `value`. */
static bool came(exchange *at, uint32_t value) {
    for (int spins = 1; atomic_load_explicit(&at->word, memory_order_acquire) != value; spins++) {
        if (spins > EAGER) hr__pause();
        if (spins < SPINS) continue;
        if (atomic_load(&at->given_up) || hr__now_ns() > at->until_ns) return false;
        sched_yield();
        spins = 0;
    }
    return true;
}

static bool ask(exchange *at, uint32_t first) {
    for (uint32_t turn = first; turn < first + TURNS; turn++) {
        atomic_store_explicit(&at->word, 2 * turn + 1, memory_order_release);
        if (!came(at, 2 * turn + 2)) return false;
    }
    return true;
}

static bool ask_all(exchange *at) {
    if (!moved_to(at->cpus[0])) return false;
    for (uint32_t burst = 0; burst < BURSTS; burst++) {
        const int64_t start = hr__now_ns();
        if (!ask(at, burst * TURNS)) return false;
        const double trip = (double)(hr__now_ns() - start) / TURNS;
        if (burst == WARM || (burst > WARM && trip < at->least_ns)) at->least_ns = trip;
    }
    return true;
}

static bool answer_all(exchange *at) {
    if (!moved_to(at->cpus[1])) return false;
    for (uint32_t turn = 0; turn < BURSTS * TURNS; turn++) {
        if (!came(at, 2 * turn + 1)) return false;
        atomic_store_explicit(&at->word, 2 * turn + 2, memory_order_release);
    }
    return true;
}

static void *asking(void *at) {
    if (!ask_all(at)) atomic_store(&((exchange *)at)->given_up, true);
    return NULL;
}

static void *answering(void *at) {
    if (!answer_all(at)) atomic_store(&((exchange *)at)->given_up, true);
    return NULL;
}

static bool usable(int cpu) { return cpu >= 0 && cpu < CPU_SETSIZE; }

double hr_round_trip_ns(int first, int second) {
    if (!usable(first) || !usable(second) || first == second) return -1.0;
    exchange at = {.cpus = {first, second}, .until_ns = hr__now_ns() + LATEST_NS};
    pthread_t asks, answers;
    if (pthread_create(&asks, NULL, asking, &at) != 0) return -1.0;
    if (pthread_create(&answers, NULL, answering, &at) != 0) {
        atomic_store(&at.given_up, true);
    } else {
        pthread_join(answers, NULL);
    }
    pthread_join(asks, NULL);
    return atomic_load(&at.given_up) ? -1.0 : at.least_ns;
}

#else

double hr_round_trip_ns(int first, int second) {
    (void)first;
    (void)second;
    return -1.0;
}

#endif
