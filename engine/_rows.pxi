# Included by _core.pyx, which declares hr_vec: what happens to rows before and after a step.

cdef extern from "core/actions.h" nogil:
    int64_t hr_take_int64(const int64_t *values, int64_t rows, int32_t members,
                          const int32_t *choices, void *slots, int64_t stride,
                          const int64_t *targets)
    int64_t hr_take_int32(const int32_t *values, int64_t rows, int32_t members,
                          const int32_t *choices, void *slots, int64_t stride,
                          const int64_t *targets)
    int64_t hr_take_float32(const float *values, int64_t rows, int32_t members, void *slots,
                            int64_t stride, const int64_t *targets)

cdef extern from "core/episodes.h" nogil:
    int HR_EPISODE_TOTALS
    int64_t hr_count_episodes(const hr_vec *vec, int64_t lo, int64_t hi, double *totals)

TAKEN = -1      # ActionSlots.take: all numbers are allowed and written
NOT_DIRECT = -2  # ActionSlots.take: not an array that can be read directly; nothing is written


cdef class ActionSlots:
    """Where the numbers of one field of the action space go in the batch's actions.

    slots: uint8 [rows, sizeof(Action)], the actions of the batch; offset: bytes to the field;
    shape: of one row's field; choices: allowed values of each member, None when continuous.
    """

    cdef object owner, choices_owner
    cdef char *slots
    cdef const int32_t *choices
    cdef int64_t rows, stride
    cdef int32_t members
    cdef int ndim
    cdef Py_ssize_t shape[8]

    def __init__(self, cnp.ndarray slots not None, int64_t offset, tuple shape, choices=None):
        if slots.ndim != 2 or slots.itemsize != 1 or not cnp.PyArray_ISCARRAY(slots):
            raise ValueError("slots must be a writable uint8 array [rows, bytes]")
        if len(shape) > 7:
            raise ValueError("a field has at most 7 dimensions")
        self.rows = cnp.PyArray_DIM(slots, 0)
        self.stride = cnp.PyArray_DIM(slots, 1)
        self.ndim = len(shape) + 1
        self.members = 1
        self.shape[0] = self.rows
        for i, size in enumerate(shape):
            self.shape[i + 1] = size
            self.members *= size
        if offset < 0 or offset + 4 * self.members > self.stride:
            raise ValueError("the field lies outside its slot")
        self.owner = slots
        self.slots = <char *>cnp.PyArray_DATA(slots) + offset
        self.choices = NULL
        if choices is not None:
            self.choices_owner = np.ascontiguousarray(choices, dtype=np.int32).reshape(-1)
            if len(self.choices_owner) != self.members:
                raise ValueError("choices must name one number for each member")
            self.choices = <const int32_t *>cnp.PyArray_DATA(<cnp.ndarray>self.choices_owner)

    def take(self, values, targets=None):
        """Checks `values` and writes them into the slots of the rows `targets` (None: all).

        Returns TAKEN, NOT_DIRECT, or the flat index of the first number that is not allowed.
        `targets`, C-contiguous int64, must be valid rows: only its dtype is checked here.
        """
        cdef cnp.ndarray array
        cdef const int64_t *rows = NULL
        cdef int64_t count = self.rows
        cdef int i, size
        if targets is not None:
            if not cnp.PyArray_ISCARRAY_RO(<cnp.ndarray?>targets) or targets.dtype != np.int64:
                raise ValueError("targets must be a C-contiguous int64 array")
            rows = <const int64_t *>cnp.PyArray_DATA(<cnp.ndarray>targets)
            count = cnp.PyArray_SIZE(<cnp.ndarray>targets)
        if not isinstance(values, np.ndarray):
            return NOT_DIRECT
        array = <cnp.ndarray>values
        if not cnp.PyArray_ISCARRAY_RO(array) or cnp.PyArray_NDIM(array) != self.ndim:
            return NOT_DIRECT
        if cnp.PyArray_DIM(array, 0) != count:
            return NOT_DIRECT
        for i in range(1, self.ndim):
            if cnp.PyArray_DIM(array, i) != self.shape[i]:
                return NOT_DIRECT
        size = cnp.PyArray_ITEMSIZE(array)
        if self.choices == NULL:
            if cnp.PyArray_TYPE(array) != cnp.NPY_FLOAT32:
                return NOT_DIRECT
            return hr_take_float32(<const float *>cnp.PyArray_DATA(array), count, self.members,
                                   self.slots, self.stride, rows)
        if not cnp.PyArray_ISSIGNED(array):
            return NOT_DIRECT
        if size == 8:
            return hr_take_int64(<const int64_t *>cnp.PyArray_DATA(array), count, self.members,
                                 self.choices, self.slots, self.stride, rows)
        if size == 4:
            return hr_take_int32(<const int32_t *>cnp.PyArray_DATA(array), count, self.members,
                                 self.choices, self.slots, self.stride, rows)
        return NOT_DIRECT


cdef class EpisodeTotals:
    """Sums over the episodes that ended since `clear`: see core/episodes.h for `values`."""

    cdef object owner
    cdef const hr_vec *vec
    cdef readonly object values  # float64 [HR_EPISODE_TOTALS + metrics]

    def __init__(self, vec):
        cdef object capsule = vec.capsule
        self.vec = <const hr_vec *>PyCapsule_GetPointer(capsule, "headrace.hr_vec")
        self.owner = vec
        self.values = np.zeros(HR_EPISODE_TOTALS + self.vec.env.metrics_size)
        self.clear()

    def clear(self):
        """Forgets all episodes counted so far."""
        self.values[:] = 0.0
        self.values[3] = np.inf
        self.values[4] = -np.inf

    def count(self):
        """Adds the episodes that ended in the last step; returns how many rows ended."""
        return hr_count_episodes(self.vec, 0, self.vec.worlds,
                                 <double *>cnp.PyArray_DATA(<cnp.ndarray>self.values))

    def count_worlds(self, worlds):
        """The same for the worlds in the int64 array `worlds` only, in its order."""
        cdef const int64_t[::1] indices = worlds
        cdef int64_t ended = 0, world
        cdef double *totals = <double *>cnp.PyArray_DATA(<cnp.ndarray>self.values)
        for world in indices:
            if not 0 <= world < self.vec.worlds:
                raise IndexError(f"world {world} of {self.vec.worlds}")
            ended += hr_count_episodes(self.vec, world, world + 1, totals)
        return ended
