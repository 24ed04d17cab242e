# Included by _core.pyx: what happens to rows before and after a step.

TAKEN = -1      # ActionSlots.take: all numbers are allowed and written
NOT_DIRECT = -2  # ActionSlots.take: not an array that can be read directly; nothing is written

cdef const hr_level *LEVEL = hr_level_get()


cdef const int64_t *int64_data(array, int64_t *count, str name) except NULL:
    """The numbers of a C-contiguous int64 array, and how many there are."""
    if (not isinstance(array, np.ndarray) or not cnp.PyArray_ISCARRAY_RO(<cnp.ndarray>array)
            or cnp.PyArray_TYPE(<cnp.ndarray>array) != cnp.NPY_INT64):
        raise ValueError(f"{name} must be a C-contiguous int64 array")
    count[0] = cnp.PyArray_SIZE(<cnp.ndarray>array)
    return <const int64_t *>cnp.PyArray_DATA(<cnp.ndarray>array)


cdef int64_t first_of_neighbours(const int64_t *ids, int64_t n) noexcept:
    """The first of numbers that follow each other, each one more than the one before; else -1."""
    cdef int64_t i, differs = 0
    if n == 0:
        return -1
    for i in range(n):  # no early exit, so that it vectorises
        differs |= ids[i] ^ (ids[0] + i)
    return ids[0] if differs == 0 else -1


cdef int64_t first_of_worlds(range_, int64_t total, int64_t *count) except -1:
    """The first of a range of some of `total` worlds or rows, and how many they are."""
    cdef int64_t first = range_.start, stop = range_.stop
    if range_.step != 1 or not 0 <= first <= stop <= total:
        raise ValueError(f"{range_} is no range of 0 to {total - 1}")
    count[0] = stop - first
    return first


def first_of_range(ids):
    """The least of the int64 numbers `ids`, all different, where they are, in any order, all of
    a range; else -1."""
    cdef int64_t n, i, least, most
    cdef const int64_t *numbers = int64_data(ids, &n, "ids")
    least = first_of_neighbours(numbers, n)
    if least >= 0 or n == 0:
        return least
    least = most = numbers[0]
    for i in range(1, n):
        least = min(least, numbers[i])
        most = max(most, numbers[i])
    return least if most - least == n - 1 else -1


def range_of(ids):
    """The range that the int64 numbers `ids` are, in order; None where they are none."""
    cdef int64_t n
    cdef const int64_t *numbers = int64_data(ids, &n, "ids")
    cdef int64_t first = first_of_neighbours(numbers, n)
    return range(first, first + n) if first >= 0 else None


MAX_RUNS = 32  # more slices than this are not worth taking one by one


def runs_of(ids):
    """The slices that take the entries `ids`, int64, ascending and all different, in order; None
    where that is more than MAX_RUNS of them."""
    cdef int64_t n, i, start = 0, found = 1
    cdef const int64_t *numbers = int64_data(ids, &n, "ids")
    for i in range(1, n):
        found += numbers[i] != numbers[i - 1] + 1
    if found > MAX_RUNS or n == 0:
        return None
    runs = []
    for i in range(1, n + 1):
        if i == n or numbers[i] != numbers[i - 1] + 1:
            runs.append(slice(numbers[start], numbers[i - 1] + 1))
            start = i
    return tuple(runs)


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
        `targets`, a range or C-contiguous int64, must be valid rows: of an array only the dtype
        is checked here.
        """
        cdef hr_taking taking
        cdef const int64_t *rows = NULL
        cdef int64_t count = self.rows, first = -1
        if type(targets) is range:
            first = first_of_worlds(targets, self.rows, &count)
        elif targets is not None:
            rows = int64_data(targets, &count, "targets")
            first = first_of_neighbours(rows, count)
        if self.fill(&taking, values, count) == NOT_DIRECT:
            return NOT_DIRECT
        if first >= 0:
            taking.slots = self.slots + first * self.stride
        else:
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
        """Adds the episodes that ended in the last step of the worlds, a range or an int64
        array, in its order; returns how many rows ended."""
        cdef int64_t n, first, i = 0, end, ended = 0
        cdef const int64_t *ids
        if type(worlds) is range:
            first = first_of_worlds(worlds, self.vec.worlds, &n)
            return LEVEL.count_episodes(self.vec, first, first + n, self.totals)
        ids = int64_data(worlds, &n, "worlds")
        first = first_of_neighbours(ids, n)
        if 0 <= first <= self.vec.worlds - n:
            return LEVEL.count_episodes(self.vec, first, first + n, self.totals)
        for i in range(n):
            if not 0 <= ids[i] < self.vec.worlds:
                raise IndexError(f"world {ids[i]} of {self.vec.worlds}")
        i = 0
        while i < n:  # neighbours together
            end = i + 1
            while end < n and ids[end] == ids[end - 1] + 1:
                end += 1
            ended += LEVEL.count_episodes(self.vec, ids[i], ids[end - 1] + 1, self.totals)
            i = end
        return ended
