# Included by _core.pyx: a step of all worlds and all that goes with it.

REFUSED = -1  # Turns.step: nothing was stepped
cdef enum:
    MOST_COPIES = 8


cdef class Turns:
    """Steps of all worlds of a Vec, with all that goes with them: actions from Python are
    checked and written, ended episodes are counted and results copied, by the threads that step.

    slots: None where actions cannot be read directly; totals: of the same Vec; None: episodes
    are not counted; results: at most MOST_COPIES C-contiguous arrays of the batch, whose copies
    `step_copied` returns.
    """

    cdef Vec vec
    cdef Pool pool
    cdef ActionSlots slots
    cdef EpisodeTotals totals
    cdef tuple results

    def __init__(self, Vec vec not None, Pool pool, ActionSlots slots,
                 EpisodeTotals totals=None, tuple results=()):
        if totals is not None and totals.vec != &vec.vec:
            raise ValueError("totals are of another Vec")
        if slots is not None and slots.rows != vec.vec.rows:
            raise ValueError("slots are of another batch")
        for array in results:
            if (not cnp.PyArray_ISCARRAY_RO(array) or array.nbytes % vec.worlds
                    or array.dtype.kind not in "biuf"):
                raise ValueError("results must be C-contiguous arrays of numbers of the batch")
        if len(results) > MOST_COPIES:
            raise ValueError(f"results are {len(results)} arrays: at most {MOST_COPIES}")
        self.vec, self.pool, self.slots, self.totals = vec, pool, slots, totals
        self.results = results

    def step(self, actions=None):
        """One step with `actions` (None: those in place), which must not change meanwhile.

        Returns how many rows ended (0 where they are not counted), or REFUSED, where `actions`
        cannot be read directly or some of them are not allowed: nothing was stepped then.
        """
        cdef hr_taking taking
        if actions is None:
            return self.take_turn(NULL, NULL, 0)
        return self.take_turn(&taking, NULL, 0) if self.read(actions, &taking) else REFUSED

    def step_copied(self, actions=None):
        """`step`, and a list of copies of the results, which hold nothing where it is REFUSED."""
        cdef hr_taking taking
        cdef hr_copy copies[MOST_COPIES]
        cdef cnp.ndarray array, copy
        cdef int count = 0
        if actions is not None and not self.read(actions, &taking):
            return REFUSED, []
        made = []
        for array in self.results:
            copy = cnp.PyArray_EMPTY(cnp.PyArray_NDIM(array), cnp.PyArray_DIMS(array),
                                     cnp.PyArray_TYPE(array), 0)
            copies[count].from_ = <const char *>cnp.PyArray_DATA(array)
            copies[count].into = <char *>cnp.PyArray_DATA(copy)
            copies[count].size = cnp.PyArray_NBYTES(array) // self.vec.worlds
            made.append(copy)
            count += 1
        return self.take_turn(NULL if actions is None else &taking, copies, count), made

    cdef bint read(self, actions, hr_taking *taking) except -1:
        """Whether actions can be read directly."""
        self.vec.check_free(self.pool)
        return (self.slots is not None
                and self.slots.fill(taking, actions, self.slots.rows) != NOT_DIRECT)

    cdef object take_turn(self, const hr_taking *taking, const hr_copy *copies, int count):
        cdef hr_turn turn
        self.vec.check_free(self.pool)
        turn.level = LEVEL
        turn.taking = taking
        turn.copies, turn.copies_count = copies, count
        turn.totals = turn.cells = NULL
        if self.totals is not None:
            turn.totals = self.totals.totals
            turn.cells = <double *>cnp.PyArray_DATA(<cnp.ndarray>self.totals.cells)
        self.vec.run(self.pool, &turn)
        return turn.ended if turn.wrong < 0 else REFUSED
