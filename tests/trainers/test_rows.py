"""Kernels over rows of observations, as modules of torch read them, against their naive twins."""

import naive
import numpy as np
import pytest

from headrace.engine.errors import ArgumentError
from headrace.trainers import _native

SHAPES = [(1, 1), (64, 4), (150, 7), (3, 200), (0, 5)]


def rows_of(count, features):
    rng = np.random.default_rng(count + features)
    x = (5 * rng.standard_normal((count, features))).astype(np.float32)
    mean = rng.standard_normal(features).astype(np.float32)
    return x, mean, rng.random(features).astype(np.float32) + 0.5, rng.random(count) < 0.6


@pytest.mark.parametrize(("count", "features"), SHAPES)
def test_rows_are_normalised_as_by_hand(count, features):
    x, mean, scale, _ = rows_of(count, features)
    if count > 2:
        x[0, 0], x[1, -1] = np.nan, np.inf
    np.testing.assert_array_equal(
        _native.normalize_rows(x, mean, scale, 4.0), naive.normalized_rows(x, mean, scale, 4.0)
    )


@pytest.mark.parametrize(("count", "features"), SHAPES)
def test_sums_are_those_by_hand_and_of_valid_rows_alone(count, features):
    x, mean, _, valid = rows_of(count, features)
    x[~valid] = np.nan
    found = _native.sums_of_rows(x, valid.astype(np.float32), mean)
    np.testing.assert_allclose(found, naive.sums_of_rows(x, valid, mean), rtol=1e-12, atol=1e-12)


def test_other_arrays_are_refused():
    x, mean, scale, valid = rows_of(10, 4)
    with pytest.raises(ArgumentError, match="x must be a C-contiguous float32 array of 40"):
        _native.normalize_rows(x[:, ::-1], mean, scale, 1.0)
    with pytest.raises(ArgumentError, match="scale must be a C-contiguous float32 array of 4"):
        _native.normalize_rows(x, mean, scale[:3], 1.0)
    with pytest.raises(ArgumentError, match="valid must be a C-contiguous float32 array of 10"):
        _native.sums_of_rows(x, valid, mean)
