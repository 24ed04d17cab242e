"""headrace/math.h against exact values: every bound that the header states."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest
from driven import address, load

Function = Callable[[np.ndarray], np.ndarray]
SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1e38, -1e38, 1e-45, -1e-45, 89.0, -110.0, 0.5, -1.5, 3e9],
    np.float32,
)


@pytest.fixture(scope="module")
def lib() -> ctypes.CDLL:
    return load("math_probe")


def run(lib: ctypes.CDLL, name: str, x: np.ndarray, loop: str = "vector") -> np.ndarray:
    x = np.ascontiguousarray(x, np.float32)
    out = np.empty_like(x)
    getattr(lib, f"{name}_{loop}")(address(x), address(out), ctypes.c_int64(x.size))
    return out


def ulps(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Distance from the exact value in units of the last place of float32."""
    unit = np.spacing(np.abs(exact.astype(np.float32))).astype(np.float64)
    return np.abs(got.astype(np.float64) - exact) / unit


def samples(low: float, high: float, count: int = 400_000) -> np.ndarray:
    return np.random.default_rng(0).uniform(low, high, count).astype(np.float32)


def magnitudes(low: float, high: float, count: int = 200_000) -> np.ndarray:
    """Numbers of all sizes between two powers of ten."""
    rng = np.random.default_rng(1)
    return np.float32(10.0) ** rng.uniform(low, high, count).astype(np.float32)


def beside_quarters() -> np.ndarray:
    """The floats at and next to the multiples of pi/2 up to 1e5, where sin or cos is near 0."""
    at = (np.arange(-63_000, 63_000) * (np.pi / 2)).astype(np.float32)
    top = np.float32(np.inf)
    return np.concatenate([at, np.nextafter(at, top), np.nextafter(at, -top)])


ANGLES = np.concatenate(
    [samples(-4, 4), samples(-1e3, 1e3), samples(-1e5, 1e5), beside_quarters(), magnitudes(-38, 0)]
)
CASES: list[tuple[str, Function, np.ndarray, float]] = [
    ("sin", np.sin, ANGLES, 2.0),
    ("cos", np.cos, ANGLES, 2.0),
    ("sin", np.sin, samples(-1e6, 1e6), 4.0),
    ("cos", np.cos, samples(-1e6, 1e6), 4.0),
    ("tan", np.tan, ANGLES, 4.0),
    ("exp", np.exp, np.concatenate([samples(-103.9, 88.7), samples(-1, 1)]), 2.0),
    ("log", np.log, np.concatenate([magnitudes(-44, 38), samples(0.5, 2)]), 2.0),
    ("log", np.log, 1 + np.arange(-300_000, 300_000) * 2.0**-24, 2.0),
    ("tanh", np.tanh, np.concatenate([samples(-10, 10), samples(-1, 1), magnitudes(-38, 1)]), 2.0),
    ("sqrt", np.sqrt, magnitudes(-44, 38), 0.5),
    ("fabs", np.abs, samples(-1e6, 1e6), 0.0),
    ("floor", np.floor, np.concatenate([samples(-2e7, 2e7), samples(-3, 3)]), 0.0),
    ("floor", np.floor, np.arange(-6, 7) / 2, 0.0),
]


@pytest.mark.parametrize(("name", "exact", "x", "bound"), CASES)
def test_error_bound(
    lib: ctypes.CDLL, name: str, exact: Function, x: np.ndarray, bound: float
) -> None:
    x = x.astype(np.float32)
    error = ulps(run(lib, name, x), exact(x.astype(np.float64)))
    worst = error.argmax()
    assert error[worst] <= bound, f"hr_{name}({x[worst]!r}) is off by {error[worst]} ulp"


@pytest.mark.parametrize("name", sorted({case[0] for case in CASES} | {"wrap_angle"}))
def test_vector_and_scalar_give_the_same_bits(lib: ctypes.CDLL, name: str) -> None:
    x = np.concatenate([samples(-1e6, 1e6, 100_003), samples(-5, 5, 100_003), SPECIAL])
    vector, scalar = run(lib, name, x), run(lib, name, x, "scalar")
    numbers = ~np.isnan(vector)
    assert (numbers == ~np.isnan(scalar)).all()
    assert (vector.view(np.uint32) == scalar.view(np.uint32))[numbers].all()


def test_special_values(lib: ctypes.CDLL) -> None:
    inf, nan = np.inf, np.nan
    x = np.array([0, inf, -inf, nan], np.float32)
    expected = {
        "sin": [0, nan, nan, nan],
        "cos": [1, nan, nan, nan],
        "tan": [0, nan, nan, nan],
        "exp": [1, inf, 0, nan],
        "log": [-inf, inf, nan, nan],
        "tanh": [0, 1, -1, nan],
        "sqrt": [0, inf, nan, nan],
        "fabs": [0, inf, inf, nan],
        "floor": [0, inf, -inf, nan],
        "wrap_angle": [0, nan, nan, nan],
    }
    for name, values in expected.items():
        np.testing.assert_array_equal(run(lib, name, x), np.array(values, np.float32), name)
    np.testing.assert_array_equal(run(lib, "exp", np.array([89, -104.5])), [np.inf, 0])
    assert np.isnan(run(lib, "log", np.array([-1e-45, -1.0, -3e38]))).all()


def test_angles_beyond_the_stated_range_stay_in_bounds(lib: ctypes.CDLL) -> None:
    x = np.concatenate([magnitudes(6, 38), -magnitudes(6, 38)])
    assert np.abs(run(lib, "sin", x)).max() <= 1
    assert np.abs(run(lib, "cos", x)).max() <= 1
    assert np.abs(run(lib, "wrap_angle", x)).max() <= np.float32(np.pi)


def test_wrap_angle(lib: ctypes.CDLL) -> None:
    x = np.concatenate([samples(-1e6, 1e6), samples(-10, 10), beside_quarters()])
    off = run(lib, "wrap_angle", x).astype(np.float64) - x
    off -= 2 * np.pi * np.round(off / (2 * np.pi))
    assert np.abs(off).max() <= 2.4e-7
    inside = samples(-3.14, 3.14)
    np.testing.assert_array_equal(run(lib, "wrap_angle", inside), inside)


def atan2(lib: ctypes.CDLL, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    y, x = (np.ascontiguousarray(each, np.float32) for each in (y, x))
    out = np.empty_like(x)
    lib.atan2_vector(address(y), address(x), address(out), ctypes.c_int64(x.size))
    return out


def test_atan2(lib: ctypes.CDLL) -> None:
    rng = np.random.default_rng(2)
    y = np.concatenate([samples(-3, 3), magnitudes(-30, 30) * rng.choice([-1, 1], 200_000)])
    x = rng.permutation(y)
    y, x = y.astype(np.float32), x.astype(np.float32)
    error = ulps(atan2(lib, y, x), np.arctan2(y.astype(np.float64), x.astype(np.float64)))
    assert error.max() <= 4
    axes = atan2(lib, np.array([0, 0, 1, -1, 0, 3e38]), np.array([0, 1, 0, 0, -1, 3e38]))
    expected = np.array([0, 0, np.pi / 2, -np.pi / 2, np.pi, np.pi / 4], np.float32)
    np.testing.assert_array_equal(axes, expected)


def test_clamp_min_max(lib: ctypes.CDLL) -> None:
    x = np.array([-2, -1, 0.5, 1, 7, -np.inf, np.inf, np.nan], np.float32)
    out = np.empty_like(x)
    low, high = ctypes.c_float(-1), ctypes.c_float(1)
    lib.clamp_vector(address(x), low, high, address(out), ctypes.c_int64(x.size))
    np.testing.assert_array_equal(out, [-1, -1, 0.5, 1, 1, -1, 1, np.nan])
    for a, b, expected in [(1, 2, (1, 2)), (2, 1, (1, 2)), (np.nan, 3, (3, 3))]:
        pair = np.array([a, b], np.float32)
        lib.least_and_most(address(pair), address(pair[1:]), address(out))
        assert tuple(out[:2]) == expected
