"""What a person sees while training runs."""

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


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (999, "999"), (8192, "8.19k"), (2.5e6, "2.5M"), (1e12, "1e+03G")],
)
def test_counts_have_three_digits(number, text):
    assert progress.count(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.154, "0.15 s"), (42.4, "42 s"), (59.7, "1:00"), (185, "3:05"), (3723, "1:02:03")],
)
def test_durations_read_as_people_say_them(seconds, text):
    assert progress.duration(seconds) == text


def test_summary_is_one_line():
    line = progress.summary(HALF)
    assert line == "5M of 10M steps  return 123.5  2.5M steps/s  at most 2.00 s left"


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


def test_terminal_gets_a_live_bar_and_one_last_line(tmp_path):
    """Under a real terminal; what is drawn on it goes away again."""
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "headrace", "train", "cartpole", "--target", "none"]
    process = subprocess.Popen(
        [*command, "--steps", "2_000_000", "--run-dir", "r", "--threads", "1"],
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
    assert "steps/s" in text
    assert text.rstrip().splitlines()[-1].startswith("done: return ")
