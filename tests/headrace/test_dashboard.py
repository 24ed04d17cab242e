"""The picture of a run: what it says, at every width and height."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from headrace.dashboard import NARROWEST, WIDEST, Dashboard
from headrace.trainers.progress import Progress

METRICS = {
    "episode/count": 41_200,
    "episode/length": 123.4,
    "loss/policy": -0.0123,
    "loss/value": 0.1234,
    "loss/explained_variance": 0.873,
    "policy/entropy": 0.5512,
    "policy/kl": 0.0041,
    "policy/clip_fraction": 0.123,
    "learner/grad_norm": 0.42,
    "learner/lr": 0.002,
    "async/lag": 0.81,
    "async/lag_max": 2,
    "async/ess": 0.97,
    "time/environment": 0.1,
    "time/inference": 0.2,
    "time/learn": 0.5,
    "time/wait": 0.0,
    "time/rest": 0.2,
    "time/bottleneck": "learner",
}


def progress(seconds=2.0, mean=123.4, **metrics):
    return Progress(
        env="cartpole",
        steps=5_000_000,
        total_steps=10_000_000,
        seconds=seconds,
        sps=2.5e6,
        return_mean=mean,
        return_target=475.0,
        metrics={**METRICS, **metrics},
    )


def dashboard(*updates):
    made = Dashboard()
    for update in updates or (progress(),):
        made.update(update)
    return made


def text_of(made, width=80, **how):
    return "\n".join(line.plain for line in made.lines(width, **how))


def test_everything_that_matters_is_said():
    made = dashboard(progress(1.0, 60.0), progress(2.0, **{"eval/return": 140.0}))
    text = text_of(made, 76)
    for words in (
        "5M of 10M steps",
        "2.00 s   at most 2.00 s left",
        "123.4    ▁█",
        "target 475   evaluated 140",
        "2.5M",
        "41.2k episodes   123.4 steps each",
        "environment 10%",
        "inference 20%",
        "learning 50%",
        "rest 20%",
        "learner-bound: fewer epochs",
        "loss -0.0123   entropy 0.551   KL 0.0041   clipped 12%",
        "loss 0.123   explained 87%",
        "gradient 0.42   rate 0.002",
        "lag 0.81   at most 2   ESS 97%",
    ):
        assert words in text
    assert "waiting" not in text  # nobody waits


def test_a_run_that_has_just_begun_says_what_there_is():
    begun = Progress("cartpole", 0, 100, 0.0, 0.0, None, None)
    text = text_of(dashboard(begun))
    assert "none yet" in text
    assert "bound" not in text
    assert Dashboard().lines(80) == []


def test_no_lag_and_no_numbers_leave_their_places_empty():
    text = text_of(dashboard(progress(**{"async/lag_max": 0, "loss/explained_variance": None})))
    assert "ESS" not in text
    assert "explained" not in text


@pytest.mark.parametrize("color", [True, False])
def test_no_line_is_wider_than_the_terminal(color):
    made = dashboard(progress(1.0, 60.0), progress(**{"eval/return": 140.0, "time/wait": 0.1}))
    for width in range(NARROWEST, WIDEST + 20):
        lines = made.lines(width, color=color)
        assert max(cell_len(line.plain) for line in lines) <= width
        assert "-bound" in text_of(made, width, color=color)


@pytest.mark.parametrize("height", range(1, 25))
def test_what_matters_least_goes_first_where_lines_are_few(height):
    lines = dashboard().lines(76, height=height)
    assert len(lines) <= height
    assert "5M of 10M" in lines[0].plain
    if height >= 4:
        assert "time" in "".join(line.plain for line in lines)


def test_the_parts_of_the_time_fill_their_bar():
    made = dashboard()
    bar = next(line.plain for line in made.lines(79, color=False) if line.plain.startswith("time"))
    glyphs = bar[9:]
    assert len(glyphs) == 70
    assert [glyphs.count(glyph) for glyph in "█▓▒·"] == [7, 14, 35, 14]


def test_the_bottleneck_is_that_of_the_last_seconds_not_of_one_moment():
    made = dashboard(*(progress(0.1 * k) for k in range(1, 40)))
    made.update(progress(4.0, **{"time/bottleneck": "queue"}))
    assert made.bottleneck == "learner"
    for k in range(41, 60):
        made.update(progress(0.1 * k, **{"time/bottleneck": "queue"}))
    assert made.bottleneck == "queue"
