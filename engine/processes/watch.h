/* Ends a worker process whose parent is gone, whatever the worker is doing.
 *
 * A thread of its own waits for the other end of a socket to be closed, which happens when
 * the parent ends in any way, and looks once a second whether the process has been given
 * another parent, for the case that a third process has inherited the other end. It needs
 * neither Python nor its lock, so it works while the worker hangs in an environment.
 * (PR_SET_PDEATHSIG will not do: it fires when the thread that started the worker ends.)
 */
#ifndef HEADRACE_WATCH_H
#define HEADRACE_WATCH_H

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define HR__ORPHANED 113 /* exit status of a worker whose parent is gone */
#define HR__LOOK_MS  1000

typedef struct hr_watched {
    int socket;   /* its other end is the parent's */
    pid_t parent; /* as long as it is getppid() */
} hr_watched;

static inline void *hr__watch(void *watched) {
    const hr_watched of = *(hr_watched *)watched;
    free(watched);
    struct pollfd end = {.fd = of.socket, .events = 0, .revents = 0};
    for (;;) {
        const int told = poll(&end, 1, HR__LOOK_MS);
        if (told > 0 && (end.revents & POLLNVAL)) return NULL; /* closed here: on its way out */
        if ((told > 0 && (end.revents & (POLLHUP | POLLERR))) || getppid() != of.parent) {
            _exit(HR__ORPHANED);
        }
    }
}

/* Returns 0, or an errno. */
static inline int hr_watch_parent(int socket, pid_t parent) {
    sigset_t all, before;
    pthread_t thread;
    hr_watched *watched = (hr_watched *)malloc(sizeof *watched);
    if (watched == NULL) return ENOMEM;
    watched->socket = socket;
    watched->parent = parent;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the main thread */
    const int failed = pthread_create(&thread, NULL, hr__watch, watched);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        free(watched);
    } else {
        pthread_detach(thread);
    }
    return failed;
}

#endif /* HEADRACE_WATCH_H */
