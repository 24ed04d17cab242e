# Included by _native.pyx: the pool of threads, and what stops those who work on it.


cdef void run_serial(hr_pool *pool, hr_task_fn fn, void *arg, int64_t tasks) noexcept nogil:
    cdef int64_t task
    for task in range(tasks):
        fn(arg, task, 0)


cdef void submit_serial(hr_pool *pool, hr_job *job) noexcept nogil:
    run_serial(pool, job.fn, job.arg, job.tasks)


cdef void wait_serial(hr_pool *pool, hr_job *job) noexcept nogil:
    pass


cdef int done_serial(hr_pool *pool, hr_job *job) noexcept nogil:
    return 1


cdef int one_thread(const hr_pool *pool) noexcept nogil:
    return 1


cdef hr_pool_api SERIAL
SERIAL.run, SERIAL.submit, SERIAL.wait = run_serial, submit_serial, wait_serial
SERIAL.done = done_serial
SERIAL.threads = one_thread


cdef class Workers:
    """The pool that runs the tasks; without one, the calling thread does."""

    cdef object capsules  # keep the pool alive
    cdef const hr_pool_api *api
    cdef hr_pool *pool
    cdef readonly int threads

    def __init__(self, pool_api=None, pool=None):
        """pool_api, pool: capsules "headrace.hr_pool_api" and "headrace.hr_pool", or None."""
        self.capsules = (pool_api, pool)
        self.api, self.pool = &SERIAL, NULL
        if pool is not None:
            self.api = <const hr_pool_api *>PyCapsule_GetPointer(pool_api, "headrace.hr_pool_api")
            self.pool = <hr_pool *>PyCapsule_GetPointer(pool, "headrace.hr_pool")
            check_built(self.api.size, sizeof(hr_pool_api))
            check_built(self.api.job_size, sizeof(hr_job))
        self.threads = self.api.threads(self.pool)


cdef class StopFlag:
    """Makes whoever collects or learns with it leave off within a step of a block or a minibatch,
    once it is both armed and requested; from any thread."""

    cdef readonly int32_t raised  # both
    cdef readonly bint armed, requested

    def request(self):
        """Somebody wants to stop."""
        self.requested = True
        self.raised = self.armed

    def arm(self, bint armed=True):
        """Whether what is under way may be left off, from now on."""
        self.armed = armed
        self.raised = armed and self.requested
