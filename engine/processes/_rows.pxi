# The worker's hot path: one step of a world of one row, from its action to the batch's memory.


cdef class RowWriter:
    """Writes what a step of an environment returned into the batch's memory.

    An observation that is one C-contiguous array of the space's dtype and shape is copied;
    any other is left to `write`, a function (row, observation).
    """

    cdef object write
    cdef object obs                   # [rows, ...], kept alive; None: never copied
    cdef object dtype
    cdef char *base
    cdef int64_t row_bytes
    cdef int ndim
    cdef const cnp.npy_intp *shape    # of `obs`, rows first
    cdef double[::1] rewards
    cdef uint8_t[::1] terminated
    cdef uint8_t[::1] truncated

    def __init__(self, write, obs, rewards, terminated, truncated):
        """obs: list of the arrays of the observation's leaves; terminated, truncated: uint8."""
        cdef cnp.ndarray only
        self.write = write
        self.obs = obs[0] if len(obs) == 1 else None
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
        self.rewards[row] = reward
        over, cut = truth(terminated), truth(truncated)
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
        memcpy(self.base + row * self.row_bytes, array.data, self.row_bytes)
        return True


cdef inline bint truth(flag) except *:
    return flag is True or (flag is not False and bool(flag))


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
            obs, reward, terminated, truncated, info = result
            returned = (obs, reward, terminated, truncated, info)
        over = self.writer.put(world, returned[0], returned[1], returned[2], returned[3])
        if over or returned[4]:
            return self.after(world, over, returned[0], returned[4])
        return None
