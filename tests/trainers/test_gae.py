"""Advantages: against arithmetic done by hand, and against the row-by-row twin."""

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.trainers.advantage import gae

G, L = 0.5, 0.25  # discounts that are exact in binary: G * L = 1/8


def one(reward, value, done, last, **options):
    """Advantages of a single row."""
    columns = (np.array(a, np.float32)[:, None] for a in (reward, value, done))
    options = {k: np.array(v, np.float32)[:, None] for k, v in options.items()}
    advantage, target = gae(*columns, np.float32([last]), gamma=G, gae_lambda=L, **options)
    np.testing.assert_array_equal(
        target[:, 0], advantage[:, 0] + np.array(value, np.float32) * (advantage[:, 0] != 0)
    )
    return advantage[:, 0].tolist()


def test_an_episode_that_goes_on():
    # delta: 1 + .5*4 - 2 = 1; 2 + .5*8 - 4 = 2; 3 + .5*16 - 8 = 3
    # a2 = 3; a1 = 2 + 3/8 = 2.375; a0 = 1 + 2.375/8 = 1.296875
    assert one([1, 2, 3], [2, 4, 8], [0, 0, 0], 16) == [1.296875, 2.375, 3.0]


def test_termination_bootstraps_with_nothing():
    # delta1 = 2 + 0 - 4 = -2, and nothing flows back over the end
    assert one([1, 2, 3], [2, 4, 8], [0, 1, 0], 16) == [1 - 2 / 8, -2.0, 3.0]


def test_truncation_bootstraps_with_the_final_observation():
    # delta1 = 2 + .5*10 - 4 = 3
    got = one([1, 2, 3], [2, 4, 8], [0, 1, 0], 16, bootstrap=[7, 10, 7])
    assert got == [1 + 3 / 8, 3.0, 3.0]


def test_ends_at_the_first_and_at_the_last_step():
    # first: delta0 = 1 - 2 = -1; last: delta2 = 3 - 8 = -5; delta1 = 2 + .5*8 - 4 = 2
    assert one([1, 2, 3], [2, 4, 8], [1, 0, 1], 16) == [-1.0, 2 - 5 / 8, -5.0]
    # cut at both: delta0 = 1 + .5*6 - 2 = 2; delta2 = 3 + .5*2 - 8 = -4
    got = one([1, 2, 3], [2, 4, 8], [1, 0, 1], 16, bootstrap=[6, 0, 2])
    assert got == [2.0, 2 - 4 / 8, -4.0]


def test_absent_rows_are_stepped_over():
    # step 1 does not exist for this row: delta0 = 1 + .5*8 - 2 = 3; a2 = 3
    got = one([1, 0, 3], [2, 99, 8], [0, 0, 0], 16, valid=[1, 0, 1])
    assert got == [3 + 3 / 8, 0.0, 3.0]


def test_an_episode_ends_while_the_row_is_away():
    # terminated at step 1, with reward 5: delta0 = 1 + 5 - 2 = 4, and nothing flows back over it
    got = one([1, 5, 3], [2, 99, 8], [0, 1, 0], 16, valid=[1, 0, 1])
    assert got == [4.0, 0.0, 3.0]
    # cut there: delta0 = 1 + 5 + .5*10 - 2 = 9
    got = one([1, 5, 3], [2, 99, 8], [0, 1, 0], 16, valid=[1, 0, 1], bootstrap=[7, 10, 7])
    assert got == [9.0, 0.0, 3.0]
    # away at the end of the rollout, and cut two steps after the last valid one
    got = one([1, 0, 0], [2, 99, 99], [0, 0, 1], 16, valid=[1, 0, 0], bootstrap=[0, 0, 10])
    assert got == [4.0, 0.0, 0.0]


def test_rewards_of_a_row_that_is_away_are_of_its_last_step():
    # delta0 = 1 + 5 + .5*8 - 2 = 8
    got = one([1, 5, 3], [2, 99, 8], [0, 0, 0], 16, valid=[1, 0, 1])
    assert got == [8 + 3 / 8, 0.0, 3.0]
    # not of one of the episode before
    got = one([1, 5, 3], [2, 99, 8], [1, 0, 0], 16, valid=[1, 0, 1])
    assert got == [-1.0, 0.0, 3.0]


def test_one_step():
    assert one([1], [2], [0], 16) == [7.0]
    assert one([1], [2], [1], 16) == [-1.0]


@settings(max_examples=40, deadline=None)
@given(
    steps=st.integers(1, 33),
    rows=st.integers(1, 130),
    gamma=st.sampled_from([0.0, 0.9, 0.99, 1.0]),
    decay=st.sampled_from([0.0, 0.95, 1.0]),
)
def test_agrees_with_the_twin(steps, rows, gamma, decay):
    rng = np.random.default_rng([steps, rows])
    shape = (steps, rows)
    reward, value, bootstrap = rng.standard_normal((3, *shape)).astype(np.float32)
    done, valid = rng.random(shape) < 0.2, rng.random(shape) < 0.85
    last = rng.standard_normal(rows).astype(np.float32)
    got = gae(
        reward, value, done, last, gamma=gamma, gae_lambda=decay, bootstrap=bootstrap, valid=valid
    )
    expected = naive.gae(reward, value, done, bootstrap, valid, last, gamma, decay)
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(got[1], expected[1], rtol=1e-4, atol=1e-4)


def test_a_wrong_shape_is_named():
    zeros = np.zeros((3, 2))
    with pytest.raises(ValueError, match=r"last_value has shape \(3,\): expected \(2,\)"):
        gae(zeros, zeros, zeros, np.zeros(3), gamma=1, gae_lambda=1)
