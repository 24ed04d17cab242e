"""Writes one element past its observation."""

import numpy as np

import headrace


@headrace.numba_env(name="past_end", max_steps=60)
class PastEnd:
    state = np.dtype([("place", np.float32), ("steps", np.int32)])
    action = {"move": headrace.discrete(2)}
    obs = {"place": headrace.field(-1, 1, shape=2)}

    def reset(p, s, rng):
        s.place = rng.uniform(-0.5, 0.5)

    def step(p, s, a, out, rng):
        s.steps += 1
        out.reward = s.place

    def observe(p, s, o):
        for i in range(3 if s.steps > 5 else 2):
            o.place[i] = s.place
