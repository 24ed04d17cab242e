# Included by _core.pyx: a step of all worlds and all that goes with it.

REFUSED = -1  # Turns.step: nothing was stepped


cdef class Turns:
    """Steps of all worlds of a Vec, with all that goes with them: actions from Python are
    checked and written, and ended episodes are counted, by the threads that step.

    slots: None where actions cannot be read directly; totals: of the same Vec; None: episodes
    are not counted.
    """

    cdef Vec vec
    cdef Pool pool
    cdef ActionSlots slots
    cdef EpisodeTotals totals

    def __init__(self, Vec vec not None, Pool pool, ActionSlots slots,
                 EpisodeTotals totals=None):
        if totals is not None and totals.vec != &vec.vec:
            raise ValueError("totals are of another Vec")
        if slots is not None and slots.rows != vec.vec.rows:
            raise ValueError("slots are of another batch")
        self.vec, self.pool, self.slots, self.totals = vec, pool, slots, totals

    def step(self, actions=None):
        """One step with `actions` (None: those in place).

        Returns how many rows ended (0 where they are not counted), or REFUSED, where `actions`
        cannot be read directly or some of them are not allowed: nothing was stepped then.
        """
        cdef hr_taking taking
        cdef hr_turn turn
        self.vec.check_free(self.pool)
        turn.level = LEVEL
        turn.taking = NULL
        turn.totals = turn.cells = NULL
        if self.totals is not None:
            turn.totals = self.totals.totals
            turn.cells = <double *>cnp.PyArray_DATA(<cnp.ndarray>self.totals.cells)
        if actions is not None:
            if self.slots is None:
                return REFUSED
            if self.slots.fill(&taking, actions, self.slots.rows) == NOT_DIRECT:
                return REFUSED
            turn.taking = &taking
        self.vec.run(self.pool, &turn)
        return turn.ended if turn.wrong < 0 else REFUSED
