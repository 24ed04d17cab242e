/* Stresses the thread pool, for ThreadSanitizer (see run.sh): jobs from several threads at
 * once, jobs that overlap, waits that sleep, stops, forks. Each task must run exactly once. */
#define _GNU_SOURCE
#include "../../engine/core/pool.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CALLERS = 3, ROUNDS = 300, TASKS = 37, JOBS = 4 };

typedef struct tally {
    int64_t runs[TASKS]; /* plain memory: a race here is a fault of the pool */
    int idle;            /* microseconds that each task sleeps */
} tally;

static void count(void *arg, int64_t task, int worker) {
    tally *all = arg;
    (void)worker;
    all->runs[task]++;
    if (all->idle > 0) usleep((useconds_t)all->idle);
}

static void check(const tally *all, int64_t tasks, int64_t expected, const char *where) {
    for (int64_t i = 0; i < tasks; i++) {
        if (all->runs[i] != expected) {
            fprintf(stderr, "pool: task %ld ran %ld times in %s\n", (long)i, (long)all->runs[i],
                    where);
            exit(1);
        }
    }
}

static void *call(void *arg) {
    hr_pool *pool = arg;
    for (int round = 0; round < ROUNDS; round++) {
        tally all = {.idle = round % 50 == 0 ? 100 : 0};
        const int64_t tasks = 1 + round % TASKS;
        hr_pool_run(pool, count, &all, tasks);
        check(&all, tasks, 1, "run");
    }
    return NULL;
}

static void overlap(hr_pool *pool) {
    for (int round = 0; round < ROUNDS; round++) {
        tally all[JOBS] = {{.idle = 0}};
        hr_job jobs[JOBS];
        for (int j = 0; j < JOBS; j++) {
            hr_job_set(&jobs[j], count, &all[j], j == 2 ? 0 : TASKS);
            hr_pool_submit(pool, &jobs[j]);
        }
        for (int j = JOBS - 1; j >= 0; j--) {
            if (round % 3 == 0) {
                while (!hr_pool_done(pool, &jobs[j])) hr_pool_help(pool, &jobs[j]);
            }
            hr_pool_wait(pool, &jobs[j]);
            check(&all[j], jobs[j].tasks, 1, "overlapping jobs");
        }
    }
}

/* A child works with threads of its own, even where the parent had a job in flight. */
static void fork_once(hr_pool *pool) {
    tally parent = {.idle = 200};
    hr_job job;
    hr_job_set(&job, count, &parent, TASKS);
    hr_pool_submit(pool, &job);
    const pid_t child = fork();
    if (child == 0) {
        tally own = {.idle = 0};
        hr_pool_wait(pool, &job); /* the parent's: counts as done here */
        hr_pool_run(pool, count, &own, TASKS);
        check(&own, TASKS, 1, "a forked child");
        hr_pool_free(pool);
        _exit(0);
    }
    hr_pool_wait(pool, &job);
    check(&parent, TASKS, 1, "a parent that forked");
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        fprintf(stderr, "pool: the forked child failed\n");
        exit(1);
    }
}

int main(int argc, char **argv) {
    const int forks = argc > 1 && strcmp(argv[1], "fork") == 0 ? 5 : 0;
    for (int size = 1; size <= 5; size++) {
        const int threads = size < 5 ? size : HR_POOL_RANGES + 8;
        hr_pool *pool = hr_pool_new(threads);
        hr_pool_set_spin(pool, threads == 3 ? 0 : 20000);
        for (int i = 0; i < forks; i++) fork_once(pool);
        if (forks == 0) {
            pthread_t callers[CALLERS];
            for (int i = 0; i < CALLERS; i++) pthread_create(&callers[i], NULL, call, pool);
            overlap(pool);
            for (int i = 0; i < CALLERS; i++) pthread_join(callers[i], NULL);
            hr_pool_stop(pool);
            overlap(pool);
        }
        hr_pool_free(pool);
    }
    hr_pool_free(NULL);
    printf("pool, %d forks: clean\n", forks);
    return 0;
}
