"""demo: walk along a line to a target.

observation  where the walker and the target are, -1 to 1
action       0 goes to the left, 1 stays, 2 goes to the right
reward       1 at the target, -0.02 for every other step
start        walker and target at random
end          terminated at the target; truncated after 100 steps
"""

import numpy as np

import headrace
from headrace import maths


@headrace.numba_env(name="demo", max_steps=100)
class Demo:
    """p: parameters, s: state, a: action, o: observation."""

    params = {"pace": 0.05}  # length of a step
    state = np.dtype([("place", np.float32), ("target", np.float32)])
    action = {"move": headrace.discrete(3)}
    obs = {"place": headrace.field(-1, 1), "target": headrace.field(-1, 1)}

    def reset(p, s, rng):
        s.place = rng.uniform(-1.0, 1.0)
        s.target = rng.uniform(-1.0, 1.0)

    def step(p, s, a, out, rng):
        s.place = maths.clamp(s.place + p.pace * (a.move - 1), -1.0, 1.0)
        out.terminated = maths.fabs(s.place - s.target) < p.pace
        out.reward = 1.0 if out.terminated else -0.02

    def observe(p, s, o):
        o.place = s.place
        o.target = s.target

    def draw(p, s, frame):
        middle, half = 0.5 * frame.height, 0.5 * frame.width
        frame.fill((28, 31, 38))
        frame.line(0, middle, 2 * half, middle, 2, (120, 126, 140))
        frame.disc(half + 0.9 * half * s.target, middle, 16, (232, 184, 72))
        frame.disc(half + 0.9 * half * s.place, middle, 10, (86, 182, 194))
