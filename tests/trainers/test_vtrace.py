"""V-trace: against arithmetic done by hand, the row-by-row twin, and GAE where nothing lags."""

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.trainers.advantage import gae, vtrace

G, L = 0.5, 0.25  # discounts that are exact in binary: G * L = 1/8
LOG2, LOG4 = np.log(2), np.log(4)


def one(reward, value, done, last, ratio_logs, **options):
    """Advantages and targets of a single row; ratio_logs: current - behaviour."""
    arrays = {
        k: np.array(v, np.float32)[:, None]
        for k, v in options.items()
        if k in ("bootstrap", "valid")
    }
    bounds = {k: v for k, v in options.items() if k not in arrays}
    columns = [np.array(a, np.float32)[:, None] for a in (reward, value, done)]
    logs = np.array(ratio_logs, np.float32)[:, None]
    found = vtrace(
        *columns,
        np.float32([last]),
        -logs,
        np.zeros_like(logs),
        gamma=G,
        gae_lambda=L,
        **arrays,
        **bounds,
    )
    return [np.round(part[:, 0].astype(float), 5).tolist() for part in found]


def test_by_hand():
    # deltas 1, 2, 3 as in test_gae. Ratios 1/2, 4 (bounded to 1), 1/4.
    # excess2 = 3/4; excess1 = 2 + 1/8 * 3/4 = 2.09375; excess0 = 1/2 * 1 + 1/16 * 2.09375
    # advantages: 1 + 2.09375/8, 2 + .75/8, 3
    advantage, target = one([1, 2, 3], [2, 4, 8], [0, 0, 0], 16, [-LOG2, LOG4, -LOG4])
    assert advantage == [round(1 + 2.09375 / 8, 5), 2.09375, 3.0]
    assert target == [round(2 + 0.5 + 2.09375 / 16, 5), 6.09375, 8.75]


def test_bounds_apart():
    # rho up to 2, c up to 1: excess1 = 2 * 2 + 1/8 * 3 = 4.375; excess0 = 1 + 4.375/8
    _, target = one([1, 2, 3], [2, 4, 8], [0, 0, 0], 16, [0, LOG2, 0], rho_max=2.0)
    assert target == [round(3 + 4.375 / 8, 5), 8.375, 11.0]
    # c up to 2: excess1 = 4 + 2/8 * 3 = 4.75
    _, target = one([1, 2, 3], [2, 4, 8], [0, 0, 0], 16, [0, LOG2, 0], rho_max=2.0, c_max=2.0)
    assert target == [round(3 + 4.75 / 8, 5), 8.75, 11.0]


def test_nothing_flows_over_an_end():
    # terminated at 1: delta1 = 2 - 4 = -2, halved; cut at 2: delta2 = 3 + .5*2 - 8 = -4
    advantage, target = one([1, 2, 3], [2, 4, 8], [0, 1, 1], 16, [0, -LOG2, 0], bootstrap=[0, 0, 2])
    assert advantage == [1 - 1 / 8, -2.0, -4.0]
    assert target == [2 + 1 - 1 / 8, 3.0, 4.0]


def test_absent_rows_are_stepped_over():
    # delta0 = 1 + .5*8 - 2 = 3; the ratio of the row that is not there counts for nothing
    advantage, target = one([1, 0, 3], [2, 99, 8], [0, 0, 0], 16, [0, 50, -LOG2], valid=[1, 0, 1])
    assert advantage == [3 + 1.5 / 8, 0.0, 3.0]
    assert target == [5 + 1.5 / 8, 0.0, 9.5]


def random_case(steps, rows, seed=0):
    """Rollouts with ends and absent rows anywhere, first and last steps included."""
    rng = np.random.default_rng([steps, rows, seed])
    shape = (steps, rows)
    reward, value, bootstrap, logp = rng.standard_normal((4, *shape)).astype(np.float32)
    done, valid = rng.random(shape) < 0.2, rng.random(shape) < 0.85
    done[0, rng.random(rows) < 0.3] = True
    done[-1, rng.random(rows) < 0.3] = True
    bootstrap[rng.random(shape) < 0.5] = 0.0  # terminated, not cut
    last = rng.standard_normal(rows).astype(np.float32)
    return reward, value, done, bootstrap, valid, last, logp, rng


@settings(max_examples=40, deadline=None)
@given(
    steps=st.integers(1, 33),
    rows=st.integers(1, 130),
    gamma=st.sampled_from([0.0, 0.9, 0.99, 1.0]),
    decay=st.sampled_from([0.0, 0.95, 1.0]),
    rho_max=st.sampled_from([0.5, 1.0, 2.0]),
    c_max=st.sampled_from([0.5, 1.0]),
)
def test_agrees_with_the_twin(steps, rows, gamma, decay, rho_max, c_max):
    reward, value, done, bootstrap, valid, last, logp, rng = random_case(steps, rows)
    current = (logp + 0.7 * rng.standard_normal(logp.shape)).astype(np.float32)
    got = vtrace(
        reward, value, done, last, logp, current, gamma=gamma, gae_lambda=decay,
        rho_max=rho_max, c_max=c_max, bootstrap=bootstrap, valid=valid,
    )  # fmt: skip
    ratio = np.exp(current.astype(float) - logp)
    expected = naive.vtrace(
        reward, value, done, bootstrap, valid, last, ratio, gamma, decay, rho_max, c_max
    )
    for part, twin in zip(got, expected, strict=True):
        np.testing.assert_allclose(part, twin, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_is_gae_where_nothing_lags(seed):
    reward, value, done, bootstrap, valid, last, logp, _ = random_case(32, 200, seed)
    options = {"gamma": 0.99, "gae_lambda": 0.95, "bootstrap": bootstrap, "valid": valid}
    plain = gae(reward, value, done, last, **options)
    corrected = vtrace(reward, value, done, last, logp, logp, **options)
    for one_, other in zip(plain, corrected, strict=True):
        np.testing.assert_allclose(other, one_, rtol=1e-6, atol=1e-6)


def test_a_wrong_shape_is_named():
    zeros = np.zeros((3, 2))
    with pytest.raises(ValueError, match=r"current has shape \(3,\): expected \(3, 2\)"):
        vtrace(zeros, zeros, zeros, np.zeros(2), zeros, np.zeros(3), gamma=1, gae_lambda=1)
