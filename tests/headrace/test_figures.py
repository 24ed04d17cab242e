"""Numbers as people read them, and small pictures of them."""

from __future__ import annotations

import pytest

from headrace.figures import History, count, duration, resampled, sparkline


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (999, "999"), (8192, "8.19k"), (2.5e6, "2.5M"), (1e12, "1e+03G")],
)
def test_counts_have_three_digits(number, text):
    assert count(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.154, "0.15 s"), (42.4, "42 s"), (59.7, "1:00"), (185, "3:05"), (3723, "1:02:03")],
)
def test_durations_read_as_people_say_them(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("values", "width", "low", "line"),
    [
        ([], 10, None, ""),
        ([3.0], 10, None, "▁"),
        ([-1.0, 0.0, 6.0], 10, None, "▁▂█"),
        ([0.0, 2.0, 4.0, 10.0], 2, None, "▁█"),  # means of pairs
        ([7.0, 7.0], 10, 0.0, "██"),
        ([1.0, 2.0], 0, None, ""),
    ],
)
def test_sparklines(values, width, low, line):
    assert sparkline(values, width, low) == line


def test_resampled_keeps_the_mean_of_equal_parts():
    assert resampled([1.0, 3.0, 5.0, 7.0], 2) == [2.0, 6.0]
    assert resampled([1.0, 2.0, 3.0], 3) == [1.0, 2.0, 3.0]


def test_history_is_bounded_and_keeps_its_shape():
    history = History(room=8)
    for number in range(1000):
        history.add(float(number))
    assert 4 <= len(history.values) <= 8
    assert history.values == sorted(history.values)
    assert history.values[0] < 128
    assert history.values[-1] > 800
