# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=False
"""The board over which a batch and its worker processes exchange numbers of worlds.

`Front` is the batch's side, `Desk` a worker's; see board.h. Both are given the same bytes of
shared memory, of `board_bytes(starts)` bytes, aligned to a cache line. `starts` is int64
[workers + 1]: worker k has the worlds [starts[k], starts[k + 1]).
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.stddef cimport size_t
from libc.string cimport memcpy
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cimport numpy as cnp
import numpy as np

from .fitting import flag, number
from .signatures import five_of

cnp.import_array()
cdef type np_ndarray = np.ndarray
cdef type np_float32 = np.float32


cdef extern from "processes/board.h" nogil:
    ctypedef struct hr_bell:
        pass
    ctypedef struct hr_finished:
        int64_t world
        uint64_t ticket
    ctypedef struct hr_front:
        pass
    ctypedef struct hr_desk:
        hr_bell bell
    int64_t HR_NOTHING, HR_LETTER
    int64_t hr__now_ns()
    size_t hr_round_line(size_t)
    size_t hr_desk_bytes(int64_t)
    void hr_bell_ring(hr_bell *)
    void hr_front_init(hr_front *)
    void hr_desk_init(hr_desk *, int64_t)
    void hr_desk_post(hr_desk *, int64_t)
    int64_t hr_desk_collect(hr_desk *, uint64_t *, hr_finished *)
    int64_t hr_desk_unfinished(hr_desk *, int64_t *)
    void hr_front_sleep(hr_front *, uint64_t, hr_desk **, int64_t, uint32_t, int64_t, int64_t)
    uint64_t hr_front_finished(hr_front *)
    void hr_desk_tell(hr_desk *)
    uint32_t hr_desk_announced(hr_desk *)
    uint64_t hr_desk_posted(hr_desk *)
    uint64_t hr_desk_begun(hr_desk *)
    int64_t hr_desk_current(hr_desk *)
    void hr_desk_begin(hr_desk *, int64_t)
    int64_t hr_desk_take(hr_desk *, uint32_t)
    void hr_desk_sleep(hr_desk *, hr_front *, uint32_t, int64_t)
    void hr_front_set_spin(hr_front *, int64_t)
    void hr_desk_finish(hr_desk *, hr_front *, int64_t)
    void hr_desk_announce(hr_desk *, hr_front *)


cdef extern from "processes/watch.h" nogil:
    int hr_watch_parent(int, int)


# A waiting batch looks up this often: for signals, and for workers that are gone.
cdef int64_t SLICE_NS = 50_000_000
# So does a worker, for no other reason than to be robust.
cdef int64_t PATIENCE_NS = 1_000_000_000


def board_bytes(starts):
    """Bytes of shared memory of a board."""
    cdef size_t total = hr_round_line(sizeof(hr_front))
    for share in np.diff(starts):
        total += hr_desk_bytes(share)
    return total


def watch_parent(int handle, int parent):
    """Ends this process as soon as the other end of the socket `handle` is closed, or the
    process `parent` is its parent no more."""
    failed = hr_watch_parent(handle, parent)
    if failed:
        raise OSError(failed, "no thread to watch the parent process with")


cdef class Front:
    """The batch's side. Worlds are collected in the order in which they were finished."""

    cdef readonly object memory
    cdef hr_front *front
    cdef int64_t workers
    cdef int64_t spin_ns, apart_ns, together_ns
    cdef int64_t[::1] starts
    cdef int32_t[::1] owners          # [worlds]: whose each world is
    cdef uint64_t[::1] collected      # [workers]: finished worlds taken from each desk
    cdef int64_t[::1] queues          # [worlds]: of `post`, by worker
    cdef int64_t[::1] counts          # [workers]: what lies in these
    cdef uint64_t[::1] finished       # [worlds]: tickets of their last steps
    cdef uint64_t[::1] addresses      # [workers]: of the desks
    cdef hr_desk **desks
    cdef uint32_t letters             # announced by the desks when last looked at
    cdef int64_t[::1] ready           # worlds collected and not given out yet, oldest first
    cdef uint64_t[::1] tickets        # theirs
    cdef int64_t readies
    cdef uint8_t[::1] scratch

    def __init__(self, memory, starts, spin_ns, apart_ns, together_ns):
        """Makes an empty board of `memory`, uint8 [board_bytes(starts)].

        How long who waits looks out before it sleeps: spin_ns: the batch; apart_ns: workers, where
        the batch waits for some of the worlds that they have; together_ns: where it waits for all.
        """
        cdef cnp.ndarray[uint8_t, ndim=1, mode="c"] block = memory
        cdef char *base = <char *>block.data
        self.memory = memory
        self.spin_ns, self.apart_ns, self.together_ns = spin_ns, apart_ns, together_ns
        self.starts = np.ascontiguousarray(starts, np.int64)
        self.workers = len(starts) - 1
        worlds = int(np.max(starts))
        shares = np.diff(starts)
        self.owners = np.repeat(np.arange(self.workers, dtype=np.int32), shares)
        self.collected = np.zeros(self.workers, np.uint64)
        self.queues = np.zeros(worlds, np.int64)
        self.counts = np.zeros(self.workers, np.int64)
        self.finished = np.zeros(worlds, np.uint64)
        self.addresses = np.zeros(self.workers, np.uint64)
        self.ready = np.zeros(worlds, np.int64)
        self.tickets = np.zeros(worlds, np.uint64)
        self.scratch = np.zeros(int(shares.max()) * sizeof(hr_finished), np.uint8)
        self.front = <hr_front *>base
        hr_front_init(self.front)
        cdef size_t offset = hr_round_line(sizeof(hr_front))
        for k in range(self.workers):
            self.addresses[k] = <uint64_t>(base + offset)
            offset += hr_desk_bytes(shares[k])
        self.desks = <hr_desk **>&self.addresses[0]
        for k in range(self.workers):
            hr_desk_init(self.desks[k], shares[k])

    def clear(self, int64_t worker):
        """Empties the desk of a worker that does not run and collects what it had finished;
        the worlds that it had not, int64."""
        self.collect()
        unfinished = np.zeros(self.starts[worker + 1] - self.starts[worker], np.int64)
        cdef int64_t[::1] out = unfinished
        cdef int64_t count = hr_desk_unfinished(self.desks[worker], &out[0])
        hr_desk_init(self.desks[worker], len(unfinished))
        self.collected[worker] = 0
        return unfinished[:count]

    def post(self, const int64_t[::1] worlds):
        """Gives worlds to their workers, which are woken once each.

        Of one worker's, those that have waited longest come first: in the order in which the
        caller names them, one whose number is high could fall behind again and again.
        """
        cdef int64_t i, k
        with nogil:
            self.counts[:] = 0
            for i in range(worlds.shape[0]):
                self.enqueue(worlds[i])
            for k in range(self.workers):
                for i in range(self.starts[k], self.starts[k] + self.counts[k]):
                    hr_desk_post(self.desks[k], self.queues[i])
                if self.counts[k]:
                    hr_bell_ring(&self.desks[k].bell)

    cdef void enqueue(self, int64_t world) noexcept nogil:
        """Puts a world into its worker's part of `queues`, before those that finished later."""
        cdef int32_t k = self.owners[world]
        cdef int64_t low = self.starts[k], at = self.starts[k] + self.counts[k]
        while at > low and self.finished[self.queues[at - 1]] > self.finished[world]:
            self.queues[at] = self.queues[at - 1]
            at -= 1
        self.queues[at] = world
        self.counts[k] += 1

    def tell(self, int64_t worker):
        """A letter has been sent to a worker: wakes it."""
        hr_desk_tell(self.desks[worker])

    def doing(self, int64_t worker):
        """The world that a worker steps or resets now, -1 for none, and how many it has begun."""
        return hr_desk_current(self.desks[worker]), hr_desk_begun(self.desks[worker])

    def wait(self, int64_t count):
        """Sleeps until `count` worlds are ready, a letter is announced, or SLICE_NS are over.

        Returns how many are ready (`take` gives them) and whether there are new letters.
        """
        cdef int64_t until = hr__now_ns() + SLICE_NS
        cdef bint together = self.expected(NULL) <= count
        hr_front_set_spin(self.front, self.together_ns if together else self.apart_ns)
        cdef uint64_t finished
        cdef uint32_t letters
        cdef int64_t left
        while True:
            finished = hr_front_finished(self.front)
            letters = self.announced()
            self.collect()
            left = until - hr__now_ns()
            if self.readies >= count or letters != self.letters or left <= 0:
                break
            with nogil:
                hr_front_sleep(self.front, finished + <uint64_t>(count - self.readies),
                               self.desks, self.workers, letters, self.spin_ns, left)
            PyErr_CheckSignals()
        fresh = letters != self.letters
        self.letters = letters
        return self.readies, fresh

    def take(self, int64_t count):
        """The first `count` ready worlds, int64, in the order in which they were finished."""
        count = min(count, self.readies)
        taken = np.empty(count, np.int64)
        cdef int64_t[::1] out = taken
        cdef int64_t i
        for i in range(count):
            out[i] = self.ready[i]
        for i in range(count, self.readies):
            self.ready[i - count] = self.ready[i]
            self.tickets[i - count] = self.tickets[i]
        self.readies -= count
        return taken

    cdef int64_t expected(self, hr_desk *other) noexcept:
        """Worlds that are ready, or with a worker other than that of one desk (NULL: any)."""
        cdef int64_t k, total
        self.collect()
        total = self.readies
        for k in range(self.workers):
            if self.desks[k] != other:
                total += <int64_t>(hr_desk_posted(self.desks[k]) - self.collected[k])
        return total

    cdef uint32_t announced(self) noexcept:
        cdef uint32_t total = 0
        cdef int64_t k
        for k in range(self.workers):
            total += hr_desk_announced(self.desks[k])
        return total

    cdef void collect(self) noexcept:
        """Takes what the desks have finished, and keeps `ready` in the order of tickets."""
        cdef hr_finished *found = <hr_finished *>&self.scratch[0]
        cdef int64_t k, i, at, count
        for k in range(self.workers):
            count = hr_desk_collect(self.desks[k], &self.collected[k], found)
            for i in range(count):
                at = self.readies
                while at > 0 and self.tickets[at - 1] > found[i].ticket:
                    self.ready[at] = self.ready[at - 1]
                    self.tickets[at] = self.tickets[at - 1]
                    at -= 1
                self.ready[at] = found[i].world
                self.tickets[at] = found[i].ticket
                self.finished[found[i].world] = found[i].ticket
                self.readies += 1


include "_rows.pxi"


cdef class Desk:
    """A worker's side."""

    cdef readonly object memory
    cdef hr_front *front
    cdef hr_desk *desk
    cdef uint32_t letters

    def __init__(self, memory, starts, int64_t worker):
        """memory: of the board that a Front has made; worker: whose desk."""
        cdef cnp.ndarray[uint8_t, ndim=1, mode="c"] block = memory
        cdef size_t offset = hr_round_line(sizeof(hr_front))
        for share in np.diff(starts)[:worker]:
            offset += hr_desk_bytes(share)
        self.memory = memory
        self.front = <hr_front *>block.data
        self.desk = <hr_desk *>(<char *>block.data + offset)

    def work(self, RowStepper stepper, tell):
        """Steps the worlds that the front gives, one after the other, until there is a letter.

        tell: a function (world, letter), for what a world has to say at length. What a step
        raises comes as it is; its world is not finished then.
        """
        cdef int64_t world
        while True:
            world = hr_desk_take(self.desk, self.letters)
            while world == HR_NOTHING:
                with nogil:
                    hr_desk_sleep(self.desk, self.front, self.letters, PATIENCE_NS)
                world = hr_desk_take(self.desk, self.letters)
            if world == HR_LETTER:
                self.letters += 1
                return
            said = stepper.step(world)
            if said is not None:
                tell(world, said)
            hr_desk_finish(self.desk, self.front, world)

    def work_beside(self, Front front, RowStepper stepper, tell, int64_t count, int64_t least,
                    int64_t most):
        """Where the batch's own process is a worker: steps worlds that it has given itself,
        until `count` are ready, or will be when the other workers have finished theirs.

        At least `least` of them, and beyond what the others cannot do at most `most`. Does not
        sleep. Returns how many.
        """
        cdef int64_t world, done = 0
        least = max(least, count - front.expected(self.desk))
        while done < least or (done < most and front.readies < count):
            world = hr_desk_take(self.desk, self.letters)
            if world == HR_NOTHING:
                break
            said = stepper.step(world)
            if said is not None:
                tell(world, said)
            hr_desk_finish(self.desk, self.front, world)
            done += 1
            front.collect()
            PyErr_CheckSignals()
        return done

    def begin(self, int64_t world):
        """Notes that a world is being reset; -1: that the worker is done with resetting."""
        hr_desk_begin(self.desk, world)

    def announce(self):
        """A letter to the front is about to be sent: makes the front read it."""
        hr_desk_announce(self.desk, self.front)
