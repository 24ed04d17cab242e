/* Waiting until a 32-bit word changes: a futex on Linux, a condition variable elsewhere.
 *
 * The protocol of every user: change the word (atomically), then call hr__word_wake if
 * somebody may sleep. hr__word_wait returns when the word differs from `seen`, when the
 * time is up, or spuriously; callers look again.
 *
 * A word is private to its process. HR_SHARED_WORDS, defined before this header is included,
 * makes words for shared memory, through which processes wake each other.
 */
#ifndef HEADRACE_WAITWORD_H
#define HEADRACE_WAITWORD_H

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#if defined(__linux__) && !defined(HR_NO_FUTEX)
#define HR__FUTEX 1
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifdef HR_SHARED_WORDS
#define HR__WAIT FUTEX_WAIT
#define HR__WAKE FUTEX_WAKE
#else
#define HR__WAIT FUTEX_WAIT_PRIVATE
#define HR__WAKE FUTEX_WAKE_PRIVATE
#endif
#else
#include <pthread.h>
#endif

#define HR__NS_PER_S   1000000000LL
#define HR__SELFISH_NS 2000  /* of a spin, before it yields */
#define HR__AWAY_NS    50000 /* a turn that takes so long was somebody else's */

typedef struct hr__word {
    _Atomic uint32_t value;
#ifndef HR__FUTEX
    pthread_mutex_t lock;
    pthread_cond_t changed;
#endif
} hr__word;

static inline int64_t hr__now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * HR__NS_PER_S + now.tv_nsec;
}

/* One polite turn of a spinning loop. */
static inline void hr__pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb" ::: "memory");
#endif
}

/* Spins for at most `spin_ns` (0: not at all) while the word equals `seen`. Returns 1 when it
 * changed.
 *
 * Whoever else wants the CPU gets it: after a few turns each one yields. When it comes back
 * late, with nothing changed, others have enough to do, and it gives up: on a busy machine a
 * sleeper is woken sooner than one who waits for its turn. */
static inline int hr__word_spin(hr__word *word, uint32_t seen, int64_t spin_ns) {
    if (spin_ns <= 0) return atomic_load(&word->value) != seen;
    const int64_t start = hr__now_ns();
    for (int64_t now = start; now - start < spin_ns;) {
        for (int turn = 0; turn < 8; turn++) {
            if (atomic_load_explicit(&word->value, memory_order_acquire) != seen) return 1;
            hr__pause();
        }
        const int64_t before = now = hr__now_ns();
        if (now - start < HR__SELFISH_NS) continue;
        sched_yield();
        now = hr__now_ns();
        if (now - before > HR__AWAY_NS) break;
    }
    return atomic_load(&word->value) != seen;
}

#ifdef HR__FUTEX

static inline void hr__word_init(hr__word *word) { atomic_init(&word->value, 0); }
static inline void hr__word_destroy(hr__word *word) { (void)word; }

/* timeout_ns < 0: no limit. */
static inline void hr__word_wait(hr__word *word, uint32_t seen, int64_t timeout_ns) {
    struct timespec limit = {.tv_sec = (time_t)(timeout_ns / HR__NS_PER_S),
                             .tv_nsec = (long)(timeout_ns % HR__NS_PER_S)};
    syscall(SYS_futex, (void *)&word->value, HR__WAIT, seen, timeout_ns < 0 ? NULL : &limit, NULL,
            0);
}

static inline void hr__word_wake(hr__word *word, int64_t sleepers) {
    const int count = sleepers > INT_MAX ? INT_MAX : (int)sleepers;
    syscall(SYS_futex, (void *)&word->value, HR__WAKE, count, NULL, NULL, 0);
}

#else

static inline void hr__word_init(hr__word *word) {
    pthread_mutexattr_t of_lock;
    pthread_condattr_t of_changed;
    pthread_mutexattr_init(&of_lock);
    pthread_condattr_init(&of_changed);
#ifdef HR_SHARED_WORDS
    pthread_mutexattr_setpshared(&of_lock, PTHREAD_PROCESS_SHARED);
    pthread_condattr_setpshared(&of_changed, PTHREAD_PROCESS_SHARED);
#endif
    atomic_init(&word->value, 0);
    pthread_mutex_init(&word->lock, &of_lock);
    pthread_cond_init(&word->changed, &of_changed);
    pthread_mutexattr_destroy(&of_lock);
    pthread_condattr_destroy(&of_changed);
}

static inline void hr__word_destroy(hr__word *word) {
    pthread_cond_destroy(&word->changed);
    pthread_mutex_destroy(&word->lock);
}

/* timeout_ns < 0: no limit. */
static inline void hr__word_wait(hr__word *word, uint32_t seen, int64_t timeout_ns) {
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit); /* the clock of a default condition variable */
    if (timeout_ns > 0) {
        const int64_t ns = limit.tv_nsec + timeout_ns % HR__NS_PER_S;
        limit.tv_sec += (time_t)(timeout_ns / HR__NS_PER_S + ns / HR__NS_PER_S);
        limit.tv_nsec = (long)(ns % HR__NS_PER_S);
    }
    pthread_mutex_lock(&word->lock);
    int failed = 0;
    while (!failed && atomic_load(&word->value) == seen) {
        failed = timeout_ns < 0 ? pthread_cond_wait(&word->changed, &word->lock)
                                : pthread_cond_timedwait(&word->changed, &word->lock, &limit);
    }
    pthread_mutex_unlock(&word->lock);
}

/* Wakes all: a sleeper who finds nothing to do sleeps again. */
static inline void hr__word_wake(hr__word *word, int64_t sleepers) {
    (void)sleepers;
    pthread_mutex_lock(&word->lock);
    pthread_cond_broadcast(&word->changed);
    pthread_mutex_unlock(&word->lock);
}

#endif

#endif /* HEADRACE_WAITWORD_H */
