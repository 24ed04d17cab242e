"""Keeps a pointer in its State."""

from headrace cimport *


ctypedef hr_none Params


cdef struct State:
    float *home
    float place[2]


cdef struct Action:
    int32_t move


cdef struct Obs:
    float place


cdef void pointer_reset(const Params *p, State *s, hr_rng *rng) noexcept nogil:
    s.place[1] = hr_uniform(rng, -0.5, 0.5)
    s.home = &s.place[1]


cdef void pointer_step(const Params *p, State *s, const Action *a, hr_outcome *out,
                       hr_rng *rng) noexcept nogil:
    out.reward = s.home[0]


cdef void pointer_observe(const Params *p, const State *s, Obs *o) noexcept nogil:
    o.place = s.place[1]


cdef extern from *:
    """
    HR_ENV(pointer, HR_OBS(HR_FIELD(Obs, place, -1, 1)), HR_ACTION(HR_DISCRETE(Action, move, 2)),
           HR_PARAMS(), .max_steps = 60)
    """
