#define _XOPEN_SOURCE 700 /* sigaction, sigaltstack */
#include "crash.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define SIGNALS 4

static const int numbers[SIGNALS] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};

static atomic_flag speaking = ATOMIC_FLAG_INIT; /* by the first thread that crashes */

/* A signal handler can be given nothing: what it needs is here. */
static struct {
    char sentence[1024];
    size_t size;
    char stack[64 * 1024];            /* of the handler */
    stack_t stack_before;             /* of the thread that watches */
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

void hr_crash_watch(const char *sentence, size_t size) {
    crash.size = size < sizeof crash.sentence ? size : sizeof crash.sentence;
    memcpy(crash.sentence, sentence, crash.size);
    stack_t stack = {.ss_sp = crash.stack, .ss_size = sizeof crash.stack};
    sigaltstack(&stack, &crash.stack_before);
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
    sigaltstack(&crash.stack_before, NULL);
}
