# The worker's hot path: one step of a world of one row, from its action to the batch's memory.


cdef class RowWriter:
    """Writes what a step of an environment returned into the batch's memory.

    An observation that is one C-contiguous array of the space's dtype and shape, and within its
    bounds, is copied; any other is left to `write`, a function (row, observation).
    """

    cdef object write
    cdef object obs                   # [rows, ...], kept alive; None: never copied
    cdef object dtype
    cdef char *base
    cdef int64_t row_bytes
    cdef int ndim
    cdef const cnp.npy_intp *shape    # of `obs`, rows first
    cdef int64_t bounded              # elements of a row that have bounds: all of them, or 0
    cdef const int64_t[::1] low, high # [bounded]
    cdef double[::1] rewards
    cdef uint8_t[::1] terminated
    cdef uint8_t[::1] truncated

    def __init__(self, write, obs, bounds, rewards, terminated, truncated):
        """obs: list of the arrays of the observation's leaves; bounds: the least and the greatest
        value of each element, where there is one leaf and it has bounds, else None; terminated,
        truncated: uint8."""
        cdef cnp.ndarray only
        self.write = write
        self.obs = obs[0] if len(obs) == 1 else None
        if bounds is not None:
            self.low, self.high = (np.ascontiguousarray(b, np.int64).reshape(-1) for b in bounds)
            self.bounded = self.low.shape[0]
            if self.obs.dtype != np.int64:
                self.obs = None
        if self.obs is not None:
            only = self.obs
            self.dtype = only.dtype
            self.base = <char *>only.data
            self.row_bytes = only.strides[0]
            self.ndim = only.ndim - 1
            self.shape = only.shape
        self.rewards, self.terminated, self.truncated = rewards, terminated, truncated

    cdef bint put(self, int64_t row, obs, reward, terminated, truncated) except *:
        """Writes one row; whether its episode has ended. row: less than there are."""
        cdef bint over, cut
        if not self.copied(row, obs):
            self.write(row, obs)
        self.rewards[row] = number_of(reward)
        over, cut = truth(terminated, "terminated"), truth(truncated, "truncated")
        self.terminated[row], self.truncated[row] = over, cut
        return over or cut

    cdef bint copied(self, int64_t row, object obs) noexcept:
        cdef cnp.ndarray array
        cdef int axis
        if self.obs is None or type(obs) is not np_ndarray:
            return False
        array = obs
        if array.descr is not self.dtype or array.ndim != self.ndim:
            return False
        for axis in range(self.ndim):
            if array.shape[axis] != self.shape[axis + 1]:
                return False
        if not cnp.PyArray_IS_C_CONTIGUOUS(array):
            return False
        if self.bounded and not self.within(<const int64_t *>array.data):
            return False
        memcpy(self.base + row * self.row_bytes, array.data, self.row_bytes)
        return True

    cdef bint within(self, const int64_t *values) noexcept:
        cdef int64_t i
        for i in range(self.bounded):
            if values[i] < self.low[i] or values[i] > self.high[i]:
                return False
        return True


cdef inline double number_of(reward) except? -1.0:
    if isinstance(reward, (float, int)) or type(reward) is np_float32:
        return reward
    return number(reward, "the reward")


cdef inline bint truth(value, name) except *:
    return value is True or (value is not False and flag(value, name))


cdef class RowStepper:
    """Steps the worlds of a worker: here where a world is one row and its step is an ordinary
    one, else through functions of Python.

    Attributes:
        working_on: the world that is stepped, for messages.
    """

    cdef readonly int64_t working_on
    cdef RowWriter writer
    cdef list steps
    cdef int64_t first
    cdef const uint16_t[::1] idle
    cdef object read
    cdef cnp.ndarray actions          # [rows] of scalars; None: `read` gives the action
    cdef object after
    cdef object otherwise

    def __init__(self, RowWriter writer, int64_t first, steps, idle, read, actions, after,
                 otherwise):
        """steps: of the worlds from `first` on, the `step` of its environment, or None where
        `otherwise`, a function of the world, is to do all of it; it also does where
        idle[world] is not 0. Both functions return bytes to be told, or None.

        read: a function of the row that gives its action; actions: [rows], where a scalar of
            it is that action, else None.
        after: a function (world, over, observation, info) for what remains to be done when an
            episode is over or an info is not empty.
        """
        self.writer, self.first, self.steps, self.idle = writer, first, list(steps), idle
        self.read, self.actions, self.after, self.otherwise = read, actions, after, otherwise
        self.working_on = first

    cpdef step(self, int64_t world):
        """Steps a world, or resets it where that is what the step is to do.

        Returns its pickled infos when they are too long for the memory.
        """
        cdef bint over
        cdef tuple returned
        self.working_on = world
        step = self.steps[world - self.first]
        if step is None or self.idle[world]:
            return self.otherwise(world)
        if self.actions is None:
            action = self.read(world)
        else:
            action = cnp.PyArray_ToScalar(
                cnp.PyArray_BYTES(self.actions) + world * cnp.PyArray_STRIDE(self.actions, 0),
                self.actions,
            )
        result = step(action)
        if type(result) is tuple and len(<tuple>result) == 5:
            returned = <tuple>result
        else:
            returned = five_of(step, result)
        over = self.writer.put(world, returned[0], returned[1], returned[2], returned[3])
        if over or returned[4]:
            return self.after(world, over, returned[0], returned[4])
        return None


cdef class WholeNumbers:
    """Takes a batch of actions that are one whole number each, where the array can be read as
    it is: C-contiguous and of the memory's dtype."""

    cdef int64_t[::1] slots           # [rows]
    cdef object dtype
    cdef int64_t low, high

    def __init__(self, slots, low, high):
        """slots: int64 [rows]; low, high: the least and the greatest action."""
        self.slots, self.dtype, self.low, self.high = slots, slots.dtype, low, high

    def take(self, actions, rows):
        """Writes the actions of `rows` (int64; None: all of them); whether it could. Else, and
        where an action is out of range, nothing is written."""
        cdef cnp.ndarray array
        cdef const int64_t *values
        cdef const int64_t[::1] which
        cdef int64_t i, count
        if type(actions) is not np_ndarray:
            return False
        array = actions
        count = self.slots.shape[0] if rows is None else len(rows)
        if array.descr is not self.dtype or array.ndim != 1 or array.shape[0] != count:
            return False
        if not cnp.PyArray_IS_C_CONTIGUOUS(array):
            return False
        values = <const int64_t *>array.data
        for i in range(count):
            if values[i] < self.low or values[i] > self.high:
                return False
        if rows is None:
            memcpy(&self.slots[0], values, count * sizeof(int64_t))
        else:
            which = rows
            for i in range(count):
                self.slots[which[i]] = values[i]
        return True


def talking(const int64_t[::1] info_bytes, worlds):
    """Those of the worlds (int64; None: all), in their order, that have infos: a list."""
    cdef const int64_t[::1] which
    cdef int64_t i
    if worlds is None:
        return [i for i in range(info_bytes.shape[0]) if info_bytes[i]]
    which = worlds
    return [which[i] for i in range(which.shape[0]) if info_bytes[which[i]]]


cdef class EpisodeTally:
    """Returns and lengths of episodes, from the transitions that the batch has been given.

    Attributes:
        values: float64 [6], as a native batch's totals: episodes, sums of their returns and
            lengths, least and greatest return, and 0, the episodes that metrics are of.
        last_return, last_length: of each row's latest episode; 0 before the first.
    """

    cdef readonly object values, last_return, last_length
    cdef double[::1] totals, returns, last_returns
    cdef int64_t[::1] lengths, last_lengths
    cdef const double[::1] rewards
    cdef const uint8_t[::1] terminated, truncated, present
    cdef uint8_t[::1] acts            # [rows]: its next step is a transition
    cdef bint next_step

    def __init__(self, rewards, terminated, truncated, present, bint next_step):
        """Of the rows of these arrays; present: who acts at the next step; next_step: the step
        after an episode's last one is a reset."""
        rows = len(rewards)
        self.values, self.next_step = np.zeros(6), next_step
        self.last_return, self.last_length = np.zeros(rows), np.zeros(rows, np.int64)
        self.totals = self.values
        self.returns, self.lengths = np.zeros(rows), np.zeros(rows, np.int64)
        self.last_returns, self.last_lengths = self.last_return, self.last_length
        self.rewards, self.present = rewards, present.view(np.uint8)
        self.terminated, self.truncated = terminated.view(np.uint8), truncated.view(np.uint8)
        self.acts = np.zeros(rows, np.uint8)
        self.clear()

    def clear(self):
        """Forgets the episodes that have ended."""
        self.values[:] = (0.0, 0.0, 0.0, np.inf, -np.inf, 0.0)

    def begin(self, chosen):
        """The rows `chosen`, bool [rows], have been reset."""
        cdef int64_t row
        cdef const uint8_t[::1] those = chosen.view(np.uint8)
        for row in range(those.shape[0]):
            if those[row]:
                self.returns[row], self.lengths[row] = 0.0, 0
                self.acts[row] = self.present[row]

    def count(self, rows):
        """Takes in a step of `rows` (int64; None: all); how many of their episodes ended."""
        cdef const int64_t[::1] which
        cdef int64_t i, ended = 0
        if rows is None:
            for i in range(self.acts.shape[0]):
                ended += self.step(i)
        else:
            which = rows
            for i in range(which.shape[0]):
                ended += self.step(which[i])
        return ended

    cdef bint step(self, int64_t row) noexcept:
        cdef bint over = self.terminated[row] or self.truncated[row]
        self.returns[row] += self.rewards[row]
        self.lengths[row] += self.acts[row]
        self.acts[row] = self.present[row] and not (over and self.next_step)
        if not over:
            return False
        self.end(row)
        return True

    cdef void end(self, int64_t row) noexcept:
        cdef double gained = self.returns[row]
        self.last_returns[row], self.last_lengths[row] = gained, self.lengths[row]
        self.totals[0] += 1.0
        self.totals[1] += gained
        self.totals[2] += <double>self.lengths[row]
        self.totals[3] = min(self.totals[3], gained)
        self.totals[4] = max(self.totals[4], gained)
        self.returns[row], self.lengths[row] = 0.0, 0
