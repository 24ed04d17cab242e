"""What a person sees while training runs."""

import dataclasses
import io
import os
import pty
import re
import subprocess
import sys

import pytest

from headrace import progress
from headrace.trainers.progress import Progress

HALF = Progress(
    env="cartpole",
    steps=5_000_000,
    total_steps=10_000_000,
    seconds=2.0,
    sps=2.5e6,
    return_mean=123.456,
    return_target=475.0,
)


def test_summary_is_one_line():
    line = progress.summary(HALF)
    assert line == "5M of 10M steps  return 123.5  2.5M steps/s  at most 2.00 s left"
    bound = dataclasses.replace(HALF, metrics={"time/bottleneck": "learner"})
    assert progress.summary(bound) == line + "  learner-bound"
    same = dataclasses.replace(HALF, metrics={"frames": HALF.steps})
    assert progress.summary(same) == line
    skipping = dataclasses.replace(HALF, metrics={"frames": 4 * HALF.steps})
    assert progress.summary(skipping) == line.replace("steps  ", "steps (20M frames)  ", 1)


def test_plain_lines_come_at_a_low_rate(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with progress.PlainDisplay() as show:
        for second in range(35):
            now[0] = float(second)
            show(HALF)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [progress.summary(HALF)] * 3


@pytest.mark.parametrize(
    ("terminal", "encoding", "term", "live"),
    [
        (True, "utf-8", "xterm", True),
        (False, "utf-8", "xterm", False),
        (True, "ascii", "xterm", False),
        (True, "utf-8", "dumb", False),
    ],
)
def test_only_a_terminal_that_can_show_it_gets_the_picture(
    terminal, encoding, term, live, monkeypatch
):
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(stream, "isatty", lambda: terminal, raising=False)
    monkeypatch.setattr(progress.sys, "stderr", stream)
    monkeypatch.setenv("TERM", term)
    assert isinstance(progress.display(), progress.LiveDisplay) is live


def test_drawing_takes_half_a_per_cent_of_the_time_at_most(monkeypatch):
    now, drawn = [100.0], []
    show = progress.LiveDisplay()

    def draw(*_, **__):
        drawn.append(now[0])
        now[0] += 0.004

    monkeypatch.setattr(progress.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(show._live, "update", draw)
    for _ in range(100):
        show(HALF)
        now[0] += 0.1
    assert 11 <= len(drawn) <= 14  # every 0.8 s, when somebody reports


def test_terminal_gets_a_live_picture_and_one_last_line(tmp_path):
    """Under a real terminal; what is drawn on it goes away again."""
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "headrace", "train", "cartpole", "--target", "none"]
    process = subprocess.Popen(
        [*command, "--steps", "20_000_000", "--run-dir", "r", "--threads", "1"],
        cwd=tmp_path,
        stderr=follower,
        stdout=subprocess.PIPE,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"},
    )
    os.close(follower)
    drawn = b""
    try:
        while chunk := os.read(leader, 65536):
            drawn += chunk
    except OSError:  # Linux says so when the other end is closed
        pass
    finally:
        os.close(leader)
    assert process.communicate(timeout=60)[0] == b""
    assert process.returncode == 0
    text = re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", drawn).decode()
    assert text.index("setting up") < text.index("steps/s")
    assert re.search(r"(environment|inference|learner|queue)-bound", text)
    assert text.rstrip().splitlines()[-1].startswith("done: return ")
