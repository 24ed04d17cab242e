#define _XOPEN_SOURCE 700 /* sigaction, sigaltstack */
#include "crash.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIGNALS     4
#define STACK_BYTES (64 * 1024) /* of the handler; the kernel keeps the widest registers there */

static const int numbers[SIGNALS] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};

static atomic_flag speaking = ATOMIC_FLAG_INIT; /* by the first thread that crashes */

/* A signal handler can be given nothing: what it needs is here. */
static struct {
    char sentence[1024];
    size_t size;
    struct sigaction before[SIGNALS]; /* who handled each signal */
    int taken[SIGNALS];               /* whether we do */
} crash;

static void last_words(int number) {
    while (atomic_flag_test_and_set(&speaking)) pause(); /* until the other ends the process */
    ssize_t written = write(STDERR_FILENO, crash.sentence, crash.size);
    (void)written;
    signal(number, SIG_DFL);
    raise(number); /* held back until we return */
}

/* ---- a stack for the handler, of each thread that steps ---------------------------- */

static pthread_key_t own_stack; /* what hr_crash_stack gave the thread */
static int keyed;               /* whether there is the key */

static void take_back(void *block) {
    stack_t now;
    if (sigaltstack(NULL, &now) == 0 && now.ss_sp == block) {
        const stack_t none = {.ss_flags = SS_DISABLE};
        sigaltstack(&none, NULL);
    }
    free(block);
}

static void make_key(void) { keyed = pthread_key_create(&own_stack, take_back) == 0; }

void hr_crash_stack(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_key);
    stack_t now;
    if (!keyed || sigaltstack(NULL, &now) != 0 || !(now.ss_flags & SS_DISABLE)) return;
    void *block = malloc(STACK_BYTES);
    if (block == NULL) return;
    if (pthread_setspecific(own_stack, block) != 0) {
        free(block);
        return;
    }
    const stack_t stack = {.ss_sp = block, .ss_size = STACK_BYTES};
    sigaltstack(&stack, NULL);
}

/* ---- watching -------------------------------------------------------------------- */

void hr_crash_watch(const char *sentence, size_t size) {
    crash.size = size < sizeof crash.sentence ? size : sizeof crash.sentence;
    memcpy(crash.sentence, sentence, crash.size);
    hr_crash_stack();
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = last_words;
    action.sa_flags = SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < SIGNALS; i++) {
        sigaction(numbers[i], NULL, &crash.before[i]);
        crash.taken[i] =
            !(crash.before[i].sa_flags & SA_SIGINFO) && crash.before[i].sa_handler == SIG_DFL;
        if (crash.taken[i]) sigaction(numbers[i], &action, NULL);
    }
}

void hr_crash_unwatch(void) {
    for (int i = 0; i < SIGNALS; i++)
        if (crash.taken[i]) sigaction(numbers[i], &crash.before[i], NULL);
}
