"""Writes one element past its observation."""

from headrace cimport *


ctypedef hr_none Params


cdef struct State:
    float place
    int32_t steps


cdef struct Action:
    int32_t move


cdef struct Obs:
    float place[2]


cdef void past_pyx_reset(const Params *p, State *s, hr_rng *rng) noexcept nogil:
    s.place = hr_uniform(rng, -0.5, 0.5)


cdef void past_pyx_step(const Params *p, State *s, const Action *a, hr_outcome *out,
                        hr_rng *rng) noexcept nogil:
    s.steps += 1
    out.reward = s.place


cdef void past_pyx_observe(const Params *p, const State *s, Obs *o) noexcept nogil:
    cdef int32_t i, count = 3 if s.steps > 5 else 2
    for i in range(count):
        (&o.place[0])[i] = s.place


cdef extern from *:
    """
    HR_ENV(past_pyx, HR_OBS(HR_FIELD(Obs, place, -1, 1)), HR_ACTION(HR_DISCRETE(Action, move, 2)),
           HR_PARAMS(), .max_steps = 60)
    """
