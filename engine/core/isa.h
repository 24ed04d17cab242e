/* Which instruction-set levels may be used: the one rule of engine, trainers and environments that
 * came prebuilt (engine/compile.py has it in Python). */
#ifndef HEADRACE_ISA_H
#define HEADRACE_ISA_H

#include <stdlib.h>
#include <string.h>

/* 0 base, 1 v3, 2 v4; any other name 2: nothing is ruled out. */
static inline int hr_isa_rank(const char *level) {
    return strcmp(level, "base") == 0 ? 0 : strcmp(level, "v3") == 0 ? 1 : 2;
}

/* Whether HEADRACE_ISA, the highest level that is wanted, allows this one; not whether the CPU has
 * it. */
static inline int hr_isa_allows(const char *level) {
    const char *highest = getenv("HEADRACE_ISA");
    return highest == NULL || hr_isa_rank(level) <= hr_isa_rank(highest);
}

#endif /* HEADRACE_ISA_H */
