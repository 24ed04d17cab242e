"""The functions of headrace/math.h for environments in Python, with the same bits.

They are plain Python over float32, compiled together with the environment that calls them; called
from Python they give the same values, one number at a time. Angles are in radians; errors are
those that the header states for its functions of the same names.
"""

# Floats in this module are float32, as in every function that an environment calls (source.py).
# Each function starts by making its arguments float32 and follows its twin in math.h line by line.

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = [
    "PI", "atan2", "clamp", "cos", "exp", "fabs", "floor", "log", "max", "min", "sin", "sqrt",
    "tan", "tanh", "wrap_angle",
]  # fmt: skip

PI = np.float32(3.14159265358979323846)
_ROUNDER = np.float32(12582912.0)  # 1.5 * 2^23
_INFINITY = np.float32(np.inf)
_NAN = np.float32(np.nan)


def _bits(x: Any) -> Any:
    return np.float32(x).view(np.uint32)


def _from_bits(bits: Any) -> Any:
    return np.uint32(bits).view(np.float32)


def fabs(x: Any) -> Any:
    """Absolute value."""
    return _from_bits(_bits(x) & np.uint32(0x7FFFFFFF))


def sqrt(x: Any) -> Any:
    """Square root, NaN below zero."""
    return np.sqrt(np.float32(x))


def min(x: Any, y: Any) -> Any:
    """The smaller of two; the second when either is NaN."""
    x, y = np.float32(x), np.float32(y)
    return x if x < y else y


def max(x: Any, y: Any) -> Any:
    """The larger of two; the second when either is NaN."""
    x, y = np.float32(x), np.float32(y)
    return x if x > y else y


def clamp(x: Any, low: Any, high: Any) -> Any:
    """x limited to [low, high]."""
    x, low, high = np.float32(x), np.float32(low), np.float32(high)
    raised = low if x < low else x
    return high if raised > high else raised


def floor(x: Any) -> Any:
    """Largest integer <= x, as a float32."""
    x = np.float32(x)
    small = min(max(x, -8388608.0), 8388608.0)
    cut = np.float32(np.int32(small))
    down = cut - (np.float32(1.0) if cut > small else np.float32(0.0))
    return down if fabs(x) < 8388608.0 else x


def _rest(x: Any, shifted: Any) -> Any:
    turns = np.float64(shifted - _ROUNDER)
    rest = (np.float64(x) - turns * np.float64(1.57079632673412561417e00)) - turns * np.float64(
        6.07710050650619224932e-11
    )
    return clamp(np.float32(rest), -0.9, 0.9)


def _sin_quadrant(x: Any, quadrant: Any) -> Any:
    z = x * x
    p = (np.float32(-1.9515295891e-4) * z + np.float32(8.3321608736e-3)) * z
    p = p - np.float32(1.6666654611e-1)
    sine = p * z * x + x
    q = (np.float32(2.443315711809948e-5) * z - np.float32(1.388731625493765e-3)) * z
    q = q + np.float32(4.166664568298827e-2)
    cosine = q * z * z - np.float32(0.5) * z + np.float32(1.0)
    value = cosine if (quadrant & np.uint32(1)) != 0 else sine
    return _from_bits(_bits(value) ^ ((quadrant & np.uint32(2)) << np.uint32(30)))


def sin(x: Any) -> Any:
    """Sine."""
    x = np.float32(x)
    shifted = x * np.float32(0.636619772367581343) + _ROUNDER
    return _sin_quadrant(_rest(x, shifted), _bits(shifted))


def cos(x: Any) -> Any:
    """Cosine."""
    x = np.float32(x)
    shifted = x * np.float32(0.636619772367581343) + _ROUNDER
    return _sin_quadrant(_rest(x, shifted), _bits(shifted) + np.uint32(1))


def tan(x: Any) -> Any:
    """Tangent."""
    return sin(x) / cos(x)


def atan2(y: Any, x: Any) -> Any:
    """Angle of the point (x, y), in [-pi, pi]; 0 for the origin."""
    y, x = np.float32(y), np.float32(x)
    ax, ay = fabs(x), fabs(y)
    long, short = max(ax, ay), min(ax, ay)
    t = short / long if long > 0.0 else long
    high = (t - np.float32(1.0)) / (t + np.float32(1.0))
    far = t > np.float32(0.41421356)
    base = np.float32(0.785398163397448) if far else np.float32(0.0)
    u = high if far else t
    z = u * u
    p = (np.float32(8.05374449538e-2) * z - np.float32(1.38776856032e-1)) * z
    p = (p + np.float32(1.99777106478e-1)) * z - np.float32(3.33329491539e-1)
    angle = base + (p * z * u + u)
    angle = np.float32(1.57079632679489662) - angle if ay > ax else angle
    angle = PI - angle if x < 0.0 else angle
    return -angle if y < 0.0 else angle


def wrap_angle(x: Any) -> Any:
    """x + 2 pi k for the k that brings it into [-pi, pi]."""
    x = np.float32(x)
    turns = np.float64((x * np.float32(0.159154943091895336) + _ROUNDER) - _ROUNDER)
    rest = (np.float64(x) - turns * np.float64(6.28318530693650245668e00)) - turns * np.float64(
        2.43084020260247689973e-10
    )
    if rest > np.float64(3.14159265358979323846):
        rest -= np.float64(6.28318530717958647693)
    if rest < np.float64(-3.14159265358979323846):
        rest += np.float64(6.28318530717958647693)
    return clamp(np.float32(rest), -PI, PI)


def _power_of_two(k: Any) -> Any:
    return _from_bits(np.uint32(k + 127) << np.uint32(23))


def exp(x: Any) -> Any:
    """e^x."""
    limited = clamp(x, -105.0, 90.0)
    shifted = limited * np.float32(1.44269504088896341) + _ROUNDER
    k = shifted - _ROUNDER
    r = (limited - k * np.float32(0.693359375)) + k * np.float32(2.12194440e-4)
    p = np.float32(1.9875691500e-4)
    p = p * r + np.float32(1.3981999507e-3)
    p = p * r + np.float32(8.3334519073e-3)
    p = p * r + np.float32(4.1665795894e-2)
    p = p * r + np.float32(1.6666665459e-1)
    p = p * r + np.float32(5.0000001201e-1)
    p = p * (r * r) + r + np.float32(1.0)
    n = np.int32((_bits(shifted) + np.uint32(512)) & np.uint32(1023)) - 512
    half = (n + (1 if n < 0 else 0)) >> 1  # towards zero, as C divides
    return p * _power_of_two(half) * _power_of_two(n - half)


def log(x: Any) -> Any:
    """Natural logarithm; -infinity at 0, NaN below."""
    x = np.float32(x)
    tiny = x < np.float32(1.17549435e-38)
    scaled = x * np.float32(8388608.0) if tiny else x
    bits = np.uint32(np.int64(_bits(scaled)) - 0x3F3504F3 & 0xFFFFFFFF)
    exponent = bits.view(np.int32) >> 23
    e = np.float32(exponent - (23 if tiny else 0))
    m = _from_bits((bits & np.uint32(0x007FFFFF)) + np.uint32(0x3F3504F3)) - np.float32(1.0)
    z = m * m
    p = np.float32(7.0376836292e-2)
    p = p * m - np.float32(1.1514610310e-1)
    p = p * m + np.float32(1.1676998740e-1)
    p = p * m - np.float32(1.2420140846e-1)
    p = p * m + np.float32(1.4249322787e-1)
    p = p * m - np.float32(1.6668057665e-1)
    p = p * m + np.float32(2.0000714765e-1)
    p = p * m - np.float32(2.4999993993e-1)
    p = p * m + np.float32(3.3333331174e-1)
    y = p * m * z - e * np.float32(2.12194440e-4) - np.float32(0.5) * z
    value = m + y + e * np.float32(0.693359375)
    value = value if x < _INFINITY else x
    value = -_INFINITY if x == 0.0 else value
    return _NAN if x < 0.0 else value


def tanh(x: Any) -> Any:
    """Hyperbolic tangent."""
    x = np.float32(x)
    size = fabs(x)
    z = x * x
    p = np.float32(-5.70498872745e-3)
    p = p * z + np.float32(2.06390887954e-2)
    p = p * z - np.float32(5.37397155531e-2)
    p = p * z + np.float32(1.33314422036e-1)
    p = p * z - np.float32(3.33332819422e-1)
    near = p * z * x + x
    far = np.float32(1.0) - np.float32(2.0) / (exp(np.float32(2.0) * size) + np.float32(1.0))
    sign = _bits(x) & np.uint32(0x80000000)
    return near if size < 0.625 else _from_bits(_bits(far) | sign)
