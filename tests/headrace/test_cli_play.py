"""`headrace play`: on a terminal of its own (a pty), as text, and its parts."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from contextlib import closing

import numpy as np
import pytest

from headrace.cli import main
from headrace.controls import Controls, meanings, random_actions
from headrace.engine.registration import registered
from headrace.engine.resolve import resolve
from headrace.explain import rules
from headrace.terminal import LETTERS, PALETTE, TRUECOLOR, abilities, keys_in, shrink, text_of

_DRAWN = [name for name, entry in registered().items() if entry.shipped and name not in ("memory",)]


class Screen:
    """A terminal that runs `headrace play`."""

    def __init__(self, *argv: str, **environment: str) -> None:
        self.master, self.slave = pty.openpty()
        self.before = termios.tcgetattr(self.slave)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headrace", "play", *argv],
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            start_new_session=True,  # the pty becomes its terminal, so that ^C is a signal
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "60", "LINES": "24",
                 **environment},
        )  # fmt: skip
        self.text = ""

    def read_until(self, wanted: str, seconds: float = 60.0) -> str:
        """All text so far, which holds the pattern `wanted`."""
        due = time.monotonic() + seconds
        while not re.search(wanted, self.text):
            assert time.monotonic() < due, self.text[-2000:]
            if select.select([self.master], [], [], 0.2)[0]:
                self.text += os.read(self.master, 65536).decode(errors="replace")
        return self.text

    def press(self, keys: str) -> None:
        """Types, and forgets what was shown before."""
        self.text = ""
        os.write(self.master, keys.encode())

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)


def test_keys_act_pause_restart_and_quit_and_the_terminal_is_put_back():
    with closing(Screen("snake", "--fps", "20", COLORTERM="truecolor")) as screen:
        shown = screen.read_until(r"step 2 ")
        assert shown.startswith("\x1b[?1049h\x1b[?25l")
        assert "▀" in shown
        assert re.search(r"\x1b\[38;2;\d+;\d+;\d+m", shown)
        assert "←1 turns left" in shown
        assert not termios.tcgetattr(screen.slave)[3] & termios.ICANON
        screen.press(" ")
        screen.read_until("paused")
        screen.press("r")
        screen.read_until("step 0 ")
        screen.press("\x1b[D")
        screen.read_until("step 1 ")
        screen.press("q")
        screen.read_until(re.escape("\x1b[?25h\x1b[?1049l"))
        assert screen.process.wait(30) == 0
        assert termios.tcgetattr(screen.slave) == screen.before


def test_turns_wait_for_a_key():
    with closing(Screen("game_2048", "--fps", "100")) as screen:
        screen.read_until("step 0 ")
        time.sleep(0.3)
        while select.select([screen.master], [], [], 0)[0]:
            screen.text += os.read(screen.master, 65536).decode(errors="replace")
        assert "step 1 " not in screen.text
        screen.press("\x1b[C")
        screen.read_until("step 1 ")
        screen.press("x")  # means nothing
        screen.read_until("step 1 ")
        screen.press("\x03")
        assert screen.process.wait(30) == 130
        assert termios.tcgetattr(screen.slave) == screen.before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_puts_the_terminal_back(number):
    with closing(Screen("cartpole")) as screen:
        screen.read_until("step 1 ")
        screen.process.send_signal(number)
        screen.read_until(re.escape("\x1b[?1049l"))
        assert screen.process.wait(30) == 128 + number
        assert termios.tcgetattr(screen.slave) == screen.before


def test_frames_limit_a_game_on_a_terminal():
    with closing(Screen("pong", "--frames", "3", "--fps", "100", TERM="dumb")) as screen:
        screen.read_until(re.escape("\x1b[?1049l"))
        assert screen.process.wait(30) == 0
        assert "step 2 " in screen.text
        assert "▀" not in screen.text


def test_without_a_terminal_frames_are_printed(capsys, monkeypatch):
    assert main(["play", "cartpole", "--frames", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("step")] == [
        "step 0   return 0", "step 1   return 1", "step 2   return 2",
    ]  # fmt: skip
    assert any(set(line) & set(".:-=") for line in lines)


def test_an_agent_plays(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "cartpole", "--seed", "1", "--run-dir", "run", "--quiet"]) == 0
    capsys.readouterr()
    assert main(["play", "--agent", "run", "--frames", "120"]) == 0
    assert "step 119   return 119" in capsys.readouterr().out


@pytest.mark.parametrize("verb", [["play", "--frames", "2", "--agent"], ["eval"]])
def test_a_run_in_a_changed_environment_is_warned_of(verb, tmp_path, capsys, monkeypatch):
    """A header of the author's, which is no code that opening a run would execute by itself."""
    monkeypatch.chdir(tmp_path)
    rules = tmp_path / "rules.h"
    rules.write_text("#define LIMIT 500\n")
    source = registered()["cartpole"].path.read_text()
    (tmp_path / "pole.c").write_text('#include "rules.h"\n' + source)
    train = ["train", "pole.c", "--steps", "2000", "--num-envs", "64", "--run-dir", "run"]
    assert main([*train, "--quiet"]) == 0
    capsys.readouterr()
    assert main([*verb, "run"]) == 0
    assert "changed" not in capsys.readouterr().err
    rules.write_text("#define LIMIT 400\n")
    assert main([*verb, "run"]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if "changed" in line]
    assert told == [
        f"headrace: the source of {tmp_path / 'pole.c'} (or of a header of headrace) has changed "
        "since the run was trained: this is the agent in the environment as it is now"
    ]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["cartpole"], "play needs a terminal"),
        ([], "ENV is missing"),
        (["cartpole", "--agent", "run"], "leave ENV out"),
        (["--agent", "nowhere", "--frames", "1"], "nowhere is no run"),
        (["cartpol", "--frames", "1"], "did you mean 'cartpole'"),
        (["cartpole", "--policy", "net.py:Net", "--frames", "1"], "--policy is of an agent"),
        (["--agent", "run", "--params", "gravity=3", "--frames", "1"], "--params are those of the"),
        (["gymnasium:CartPole-v1", "--frames", "1"], "is written in Python, and this needs"),
    ],
)
def test_mistakes_are_one_sentence(argv, said, capsys):
    assert main(["play", *argv]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.count("\n") == 1


# ---- parts ------------------------------------------------------------------------------


def test_keys_are_named():
    assert keys_in("a\x1b[A\x1b[D \r\x1bOC\x1b[5~q\x1b") == [
        "a", "up", "left", " ", "enter", "right", "~", "q", "escape",
    ]  # fmt: skip


def test_what_a_terminal_can_show_is_told_by_its_environment():
    assert abilities({"TERM": "xterm", "COLORTERM": "truecolor"}) == TRUECOLOR
    assert abilities({"TERM": "xterm-direct"}) == TRUECOLOR
    assert abilities({"TERM": "xterm-256color"}) == PALETTE
    assert abilities({"TERM": "dumb", "COLORTERM": "truecolor"}) == LETTERS
    assert abilities({"TERM": "xterm", "NO_COLOR": "1"}) == LETTERS


def test_frames_become_half_blocks_and_letters():
    frame = np.zeros((8, 4, 3), np.uint8)
    frame[:4, :2] = (200, 100, 0)
    frame[4:, 2:] = 255
    image = shrink(frame, 2, 2)
    assert image.tolist() == [[[200, 100, 0], [0, 0, 0]], [[0, 0, 0], [255, 255, 255]]]
    assert text_of(image, TRUECOLOR) == [
        "\x1b[38;2;200;100;0m\x1b[48;2;0;0;0m▀\x1b[38;2;0;0;0m\x1b[48;2;255;255;255m▀\x1b[0m"
    ]
    # 200 100 0 is nearest to 215 95 0 of the cube: 16 + 36*4 + 6*1 + 0
    assert text_of(image, PALETTE) == [
        "\x1b[38;5;166m\x1b[48;5;16m▀\x1b[38;5;16m\x1b[48;5;231m▀\x1b[0m"
    ]
    assert text_of(np.full((2, 3, 3), 255, np.uint8), LETTERS) == ["@@@"]


def test_meanings_come_from_the_authors_words():
    text = (
        "It is.\n\naction       0 goes straight on, 1 turns left,\n             2 turns right\nend"
    )
    assert meanings(text) == {0: "goes straight on", 1: "turns left", 2: "turns right"}


@pytest.mark.parametrize(
    ("env", "turns", "idle", "arrows"),
    [
        ("snake", False, 0, {"left": 1, "right": 2}),
        ("squared", False, 0, {"up": 1, "down": 2, "left": 3, "right": 4}),
        ("cartpole", False, None, {"left": 0, "right": 1}),
        ("mountain_car", False, 1, {"left": 0, "right": 2}),
        ("game_2048", True, None, {"up": 0, "right": 1, "down": 2, "left": 3}),
        ("connect4", True, None, {}),
    ],
)
def test_keys_of_shipped_environments(env, turns, idle, arrows):
    found = resolve(env)
    controls = Controls(found.spec, rules(found))
    assert controls.turns is turns
    assert controls.idle == idle
    assert {key: n for key, n in controls.keys.items() if not key.isdigit()} == arrows


def test_continuous_actions_are_changed_by_arrows():
    found = resolve("mountain_car_continuous")
    controls = Controls(found.spec, rules(found))
    assert not controls.press("right")
    assert controls.action()["force"][0] == pytest.approx(0.2)
    for _ in range(9):
        controls.press("left")
    assert controls.action()["force"][0] == pytest.approx(-1.0)
    assert controls.press("enter")
    assert "▸force -1" in controls.help()


def test_others_act_at_random_within_their_masks():
    spec = resolve("connect4").spec
    mask = np.zeros((2, spec.mask_size), bool)
    mask[:, [1, 5]] = True
    rng = np.random.default_rng(0)
    taken = {int(a) for _ in range(40) for a in random_actions(spec, mask, rng).view(np.int32)}
    assert taken == {1, 5}


@pytest.mark.parametrize("env", _DRAWN)
def test_every_environment_can_be_played(env, capsys):
    assert main(["play", env, "--frames", "2"]) == 0
    assert "step 1 " in capsys.readouterr().out
