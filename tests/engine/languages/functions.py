"""All that environments in Numba may call: the values, to be compared with the header's."""

import numpy as np

from headrace import field, maths, numba_env

ALL = (-np.inf, np.inf)


@numba_env
class Functions:
    state = np.dtype([("draws", "f4", (16,)), ("order", "i4", (8,)), ("x", "f4"), ("y", "f4")])
    action = {"x": field(*ALL), "y": field(*ALL)}
    obs = {"values": field(*ALL, shape=15), "draws": field(*ALL, shape=16),
           "order": field(0, 7, dtype=np.int32, shape=8)}  # fmt: skip

    def reset(p, s, rng):
        s.x = s.y = 0.0

    def step(p, s, a, out, rng):
        s.x = a.x
        s.y = a.y
        bits = rng.bits()
        s.draws[0] = np.float32(bits >> np.uint64(40))
        s.draws[1] = np.float32(bits & np.uint64(0xFFFFFF))
        s.draws[2] = rng.unit()
        s.draws[3] = rng.uniform(-3.0, 0.1)
        s.draws[4] = rng.normal()
        s.draws[5] = rng.randint(7)
        s.draws[6] = rng.randint(2147483647)
        s.draws[7] = rng.bernoulli(0.3)
        for k in range(8):
            s.order[k] = k
        rng.shuffle(s.order)
        rng.uniforms(s.draws[8:15], -0.05, 0.07)
        s.draws[15] = rng.unit()

    def observe(p, s, o):
        x, y = s.x, s.y
        o.values[0] = maths.sin(x)
        o.values[1] = maths.cos(x)
        o.values[2] = maths.tan(x)
        o.values[3] = maths.exp(x)
        o.values[4] = maths.log(x)
        o.values[5] = maths.tanh(x)
        o.values[6] = maths.floor(x)
        o.values[7] = maths.sqrt(x)
        o.values[8] = maths.fabs(x)
        o.values[9] = maths.atan2(y, x)
        o.values[10] = maths.wrap_angle(x)
        o.values[11] = maths.min(x, y)
        o.values[12] = maths.max(x, y)
        o.values[13] = maths.clamp(x, -0.7, 1.3)
        o.values[14] = x * 0.1 + y / 3.0
        o.draws = s.draws
        o.order = s.order
