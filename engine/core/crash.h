/* A last sentence on stderr before a crash in native code ends the process. */
#ifndef HEADRACE_CRASH_H
#define HEADRACE_CRASH_H

#include <stddef.h>

/* From now on SIGSEGV, SIGBUS, SIGFPE and SIGILL write the sentence, cut to what there is room for,
 * and then act as they do by default. Signals that somebody handles already stay as they are.
 * One at a time in a process. Where the crash is a stack that has overflowed, only threads that
 * called `hr_crash_stack`, as this one does here, can still write. */
void hr_crash_watch(const char *sentence, size_t size);

/* Ends it: every signal as it was. */
void hr_crash_unwatch(void);

/* Gives the calling thread, until it ends, a stack on which handlers of signals run when its own
 * has overflowed; leaves one that it has. Without memory for it the thread goes without. */
void hr_crash_stack(void);

#endif /* HEADRACE_CRASH_H */
