/* A last sentence on stderr before a crash in native code ends the process. */
#ifndef HEADRACE_CRASH_H
#define HEADRACE_CRASH_H

#include <stddef.h>

/* From now on SIGSEGV, SIGBUS, SIGFPE and SIGILL write the sentence, cut to what there is room for,
 * and then act as they do by default. Signals that somebody handles already stay as they are.
 * One at a time in a process; the calling thread's own stack may have overflowed. */
void hr_crash_watch(const char *sentence, size_t size);

/* Ends it: every signal as it was. From the thread that began it. */
void hr_crash_unwatch(void);

#endif /* HEADRACE_CRASH_H */
