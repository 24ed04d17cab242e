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

    def draw(p, s, frame):
        w, h = frame.width, frame.height
        frame.fill((10, 20, 30))
        for k in range(16):
            x, y = s.draws[k % 8 + 8] * 10 * w, s.draws[2] * h + k * 7.3
            frame.line(x, y, w - x * 1.7, y * 1.3 - 20, 1.0 + k * 0.7, (200, 10 * k, 5))
            frame.disc(y, x, 3.0 + k * 0.9, (5 * k, 200, 90))
            frame.rect(x - 8, y + 20, 5.5, 9.25, (k, k, 255))
        end = frame.text(-7, 11.5, 2.5, (255, 255, 0), "Hello, ~world~ 42%\xe9!")
        frame.text(end, 60, 1.3, (255, 255, 255), "end")
        frame.rect(5, 5, -3, 4, (1, 1, 1))
        frame.rect(w - 3, h - 3, 1e9, 1e9, (1, 2, 3))
