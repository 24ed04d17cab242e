"""demo: walk along a line to a target.

observation  where the walker and the target are, -1 to 1
action       0 goes to the left, 1 stays, 2 goes to the right
reward       1 at the target, -0.02 for every other step
start        walker and target at random
end          terminated at the target; truncated after 100 steps
"""

from headrace cimport *


cdef struct Params:
    float pace  # length of a step


cdef struct State:
    float place, target


cdef struct Action:
    int32_t move


cdef struct Obs:
    float place, target


cdef void demo_reset(const Params *p, State *s, hr_rng *rng) noexcept nogil:
    s.place = hr_uniform(rng, -1.0, 1.0)
    s.target = hr_uniform(rng, -1.0, 1.0)


cdef void demo_step(const Params *p, State *s, const Action *a, hr_outcome *out,
                    hr_rng *rng) noexcept nogil:
    s.place = hr_clamp(s.place + p.pace * <float>(a.move - 1), -1.0, 1.0)
    out.terminated = hr_fabs(s.place - s.target) < p.pace
    out.reward = 1.0 if out.terminated else -0.02


cdef void demo_observe(const Params *p, const State *s, Obs *o) noexcept nogil:
    o.place = s.place
    o.target = s.target


cdef void demo_draw(const Params *p, const State *s, hr_frame *frame) noexcept nogil:
    cdef float middle = 0.5 * <float>frame.height, half = 0.5 * <float>frame.width
    hr_fill(frame, hr_rgb(28, 31, 38))
    hr_line(frame, 0, middle, 2 * half, middle, 2, hr_rgb(120, 126, 140))
    hr_disc(frame, half + 0.9 * half * s.target, middle, 16, hr_rgb(232, 184, 72))
    hr_disc(frame, half + 0.9 * half * s.place, middle, 10, hr_rgb(86, 182, 194))


cdef extern from *:
    """
    HR_ENV(demo, HR_OBS(HR_FIELD(Obs, place, -1, 1), HR_FIELD(Obs, target, -1, 1)),
           HR_ACTION(HR_DISCRETE(Action, move, 3)), HR_PARAMS(HR_PARAM(pace, 0.05f)),
           .max_steps = 100, .draw = demo_draw)
    """
