# Included by _core.pyx: what happens to rows before and after a step.

TAKEN = -1      # ActionSlots.take: all numbers are allowed and written
NOT_DIRECT = -2  # ActionSlots.take: not an array that can be read directly; nothing is written

cdef const hr_level *LEVEL = hr_level_get()


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

    cdef int64_t fill(self, hr_taking *taking, values, int64_t rows) except -3:
        """What it takes to read `values` directly; NOT_DIRECT where that cannot be done."""
        cdef cnp.ndarray array
        cdef int i
        if not isinstance(values, np.ndarray):
            return NOT_DIRECT
        array = <cnp.ndarray>values
        if not cnp.PyArray_ISCARRAY_RO(array) or cnp.PyArray_NDIM(array) != self.ndim:
            return NOT_DIRECT
        if cnp.PyArray_DIM(array, 0) != rows:
            return NOT_DIRECT
        for i in range(1, self.ndim):
            if cnp.PyArray_DIM(array, i) != self.shape[i]:
                return NOT_DIRECT
        if self.choices == NULL:
            if cnp.PyArray_TYPE(array) != cnp.NPY_FLOAT32:
                return NOT_DIRECT
            taking.from_ = HR_FROM_FLOAT32
        elif not cnp.PyArray_ISSIGNED(array):
            return NOT_DIRECT
        elif cnp.PyArray_ITEMSIZE(array) == 8:
            taking.from_ = HR_FROM_INT64
        elif cnp.PyArray_ITEMSIZE(array) == 4:
            taking.from_ = HR_FROM_INT32
        else:
            return NOT_DIRECT
        taking.values = cnp.PyArray_DATA(array)
        taking.members = self.members
        taking.choices = self.choices
        taking.slots = self.slots
        taking.stride = self.stride
        taking.targets = NULL
        return 0

    def take(self, values, targets=None):
        """Checks `values` and writes them into the slots of the rows `targets` (None: all).

        Returns TAKEN, NOT_DIRECT, or the flat index of the first number that is not allowed.
        `targets`, C-contiguous int64, must be valid rows: only its dtype is checked here.
        """
        cdef hr_taking taking
        cdef const int64_t *rows = NULL
        cdef int64_t count = self.rows
        if targets is not None:
            if not cnp.PyArray_ISCARRAY_RO(<cnp.ndarray?>targets) or targets.dtype != np.int64:
                raise ValueError("targets must be a C-contiguous int64 array")
            rows = <const int64_t *>cnp.PyArray_DATA(<cnp.ndarray>targets)
            count = cnp.PyArray_SIZE(<cnp.ndarray>targets)
        if self.fill(&taking, values, count) == NOT_DIRECT:
            return NOT_DIRECT
        taking.targets = rows
        return LEVEL.take(&taking, 0, count)


cdef class EpisodeTotals:
    """Sums over the episodes that ended since `clear`: see core/episodes.h for `values`."""

    cdef object owner
    cdef const hr_vec *vec
    cdef readonly object values  # float64 [HR_EPISODE_TOTALS + metrics]
    cdef object cells  # float64, scratch of hr_turn
    cdef double *totals

    def __init__(self, vec):
        cdef object capsule = vec.capsule
        self.vec = <const hr_vec *>PyCapsule_GetPointer(capsule, "headrace.hr_vec")
        self.owner = vec
        self.values = np.zeros(hr_totals_size(self.vec.env))
        self.cells = np.zeros(hr_cells_of(self.vec.worlds) * len(self.values))
        self.totals = <double *>cnp.PyArray_DATA(<cnp.ndarray>self.values)
        self.clear()

    def clear(self):
        """Forgets all episodes counted so far."""
        hr_totals_clear(self.vec.env, self.totals)

    def count_worlds(self, worlds):
        """Adds the episodes that ended in the last step of the worlds in the int64 array
        `worlds`, in its order; returns how many rows ended."""
        cdef const int64_t[::1] indices = worlds
        cdef int64_t ended = 0, world
        for world in indices:
            if not 0 <= world < self.vec.worlds:
                raise IndexError(f"world {world} of {self.vec.worlds}")
            ended += LEVEL.count_episodes(self.vec, world, world + 1, self.totals)
        return ended
