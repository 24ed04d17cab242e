"""tests/engine/c/everything.c in Numba: all that the decorator offers; two agents."""

import numpy as np

from headrace import array, discrete, field, numba_env

SIZE = 3
AGENTS = 2
FILL = (4 - (3 + 2 * SIZE) % 4) % 4 + 4
FINGER = 1
UNIT = 11.0


@numba_env(agents=AGENTS, max_steps=40, metrics=("total", "longest"))
class Everything:
    params = {
        "prices": array(np.float32),
        "big": np.int64(1 << 20),
        "fine": np.float64(0.125),
        "scale": 2.0,
        "offset": -3,
    }
    state = np.dtype([("value", "f4", AGENTS), ("steps", "i4"), ("last", "i4", AGENTS)])
    action = {
        "turn": discrete(3),
        "fingers": discrete(4, shape=2),
        "push": field(-1, 1, shape=2),
    }
    obs = {
        "place": field(-np.inf, np.inf),
        "cube": field(0, 1, shape=(2, 3, SIZE, 1)),
        "count": discrete(1000),
        "height": field(-5, 5, dtype=np.int16, shape=2),
        "small": field(-128, 127, dtype=np.int8, shape=3),
        "pixel": field(0, 255, dtype=np.uint8, shape=(SIZE, 2, 1)),
        "fill": field(0, 0, dtype=np.uint8, shape=FILL),
    }

    def reset(p, s, rng):
        for k in range(AGENTS):
            s.value[k] = p.scale * rng.unit()
        s.steps = rng.bernoulli(0.0)

    def step(p, s, a, out, rng):
        s.steps += 1
        for k in range(AGENTS):
            s.last[k] = a[k].turn
            s.value[k] += a[k].push[0] + np.float32(a[k].fingers[FINGER]) + p.prices[-1]
            out[k].reward = s.value[k] * UNIT
            if a[k].turn == 2:
                out[k].terminated = True
            if a[k].turn == 1:
                out[k].truncated = True

    def observe(p, s, o):
        for k in range(AGENTS):
            clear(o[k])
            o[k].place = s.value[k]
            o[k].cube[1, 2, SIZE - 1, 0] = p.fine
            o[k].count = s.steps
            o[k].height[1] = p.offset
            o[k].small[0] = -k
            o[k].pixel[SIZE - 1, 1, 0] = 3 + p.big

    def present(p, s, there):
        for k in range(AGENTS):
            there[k] = s.last[k] == 0

    def mask(p, s, allowed):
        for k in range(AGENTS):
            allowed[11 * k + s.last[k]] = True

    def metrics(p, s, m):
        m.total = p.scale + s.value[0]
        m.longest = s.steps

    def draw(p, s, frame):
        frame.fill((1, 2, 3))
        frame.rect(s.steps, 0, 1, 1, (9, 8, 7))


def clear(o):
    o.cube[:] = 0
    o.height[:] = 0
    o.small[:] = 0
    o.pixel[:] = 0
    o.fill[:] = 0
