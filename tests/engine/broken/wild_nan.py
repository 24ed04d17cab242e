"""Its reward is no number after some steps."""

import numpy as np

import headrace


@headrace.numba_env(name="wild_nan", max_steps=60)
class WildNan:
    state = np.dtype([("place", np.float32), ("steps", np.int32)])
    action = {"move": headrace.discrete(2)}
    obs = {"place": headrace.field(-1, 1)}

    def reset(p, s, rng):
        s.place = rng.uniform(-0.5, 0.5)

    def step(p, s, a, out, rng):
        s.steps += 1
        out.reward = np.nan if s.steps == 7 else s.place

    def observe(p, s, o):
        o.place = s.place
