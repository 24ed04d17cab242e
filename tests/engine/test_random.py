"""headrace/random.h: Threefry's known answers, and the distributions drawn from it."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from driven import address, load

M32 = 0xFFFFFFFF


@pytest.fixture(scope="module")
def lib() -> ctypes.CDLL:
    return load("random_probe")


def stream(key: int = 1, counter: int = 0) -> np.ndarray:
    return np.array([key, counter], np.uint64)


def draw(lib: ctypes.CDLL, name: str, dtype: type, count: int, rng: np.ndarray) -> np.ndarray:
    out = np.zeros(count, dtype)
    getattr(lib, name)(address(rng), address(out), ctypes.c_int64(count))
    return out


def threefry(key: int, counter: int) -> int:
    """Threefry-2x32-20 in plain Python: the naive twin."""
    keys = [key & M32, key >> 32]
    keys.append(0x1BD11BDA ^ keys[0] ^ keys[1])
    a, b = (counter + keys[0]) & M32, ((counter >> 32) + keys[1]) & M32
    rotations = (13, 15, 26, 6, 17, 29, 16, 24)
    for turn in range(20):
        a = (a + b) & M32
        by = rotations[turn % 8]
        b = ((b << by | b >> (32 - by)) & M32) ^ a
        if turn % 4 == 3:
            group = turn // 4 + 1
            a = (a + keys[group % 3]) & M32
            b = (b + keys[(group + 1) % 3] + group) & M32
    return b << 32 | a


# From Random123's kat_vectors, threefry2x32 with 20 rounds: counter, key, result (low word first).
KNOWN = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((M32, M32), (M32, M32), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]


@pytest.mark.parametrize(("counter", "key", "result"), KNOWN)
def test_known_answers(
    lib: ctypes.CDLL, counter: tuple[int, int], key: tuple[int, int], result: tuple[int, int]
) -> None:
    rng = stream(key[0] | key[1] << 32, counter[0] | counter[1] << 32)
    expected = result[0] | result[1] << 32
    assert int(draw(lib, "bits", np.uint64, 1, rng)[0]) == expected
    assert threefry(key[0] | key[1] << 32, counter[0] | counter[1] << 32) == expected


def test_a_draw_is_a_function_of_key_and_counter(lib: ctypes.CDLL) -> None:
    rng = stream(0x0123456789ABCDEF, 2**32 - 3)
    got = draw(lib, "bits", np.uint64, 8, rng)
    expected = [threefry(0x0123456789ABCDEF, 2**32 - 3 + k) for k in range(8)]
    assert [int(each) for each in got] == expected
    assert rng.tolist() == [0x0123456789ABCDEF, 2**32 + 5]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("unit", np.float32),
        ("uniform", np.float32),
        ("normal", np.float32),
        ("die", np.int32),
        ("seldom", bool),
    ],
)
def test_each_takes_one_draw(lib: ctypes.CDLL, name: str, dtype: type) -> None:
    rng = stream()
    draw(lib, name, dtype, 5, rng)
    assert rng.tolist() == [1, 5]


def test_unit_and_uniform(lib: ctypes.CDLL) -> None:
    unit = draw(lib, "unit", np.float32, 200_000, stream())
    assert unit.min() >= 0
    assert unit.max() < 1
    np.testing.assert_array_equal(unit * 2**24, np.floor(unit * 2**24))
    bits = draw(lib, "bits", np.uint64, 200_000, stream())
    np.testing.assert_array_equal(unit, (bits >> np.uint64(40)).astype(np.float32) / 2**24)
    assert np.abs(np.histogram(unit, 20, (0, 1))[0] / 10_000 - 1).max() < 0.05
    uniform = draw(lib, "uniform", np.float32, 200_000, stream())
    np.testing.assert_array_equal(uniform, np.float32(-3) + np.float32(8) * unit)


def test_uniforms_takes_two_numbers_from_each_draw(lib: ctypes.CDLL) -> None:
    for count in (0, 1, 2, 5):
        rng, out = stream(), np.full(6, 9, np.float32)
        lib.uniforms(address(rng), address(out), ctypes.c_int32(count))
        words = draw(lib, "bits", np.uint64, 3, stream()).view(np.uint32)  # low word first
        expected = -3 + 8 * ((words >> 8).astype(np.float32) / np.float32(2**24))
        np.testing.assert_array_equal(out[:count], expected[:count])
        assert (out[count:] == 9).all()
        assert rng.tolist() == [1, (count + 1) // 2]


def test_normal(lib: ctypes.CDLL) -> None:
    z = draw(lib, "normal", np.float32, 400_000, stream()).astype(np.float64)
    assert abs(z.mean()) < 0.01
    assert abs(z.std() - 1) < 0.01
    assert abs((z**3).mean()) < 0.03
    assert abs((z**4).mean() - 3) < 0.1
    assert np.abs(z).max() <= 6.56
    for limit, share in [(1, 0.682689), (2, 0.954500), (3, 0.997300)]:
        assert abs((np.abs(z) < limit).mean() - share) < 0.003


def test_randint(lib: ctypes.CDLL) -> None:
    die = draw(lib, "die", np.int32, 120_000, stream())
    assert np.abs(np.bincount(die, minlength=6) / 20_000 - 1).max() < 0.04
    bits = [threefry(1, k) for k in range(100)]
    assert die[:100].tolist() == [each * 6 >> 64 for each in bits]
    large = draw(lib, "large", np.int32, 100, stream())
    assert large.tolist() == [each * (2**31 - 1) >> 64 for each in bits]
    assert (draw(lib, "one", np.int32, 50, stream()) == 0).all()


def test_bernoulli(lib: ctypes.CDLL) -> None:
    assert not draw(lib, "never", bool, 1000, stream()).any()
    assert draw(lib, "always", bool, 1000, stream()).all()
    assert abs(draw(lib, "seldom", bool, 200_000, stream()).mean() - 0.125) < 0.004


def test_shuffle(lib: ctypes.CDLL) -> None:
    rng, seen = stream(), np.zeros((4, 4), int)
    for _ in range(4000):
        values = np.arange(5, dtype=np.int32)
        lib.shuffle(address(rng), address(values), ctypes.c_int32(4))
        assert values[4] == 4
        assert sorted(values) == [0, 1, 2, 3, 4]
        seen[np.arange(4), values[:4]] += 1
    assert np.abs(seen / 1000 - 1).max() < 0.15
    assert rng.tolist() == [1, 3 * 4000]


def test_streams_of_neighbouring_keys_are_unlike(lib: ctypes.CDLL) -> None:
    units = [draw(lib, "unit", np.float32, 4096, stream(key)) for key in range(8)]
    correlations = np.corrcoef(units) - np.eye(8)
    assert np.abs(correlations).max() < 0.06
