# Included by _core.pyx: Vec, a batch of worlds, and AsyncStepper, its worlds in flight.


cdef char *array_data(dict arrays, str name, int64_t count, int64_t itemsize) except NULL:
    """Memory of arrays[name], which must be writable, C-contiguous and of the given size."""
    array = arrays.get(name)
    if not isinstance(array, np.ndarray):
        raise ValueError(f"arrays[{name!r}] is missing")
    if not cnp.PyArray_ISCARRAY(<cnp.ndarray>array):
        raise ValueError(f"arrays[{name!r}] must be writable, aligned and C-contiguous")
    if array.nbytes != count * itemsize or (count > 0 and len(array) != count):
        raise ValueError(
            f"arrays[{name!r}] has {len(array)} entries in {array.nbytes} bytes: "
            f"expected {count} in {count * itemsize}"
        )
    return <char *>cnp.PyArray_DATA(<cnp.ndarray>array)


@cython.no_gc_clear  # the arrays must outlive whatever is in flight
cdef class Vec:
    """A batch of worlds of one environment, in arrays that the caller owns.

    arrays: what `Buffers.arrays` holds; params: see `set_params`; autoreset: 0 NextStep,
    1 SameStep, 2 Disabled; max_steps: time limit in steps, 0: none, None: the environment's.

    Raises:
        ValueError: an array is missing, of a wrong size or not C-contiguous, or an argument is
            out of range.
    """

    cdef hr_vec vec
    cdef hr_pace pace
    cdef int64_t flying     # worlds that steppers have in flight
    cdef bint busy          # a call is running without the GIL
    cdef bint held          # acquired by whoever steps it through the capsule
    cdef readonly Library library
    cdef object arrays      # keeps the memory alive
    cdef object params      # likewise: (table, arrays)
    cdef readonly int64_t worlds
    cdef readonly bint closed

    def __init__(self, Library library not None, worlds, *, dict arrays not None, params=None,
                 param_arrays=None, autoreset=0, max_steps=None):
        library.check()
        if not 1 <= worlds <= MAX_WORLDS:
            raise ValueError(f"worlds is {worlds}: expected 1 to {MAX_WORLDS}")
        if not 0 <= autoreset <= HR_DISABLED:
            raise ValueError(f"autoreset is {autoreset}: expected 0, 1 or 2")
        if self.vec.env != NULL:
            raise CallOrderError("Vec is initialised already")
        limit = library.env.max_steps if max_steps is None else max_steps
        if not 0 <= limit < 2**31:
            raise ValueError(f"max_steps is {limit}: expected 0 (none) to {2**31 - 1}")
        self.library = library
        self.worlds = worlds
        self.closed = False
        self.connect(library.env, arrays)
        self.vec.autoreset = autoreset
        self.vec.max_steps = limit
        self.set_table(params, {} if param_arrays is None else param_arrays)
        self.vec.env = library.env

    cdef int connect(self, const hr_env *env, dict arrays) except -1:
        cdef hr_vec *vec = &self.vec
        cdef hr_batch *batch = &self.vec.batch
        cdef int64_t worlds = self.worlds, rows = self.worlds * env.agents
        vec.size = sizeof(hr_vec)
        vec.worlds = worlds
        vec.rows = rows
        vec.step = hr_step_for(hr_level_get(), env)
        batch.state = array_data(arrays, "state", worlds, env.state_size)
        batch.rng = <hr_rng *>array_data(arrays, "rng", worlds, sizeof(hr_rng))
        batch.actions = array_data(arrays, "actions", rows, env.action_size)
        batch.rewards = <float *>array_data(arrays, "rewards", rows, 4)
        batch.terminated = <uint8_t *>array_data(arrays, "terminated", rows, 1)
        batch.truncated = <uint8_t *>array_data(arrays, "truncated", rows, 1)
        batch.obs = array_data(arrays, "obs", rows, env.obs_size)
        vec.elapsed = <int32_t *>array_data(arrays, "elapsed", worlds, 4)
        vec.pending = <uint8_t *>array_data(arrays, "pending", worlds, 1)
        vec.world_over = <uint8_t *>array_data(arrays, "world_over", worlds, 1)
        vec.final_obs = array_data(arrays, "final_obs", rows, env.obs_size)
        vec.present = <uint8_t *>array_data(arrays, "present", rows, 1)
        vec.ended = <uint8_t *>array_data(arrays, "ended", rows, 1)
        vec.acted = <uint8_t *>array_data(arrays, "acted", rows, 1)
        vec.carried = <float *>array_data(arrays, "carried", rows, 4)
        vec.episode_return = <float *>array_data(arrays, "episode_return", rows, 4)
        vec.episode_length = <int32_t *>array_data(arrays, "episode_length", rows, 4)
        vec.last_return = <float *>array_data(arrays, "last_return", rows, 4)
        vec.last_length = <int32_t *>array_data(arrays, "last_length", rows, 4)
        vec.mask = NULL
        vec.last_metrics = NULL
        if env.mask_size > 0:
            vec.mask = <uint8_t *>array_data(arrays, "mask", rows, env.mask_size)
        if env.metrics_size > 0:
            vec.last_metrics = <float *>array_data(
                arrays, "last_metrics", worlds, 4 * <int64_t>env.metrics_size)
        self.arrays = dict(arrays)
        return 0

    # ---- state of the object ----------------------------------------------------------

    cdef int check_idle(self) except -1:
        if self.closed or self.vec.env == NULL:
            raise ClosedError("Vec is closed")
        self.check_unused()
        if self.flying > 0:
            raise CallOrderError(f"{self.flying} worlds are in flight: wait for them first")
        return 0

    def check_unused(self):
        """Raises CallOrderError while another thread steps it or a collector holds it."""
        if self.busy:
            raise CallOrderError("Vec is being stepped by another thread")
        if self.held:
            raise CallOrderError("Vec is being stepped by a collector: let it finish first")

    def acquire(self):
        """Claims the batch for stepping it through the capsule: every other call that steps,
        changes or closes it is refused until `release`.

        Raises:
            CallOrderError: it is being stepped, is in flight or was claimed by another.
        """
        self.check_idle()
        self.clear_failure()
        self.held = True

    def release(self):
        """Ends what `acquire` began."""
        self.held = False

    cdef void clear_failure(self) noexcept:
        """Forgets failures of other batches: a library keeps one for all that it has."""
        cdef hr_failure *failure = self.library.env.failure
        if failure != NULL:
            memset(failure, 0, sizeof(hr_failure))
            failure.world = -1

    @property
    def capsule(self):
        """Capsule "headrace.hr_vec"."""
        if self.closed or self.vec.env == NULL:
            raise ClosedError("Vec is closed")
        return owned_capsule(&self.vec, "headrace.hr_vec", self)

    @property
    def in_flight(self):
        """Worlds that an AsyncStepper was given and has not returned."""
        return self.flying

    def close(self):
        """Refuses all further calls. The memory goes with the last reference to the arrays."""
        if self.busy or self.held or self.flying > 0:
            self.check_idle()
        self.closed = True

    # ---- parameters -------------------------------------------------------------------

    def set_params(self, table, dict arrays=None):
        """Gives the environment its parameters.

        table: array of sizeof(Params) bytes for all worlds, or [worlds] of them (any dtype
            whose rows have that size); it is copied. arrays: {name: 1-D array} for the array
            members, whose pointers and lengths are filled in here; they are copied too.
        """
        self.check_idle()
        self.set_table(table, {} if arrays is None else arrays)

    cdef int set_table(self, table, dict arrays) except -1:
        cdef const hr_env *env = self.library.env
        cdef int64_t size = env.params_size, row, rows
        cdef const hr_param *param
        cdef cnp.ndarray values, copy
        cdef void *pointer
        cdef int32_t length
        cdef char *at
        if size == 0:
            self.vec.batch.params = NULL
            self.vec.batch.params_stride = 0
            return 0
        if table is None:
            raise ValueError(f"params is missing: {size} bytes are expected")
        flat = np.frombuffer(np.ascontiguousarray(table).tobytes(), np.uint8).copy()
        if len(flat) != size and len(flat) != size * self.worlds:
            raise ValueError(
                f"params has {len(flat)} bytes: expected {size}, or {size} for each of "
                f"{self.worlds} worlds"
            )
        copy = flat
        rows = len(flat) // size
        kept = []
        for i in range(env.params_count):
            param = &env.param_list[i]
            if param.length_offset < 0:
                continue
            name = param.name.decode()
            if name not in arrays:
                raise ValueError(f"parameter {name!r} is an array and was not given")
            values = np.array(arrays[name], dtype=DTYPES[param.dtype], order="C", ndmin=1)
            if values.size > 2**31 - 1:
                raise ValueError(f"parameter {name!r} has {values.size} elements: too many")
            kept.append(values)
            pointer = cnp.PyArray_DATA(values)
            length = <int32_t>values.size
            for row in range(rows):
                at = <char *>cnp.PyArray_DATA(copy) + row * size
                memcpy(at + param.offset, &pointer, sizeof(pointer))
                memcpy(at + param.length_offset, &length, sizeof(length))
        self.params = (copy, kept)
        self.vec.batch.params = cnp.PyArray_DATA(copy)
        self.vec.batch.params_stride = 0 if rows == 1 else size
        return 0

    # ---- stepping ---------------------------------------------------------------------

    def step(self, Pool pool=None):
        """Steps all worlds, on the pool's threads when there is enough work to share."""
        self.check_free(pool)
        self.run(pool, NULL)

    cdef int check_free(self, Pool pool) except -1:
        self.check_idle()
        if pool is not None:
            pool.check()
        return 0

    cdef void run(self, Pool pool, hr_turn *turn) noexcept:
        """Steps all worlds, after `check_free`."""
        self.clear_failure()
        cdef int64_t ns = hr_pace_ns(&self.pace, self.worlds)
        if 0 < ns < BRIEF_NS:
            hr_step_all(&self.vec, NULL, &self.pace, turn)
            return
        cdef hr_pool *threads = NULL
        if pool is not None:
            threads = pool.pool
            pool.users += 1
        self.busy = True
        with nogil:
            hr_step_all(&self.vec, threads, &self.pace, turn)
        self.busy = False
        if pool is not None:
            pool.users -= 1

    def step_range(self, int64_t lo, int64_t hi):
        """Steps the worlds [lo, hi) in the calling thread."""
        self.check_idle()
        if not 0 <= lo <= hi <= self.worlds:
            raise ValueError(f"range is [{lo}, {hi}): worlds are 0 to {self.worlds - 1}")
        self.clear_failure()
        self.busy = True
        with nogil:
            self.vec.step(&self.vec, lo, hi)
        self.busy = False

    def reset(self, seeds=None, mask=None):
        """Starts new episodes and writes their observations.

        seeds: uint64 [worlds], which start the worlds' streams anew; None: these go on.
        mask: bool [worlds], the worlds to reset (and seed); None: all.
        """
        cdef const uint8_t *which = NULL
        cdef const uint64_t *keys
        cdef int64_t world
        self.check_idle()
        if mask is not None:
            mask = self.checked_array("mask", mask, np.bool_)
            which = <const uint8_t *>cnp.PyArray_DATA(<cnp.ndarray>mask)
        if seeds is not None:
            seeds = self.checked_array("seeds", seeds, np.uint64)
            keys = <const uint64_t *>cnp.PyArray_DATA(<cnp.ndarray>seeds)
            for world in range(self.worlds):
                if which == NULL or which[world]:
                    self.vec.batch.rng[world] = hr_rng_from_seed(keys[world])
        self.clear_failure()
        self.busy = True
        with nogil:
            hr_vec_reset(&self.vec, 0, self.worlds, which)
        self.busy = False

    cdef object checked_array(self, str name, array, dtype):
        if not isinstance(array, np.ndarray) or array.dtype != dtype:
            raise TypeError(f"{name} must be an array of {np.dtype(dtype)}")
        if array.shape != (self.worlds,):
            raise ValueError(f"{name} has shape {array.shape}: expected {(self.worlds,)}")
        return np.ascontiguousarray(array)

    def observe(self):
        """Writes the observations and masks of all worlds anew from their states (after these
        were changed from outside)."""
        cdef const hr_env *env = self.library.env
        self.check_idle()
        env.observe(&self.vec.batch, 0, self.worlds)
        if env.mask != NULL:
            env.mask(&self.vec.batch, 0, self.worlds, self.vec.mask)

    # ---- looking in -------------------------------------------------------------------

    def draw(self, int64_t world, cnp.ndarray frame not None):
        """Draws a world into `frame`, uint8 [height, width, 3]."""
        cdef hr_frame target
        self.check_idle()
        if self.library.env.draw == NULL:
            raise CallOrderError("this environment cannot be drawn: it has no draw function")
        if not 0 <= world < self.worlds:
            raise ValueError(f"world is {world}: worlds are 0 to {self.worlds - 1}")
        if (frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3
                or not cnp.PyArray_ISCARRAY(frame) or max(frame.shape[0], frame.shape[1]) >= 2**31):
            raise ValueError("frame must be a writable, C-contiguous uint8 array [height, width, 3]")
        target.pixels = <uint8_t *>cnp.PyArray_DATA(frame)
        target.height = <int32_t>frame.shape[0]
        target.width = <int32_t>frame.shape[1]
        self.library.env.draw(&self.vec.batch, world, &target)
        self.library.raise_pending()

    def metrics(self, int64_t world):
        """What the metrics of a world's running episode are now, float32 [metrics_size]."""
        cdef const hr_env *env = self.library.env
        self.check_idle()
        if not 0 <= world < self.worlds:
            raise ValueError(f"world is {world}: worlds are 0 to {self.worlds - 1}")
        values = np.zeros(env.metrics_size, np.float32)
        if env.metrics != NULL:
            env.metrics(&self.vec.batch, world, <float *>cnp.PyArray_DATA(<cnp.ndarray>values))
        return values

    def take_failure(self):
        """The HR_CHECK that failed since the last call, {message, file, line, world}, or None."""
        cdef hr_failure *failure = self.library.env.failure
        if failure == NULL or failure.message == NULL:
            return None
        found = {
            "message": failure.message.decode(errors="replace"),
            "file": "" if failure.file == NULL else failure.file.decode(errors="replace"),
            "line": failure.line,
            "world": failure.world,
        }
        self.clear_failure()
        return found


@cython.no_gc_clear  # so must the Vec and the pool
cdef class AsyncStepper:
    """Worlds in flight: submitted in any order, returned in the order in which they finish.

    pool: None steps at once, inside `submit`.
    """

    cdef hr_async *stepper
    cdef Vec vec
    cdef Pool pool
    cdef bint busy

    def __cinit__(self):
        self.stepper = NULL

    def __init__(self, Vec vec not None, Pool pool=None):
        if self.stepper != NULL:
            raise CallOrderError("AsyncStepper is initialised already")
        vec.check_idle()
        if pool is not None:
            pool.check()
        self.stepper = hr_async_new(&vec.vec, NULL if pool is None else pool.pool, &vec.pace)
        if self.stepper == NULL:
            raise MemoryError(f"no memory to keep {vec.worlds} worlds in flight")
        self.vec = vec
        self.pool = pool
        if pool is not None:
            pool.users += 1

    def __dealloc__(self):
        self.release()

    cdef int release(self) except -1:
        """Waits for what is in flight and frees the stepper."""
        cdef hr_async *stepper = self.stepper
        if stepper == NULL:
            return 0
        self.stepper = NULL
        self.vec.flying -= hr_async_in_flight(stepper)
        with nogil:
            hr_async_free(stepper)
        if self.pool is not None:
            self.pool.users -= 1
        return 0

    cdef int check(self) except -1:
        if self.stepper == NULL:
            raise ClosedError("AsyncStepper is closed")
        if self.busy:
            raise CallOrderError("AsyncStepper is used by another thread")
        return 0

    @property
    def in_flight(self):
        """Worlds submitted and not returned by `wait` yet."""
        self.check()
        return hr_async_in_flight(self.stepper)

    @property
    def ready(self):
        """Worlds that `wait` would return without waiting."""
        self.check()
        return self.checked(hr_async_ready(self.stepper))

    cdef int64_t checked(self, int64_t result) except -9:
        if result == HR_ASYNC_FORKED:
            raise CallOrderError(
                "this process was forked from the one that owns the worlds in flight: "
                "make a vector environment of its own here"
            )
        if result == HR_ASYNC_NO_MEMORY:
            raise MemoryError("no memory to keep worlds in flight")
        return result

    def set_patience(self, int64_t nanoseconds):
        """Reports worlds together that are expected to take less; see flight.h. For tests."""
        self.check()
        hr_async_set_patience(self.stepper, nanoseconds)

    def submit(self, worlds):
        """Starts one step of the worlds, a range or a C-contiguous int64 array; their actions
        are in place.

        Raises:
            CallOrderError: a world is in flight already, or the Vec is being stepped.
        """
        cdef int64_t wrong, count, first = -1
        cdef const int64_t *ids = NULL
        self.check()
        if self.vec.flying != hr_async_in_flight(self.stepper) or self.vec.flying == 0:
            self.vec.check_idle()
            self.vec.clear_failure()
        if type(worlds) is range:
            first = first_of_worlds(worlds, self.vec.worlds, &count)
        else:
            ids = int64_data(worlds, &count, "worlds")
        self.busy = True
        self.vec.flying += count
        with nogil:
            wrong = hr_async_submit(self.stepper, first, ids, count)
        self.busy = False
        if wrong != HR_ASYNC_OK:
            self.vec.flying -= count
        if self.checked(wrong) != HR_ASYNC_OK:
            if 0 <= worlds[wrong] < self.vec.worlds:
                raise CallOrderError(f"world {worlds[wrong]} is in flight already")
            raise ValueError(
                f"worlds[{wrong}] is {worlds[wrong]}: worlds are 0 to {self.vec.worlds - 1}"
            )

    def wait(self, int64_t n):
        """The n worlds that were reported first, in that order: a range where they follow each
        other, else int64 [n]."""
        cdef int64_t got = 0, first
        self.check()
        if not 0 <= n <= hr_async_in_flight(self.stepper):
            raise CallOrderError(
                f"wait({n}): {hr_async_in_flight(self.stepper)} worlds are in flight"
            )
        if n == 0:
            return range(0)
        self.busy = True
        try:
            while got == 0:
                with nogil:
                    got = hr_async_wait(self.stepper, n, SIGNAL_NS)
                if got == 0:
                    PyErr_CheckSignals()
        finally:
            self.busy = False
        self.checked(got)
        first = hr_async_take(self.stepper, NULL, n)
        if first >= 0:
            self.vec.flying -= n
            return range(first, first + n)
        cdef cnp.npy_intp size = n
        cdef cnp.ndarray ids = cnp.PyArray_EMPTY(1, &size, cnp.NPY_INT64, 0)
        hr_async_take(self.stepper, <int64_t *>cnp.PyArray_DATA(ids), n)
        self.vec.flying -= n
        return ids

    def close(self):
        """Waits for what is in flight and drops it."""
        if self.stepper == NULL:
            return
        self.check()
        self.release()
