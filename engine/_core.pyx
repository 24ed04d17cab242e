# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=False
"""The native engine: compiled environments, the thread pool, a batch and its steps.

Each public method checks what it is given once; below it runs C code that assumes it. Where
another extension module needs one of these objects it gets a capsule, which keeps the object
alive; `pool_api` holds the pool's functions.
"""

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from cpython.pycapsule cimport (
    PyCapsule_GetContext, PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New,
    PyCapsule_SetContext,
)
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

cimport numpy as cnp
import numpy as np

from .cpus import available_cpus
from .errors import CallOrderError, ClosedError, EnvDefinitionError

cnp.import_array()


cdef extern from "dlfcn.h" nogil:
    void *dlopen(const char *path, int flags)
    void *dlsym(void *handle, const char *name)
    int dlclose(void *handle)
    char *dlerror()
    int RTLD_LOCAL, RTLD_NOW


cdef extern from "core/vec.h" nogil:
    uint32_t HR_ABI_VERSION
    int HR_MAX_RANK
    int HR_KIND_DISCRETE
    int HR_DISABLED

    ctypedef struct hr_rng:
        uint64_t key
        uint64_t counter

    ctypedef struct hr_frame:
        uint8_t *pixels
        int32_t width
        int32_t height

    ctypedef struct hr_field:
        const char *name
        int32_t kind, dtype, offset, rank
        int32_t shape[4]
        double low, high
        int32_t choices

    ctypedef struct hr_param:
        const char *name
        int32_t dtype, offset, length_offset
        double initial

    ctypedef struct hr_failure:
        const char *message
        const char *file
        int32_t line
        int64_t world

    ctypedef struct hr_batch:
        const void *params
        int64_t params_stride
        void *state
        hr_rng *rng
        const void *actions
        float *rewards
        uint8_t *terminated
        uint8_t *truncated
        void *obs

    ctypedef void (*hr_range_fn)(const hr_batch *, int64_t, int64_t) noexcept nogil
    ctypedef void (*hr_reset_fn)(const hr_batch *, const int32_t *, int64_t) noexcept nogil
    ctypedef void (*hr_flags_fn)(const hr_batch *, int64_t, int64_t, uint8_t *) noexcept nogil
    ctypedef void (*hr_metrics_fn)(const hr_batch *, int64_t, float *) noexcept nogil
    ctypedef void (*hr_draw_fn)(const hr_batch *, int64_t, hr_frame *) noexcept nogil

    ctypedef struct hr_env:
        uint32_t abi_version
        int32_t agents
        const char *name
        const char *source_hash
        int32_t max_steps, state_size, params_size, action_size, obs_size, mask_size, metrics_size
        int32_t obs_fields_count, action_fields_count, params_count
        const hr_field *obs_fields
        const hr_field *action_fields
        const hr_param *param_list
        const char *const *metric_names
        hr_range_fn step
        hr_range_fn observe
        hr_reset_fn reset
        hr_flags_fn present
        hr_flags_fn mask
        hr_metrics_fn metrics
        hr_draw_fn draw
        hr_failure *failure

    ctypedef struct hr_vec:
        uint64_t size
        const hr_env *env
        hr_batch batch
        int64_t worlds, rows
        int32_t autoreset, max_steps
        int32_t *elapsed
        uint8_t *pending
        uint8_t *world_over
        void *final_obs
        uint8_t *present
        uint8_t *ended
        uint8_t *acted
        float *carried
        uint8_t *mask
        float *episode_return
        int32_t *episode_length
        float *last_return
        int32_t *last_length
        float *last_metrics
        void (*step)(hr_vec *, int64_t, int64_t) noexcept nogil

    ctypedef void (*hr_step_fn)(hr_vec *, int64_t, int64_t) noexcept nogil
    void hr_vec_reset(hr_vec *, int64_t, int64_t, const uint8_t *) noexcept
    hr_rng hr_rng_from_seed(uint64_t) noexcept


cdef extern from "core/pool.h" nogil:
    ctypedef struct hr_pool:
        pass
    ctypedef struct hr_job:
        pass
    ctypedef void (*hr_task_fn)(void *, int64_t, int) noexcept

    ctypedef struct hr_pool_api:
        uint64_t size, job_size
        void (*run)(hr_pool *, hr_task_fn, void *, int64_t) noexcept
        void (*submit)(hr_pool *, hr_job *) noexcept
        void (*wait)(hr_pool *, hr_job *) noexcept
        int (*done)(hr_pool *, hr_job *) noexcept
        int (*threads)(const hr_pool *) noexcept

    hr_pool *hr_pool_new(int) noexcept
    void hr_pool_stop(hr_pool *) noexcept
    void hr_pool_free(hr_pool *) noexcept
    int hr_pool_threads(const hr_pool *) noexcept
    void hr_pool_set_spin(hr_pool *, int64_t) noexcept
    void hr_pool_be_patient(hr_pool *) noexcept
    void hr_pool_submit(hr_pool *, hr_job *) noexcept
    void hr_pool_wait(hr_pool *, hr_job *) noexcept
    int hr_pool_done(hr_pool *, hr_job *) noexcept
    void hr_pool_run(hr_pool *, hr_task_fn, void *, int64_t) noexcept


cdef extern from "core/actions.h" nogil:
    int32_t HR_FROM_INT64, HR_FROM_INT32, HR_FROM_FLOAT32
    ctypedef struct hr_taking:
        const void *values
        int32_t from_ "from"
        int32_t members
        const int32_t *choices
        void *slots
        int64_t stride
        const int64_t *targets


cdef extern from "core/crash.h" nogil:
    void hr_crash_watch(const char *, size_t) noexcept
    void hr_crash_unwatch() noexcept
    void hr_crash_stack() noexcept


cdef extern from "core/level.h" nogil:
    ctypedef struct hr_level:
        int64_t (*take)(const hr_taking *, int64_t, int64_t) noexcept nogil
        int64_t (*count_episodes)(const hr_vec *, int64_t, int64_t, double *) noexcept nogil

    const hr_level *hr_level_get() noexcept
    hr_step_fn hr_step_for(const hr_level *, const hr_env *) noexcept


cdef extern from "core/episodes.h" nogil:
    int64_t hr_cells_of(int64_t) noexcept
    int64_t hr_totals_size(const hr_env *) noexcept
    void hr_totals_clear(const hr_env *, double *) noexcept


cdef extern from "core/pace.h" nogil:
    ctypedef struct hr_pace:
        int64_t world_ps

    int64_t hr_pace_ns(const hr_pace *, int64_t) noexcept


cdef extern from "core/stepper.h" nogil:
    ctypedef struct hr_copy:
        const char *from_ "from"
        char *into
        int64_t size

    ctypedef struct hr_turn:
        const hr_level *level
        const hr_taking *taking
        const hr_copy *copies
        int32_t copies_count
        double *totals
        double *cells
        int64_t wrong
        int64_t ended

    void hr_step_all(hr_vec *, hr_pool *, hr_pace *, hr_turn *) noexcept


cdef extern from "core/flight.h" nogil:
    ctypedef struct hr_async:
        pass
    int64_t HR_ASYNC_OK, HR_ASYNC_NO_MEMORY, HR_ASYNC_FORKED

    hr_async *hr_async_new(hr_vec *, hr_pool *, hr_pace *) noexcept
    void hr_async_free(hr_async *) noexcept
    void hr_async_set_patience(hr_async *, int64_t) noexcept
    int64_t hr_async_submit(hr_async *, int64_t, const int64_t *, int64_t) noexcept
    int64_t hr_async_wait(hr_async *, int64_t, int64_t) noexcept
    int64_t hr_async_take(hr_async *, int64_t *, int64_t) noexcept
    int64_t hr_async_in_flight(const hr_async *) noexcept
    int64_t hr_async_ready(hr_async *) noexcept


cdef extern from "core/distance.h" nogil:
    double hr_round_trip_ns(int first, int second) noexcept


def crash_watch(bytes sentence):
    """Written on stderr should native code crash, until `crash_unwatch`; see crash.h."""
    hr_crash_watch(sentence, len(sentence))


def crash_stack():
    """To be called in a thread that steps environments: a stack that overflows there is a crash
    like others. Threads of a pool have called it."""
    hr_crash_stack()


def crash_unwatch():
    hr_crash_unwatch()


def round_trip_ns(int first, int second):
    """Nanoseconds that a cache line takes from one CPU to another and back; None where that is not
    known, see distance.h."""
    cdef double found
    with nogil:
        found = hr_round_trip_ns(first, second)
    return None if found < 0 else found


include "_describe.pxi"
include "_define.pxi"
include "_rows.pxi"

# A call with less work than this keeps the GIL: giving it up and back costs about as much.
cdef int64_t BRIEF_NS = 4000
# A wait looks for signals (Ctrl-C) this often.
cdef int64_t SIGNAL_NS = 100_000_000
MAX_THREADS = 1024
MAX_WORLDS = 2**31 - 1

cdef hr_pool_api POOL_FUNCTIONS
POOL_FUNCTIONS.size, POOL_FUNCTIONS.job_size = sizeof(hr_pool_api), sizeof(hr_job)
POOL_FUNCTIONS.run = hr_pool_run
POOL_FUNCTIONS.submit = hr_pool_submit
POOL_FUNCTIONS.wait = hr_pool_wait
POOL_FUNCTIONS.done = hr_pool_done
POOL_FUNCTIONS.threads = hr_pool_threads
pool_api = PyCapsule_New(&POOL_FUNCTIONS, "headrace.hr_pool_api", NULL)


cdef void forget_owner(object capsule) noexcept:
    Py_DECREF(<object>PyCapsule_GetContext(capsule))


cdef object owned_capsule(void *pointer, const char *name, object owner):
    """A capsule that keeps `owner`, whose memory `pointer` is, alive."""
    capsule = PyCapsule_New(pointer, name, forget_owner)
    Py_INCREF(owner)
    PyCapsule_SetContext(capsule, <void *>owner)
    return capsule


cdef class Library:
    """A loaded environment.

    path: a compiled environment; source: how messages call it (default: the path).

    Raises:
        EnvDefinitionError: it cannot be loaded, defines no environment, or was built for
            another version of the ABI.
    """

    cdef void *handle
    cdef const hr_env *env
    cdef object keepalive
    cdef readonly str path  # "" when it came from a capsule

    def __cinit__(self):
        self.handle = NULL
        self.env = NULL

    def __init__(self, path, source=None):
        if self.env != NULL:
            raise CallOrderError("Library is loaded already")
        self.path = str(path)
        shown = self.path if source is None else str(source)
        encoded = self.path.encode()
        if self.handle == NULL:
            self.handle = dlopen(encoded, RTLD_NOW | RTLD_LOCAL)
        if self.handle == NULL:
            raise EnvDefinitionError(f"{shown} cannot be loaded: {dlerror().decode()}")
        cdef const hr_env *(*entry)() noexcept
        entry = <const hr_env *(*)() noexcept>dlsym(self.handle, "headrace_env")
        if entry == NULL:
            raise EnvDefinitionError(
                f"{shown} defines no environment: it needs HR_ENV(name, ...) once, at its end"
            )
        self.set_env(entry(), shown)

    @staticmethod
    def from_capsule(capsule, keepalive=None, source="the capsule"):
        """A Library around the hr_env in a capsule "headrace.hr_env".

        keepalive: an object that lives as long as the description and its functions are used.
        """
        if not PyCapsule_IsValid(capsule, "headrace.hr_env"):
            raise EnvDefinitionError(f"{source} is no capsule 'headrace.hr_env'")
        cdef Library library = Library.__new__(Library)
        library.path = ""
        library.keepalive = (capsule, keepalive)
        library.set_env(<const hr_env *>PyCapsule_GetPointer(capsule, "headrace.hr_env"), source)
        return library

    cdef int set_env(self, const hr_env *env, str shown) except -1:
        if env == NULL:
            raise EnvDefinitionError(f"{shown} defines no environment")
        fault = env_fault(env)
        if fault is not None:
            raise EnvDefinitionError(f"{shown} cannot be used: {fault}")
        self.env = env
        return 0

    def __dealloc__(self):
        if self.handle != NULL:
            dlclose(self.handle)

    cdef int check(self) except -1:
        if self.env == NULL:
            raise EnvDefinitionError("no environment is loaded")
        return 0

    def describe(self):
        """The environment's description: name, sizes, fields, parameters, what it offers."""
        self.check()
        return describe_env(self.env)

    cdef int raise_pending(self) except -1:
        """Raises what a function that is written in Python had to keep for later."""
        if self.keepalive is not None and hasattr(self.keepalive[1], "raise_pending"):
            self.keepalive[1].raise_pending()
        return 0


cdef class Pool:
    """Threads that share work; `threads` counts the one that asks for it.

    They are started by the first work that is worth sharing, and again after a fork.
    """

    cdef hr_pool *pool
    cdef int64_t users  # calls and steppers that use it now
    cdef readonly int threads
    cdef readonly bint closed

    def __cinit__(self):
        self.pool = NULL

    def __init__(self, threads):
        threads = int(threads)
        if not 1 <= threads <= MAX_THREADS:
            raise ValueError(f"threads is {threads}: expected 1 to {MAX_THREADS}")
        if self.pool != NULL:
            raise CallOrderError("Pool is initialised already")
        self.pool = hr_pool_new(threads)
        if self.pool == NULL:
            raise MemoryError(f"no memory for a pool of {threads} threads")
        self.threads = threads
        self.closed = False
        if threads > available_cpus():
            hr_pool_set_spin(self.pool, 0)

    def __dealloc__(self):
        with nogil:
            hr_pool_free(self.pool)

    cdef int check(self) except -1:
        if self.closed or self.pool == NULL:
            raise ClosedError("Pool is closed")
        return 0

    @property
    def capsule(self):
        """Capsule "headrace.hr_pool"."""
        self.check()
        return owned_capsule(self.pool, "headrace.hr_pool", self)

    def be_patient(self):
        """Lets threads spin for longer between jobs that follow each other closely: for loops
        whose work is all done here, since other threads of this process would lose the time."""
        self.check()
        hr_pool_be_patient(self.pool)

    def close(self):
        """Ends the threads; no work can be given to the pool afterwards."""
        if self.closed or self.pool == NULL:
            return
        if self.users > 0:
            raise CallOrderError("Pool is in use: close what runs on it first")
        self.closed = True
        with nogil:
            hr_pool_stop(self.pool)


include "_batch.pxi"
include "_turns.pxi"
