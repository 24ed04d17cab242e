"""What a failing or interrupted command leaves: one JSON document where asked, no folders."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from headrace.cli import main


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["train", "cartpole", "--lr", "-1", "--json"], 2),
        (["envs", "cartpol", "--json"], 2),
        (["eval", "no/such/run", "--json"], 2),
        (["check", "empty.c", "--json"], 1),
        (["check", "cartpole", "--json", "--nonsense"], 2),
    ],
)
def test_json_of_a_failure_is_the_sentence(argv, code, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.c").write_text("int x;\n")
    given = main(argv)
    out, err = capsys.readouterr()
    assert err == f"headrace: {json.loads(out)['error']}\n"
    assert given == code


def test_json_of_an_interrupted_training_names_the_run(tmp_path):
    run = tmp_path / "run"
    command = [sys.executable, "-m", "headrace", "train", "cartpole", "--steps", "2_000_000_000"]
    command += ["--target", "none", "--threads", "1", "--run-dir", str(run), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        _wait_for(run / "metrics.jsonl")
        child.send_signal(signal.SIGTERM)
        out, _ = child.communicate(timeout=60)
    assert child.returncode == 130
    assert json.loads(out) == {"interrupted": True, "run": str(run)}


def test_a_terminated_check_leaves_nothing(tmp_path):
    source = tmp_path / "slow.c"
    source.write_text("int x;\n")
    compiler = tmp_path / "slow-cc"
    compiler.write_text('#!/bin/sh\ncase "$*" in *--version*) exec cc "$@";; esac\nsleep 60\n')
    compiler.chmod(0o755)
    cache, temporary = tmp_path / "cache", tmp_path / "temporary"
    temporary.mkdir()
    environment = {
        **os.environ,
        "CC": str(compiler),
        "HEADRACE_CACHE_DIR": str(cache),
        "TMPDIR": str(temporary),
    }
    command = [sys.executable, "-m", "headrace", "check", str(source), "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True
    ) as child:
        assert child.stderr.readline() == f"headrace: compiling {source} ...\n"
        child.send_signal(signal.SIGTERM)
        out, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (130, "headrace: terminated\n")
    assert json.loads(out) == {"interrupted": True, "run": None}
    assert list(cache.iterdir()) == []
    assert list(temporary.iterdir()) == []


def test_a_check_terminated_while_it_examines_leaves_nothing(tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = [sys.executable, "-m", "headrace", "check", "cartpole"]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment) as child:
        _wait_for(temporary, "headrace-check-*/*.progress")
        child.send_signal(signal.SIGTERM)
        child.communicate(timeout=60)
    assert child.returncode == 130
    assert list(temporary.iterdir()) == []


def test_an_unusable_cache_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {
        **os.environ,
        "HEADRACE_PREBUILT": "0",
        "HEADRACE_CACHE_DIR": str(tmp_path / "file" / "cache"),
        "TMPDIR": str(temporary),
    }
    command = [sys.executable, "-m", "headrace", "envs", "cartpole"]
    done = subprocess.run(command, capture_output=True, env=environment, text=True, check=True)
    lines = [line for line in done.stderr.splitlines() if "compiling" not in line]
    assert len(lines) == 1
    assert lines[0].startswith("headrace: compiled environments are kept for this process only: ")
    assert "set HEADRACE_CACHE_DIR" in lines[0]
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("argv", "typed"),
    [(["--params", "gravity"], "'gravity'"), (["--hidden", "64,x"], "'64,x'")],
)
def test_a_list_is_shown_as_it_was_typed(argv, typed, capsys):
    assert main(["train", "cartpole", *argv]) == 2
    assert capsys.readouterr().err.endswith(f"not {typed}\n")


def _wait_for(path, pattern=None):
    deadline = time.monotonic() + 60
    while not (list(path.glob(pattern)) if pattern else path.exists() and path.stat().st_size):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_presets_default_takes_the_place_of_the_general_one(capsys):
    assert main(["train", "cartpole", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    about = said[said.index("--num-envs N") :]
    assert about[: about.index("--threads")].count("(default:") == 1


def test_what_an_environment_prints_is_no_part_of_the_document(tmp_path):
    (tmp_path / "loud.py").write_text(
        textwrap.dedent("""
        import os
        import gymnasium
        import numpy as np

        class Loud(gymnasium.Env):
            observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))
            action_space = gymnasium.spaces.Discrete(2)

            def __init__(self):
                print("made")
                os.write(1, b"raw\\n")

            def reset(self, *, seed=None, options=None):
                print("reset")
                return np.zeros(2, np.float32), {}

            def step(self, action):
                os.system("echo child")
                return np.zeros(2, np.float32), 1.0, True, False, {}
        """)
    )
    command = [sys.executable, "-m", "headrace", "train", "loud.py:Loud", "--steps", "8"]
    command += ["--num-envs", "2", "--horizon", "4", "--threads", "2", "--minibatches", "1"]
    command += ["--json", "--quiet", "--run-dir", "run"]
    done = subprocess.run(command, capture_output=True, cwd=tmp_path, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["steps"] == 8
    assert all(word in done.stderr for word in ("made", "raw", "reset", "child"))


def test_the_help_of_json_stays_on_stdout(capsys):
    assert main(["train", "--json", "--help"]) == 0
    assert capsys.readouterr().out.startswith("usage:")


CATCH = Path(__file__).parents[2] / "examples" / "catch.c"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_step_that_never_returns_is_told_of_and_a_second_signal_ends_it(number, tmp_path):
    """Python's own handlers never run: the main thread is inside the loop."""
    loop = """if (s->ball_row == 3) {
        fclose(fopen("looping", "w"));
        for (volatile int forever = 1; forever;) {}
    }
    s->ball_row++;"""
    source = CATCH.read_text().replace("s->ball_row++;", loop)
    (tmp_path / "loop.c").write_text("#include <stdio.h>\n" + source)
    command = [sys.executable, "-m", "headrace", "train", "loop.c", "--threads", "1", "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    ) as child:
        limit = threading.Timer(60, child.kill)
        limit.start()
        try:
            _wait_for(tmp_path, "looping")
            child.send_signal(number)
            while "does not come back" not in (line := child.stderr.readline()):
                assert line, "it ended after one signal"
            assert "a second Ctrl-C ends without saving" in line
            child.send_signal(number)
            out, err = child.communicate()
        finally:
            limit.cancel()
            child.kill()
    assert child.returncode == 130
    assert json.loads(out) == {"interrupted": True, "run": None}
    assert err == "headrace: ended without saving\n"


@pytest.mark.parametrize("argv", [["envs"], ["envs", "cartpole", "--json"]])
def test_a_reader_of_stdout_that_goes_away_is_no_failure_of_ours(argv):
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "headrace", *argv]
    try:
        done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True)
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


NOWHERE = "*(volatile int *)(uintptr_t)s->ball_row = 1"
TOO_DEEP = "s->ball_row = deep(&s->ball_row)"
DEEP = """#include <stdint.h>
static int deep(volatile int32_t *above) {
    volatile int32_t own[256];
    own[0] = *above + 1;
    return deep(own) + own[0];
}
"""


@pytest.mark.parametrize("fault", [NOWHERE, TOO_DEEP])
@pytest.mark.parametrize(
    "flags",
    [["--threads", "1"], ["--threads", "2"], ["--threads", "2", "--policy", "torch", "--async"]],
)
def test_a_crash_in_a_step_is_a_sentence_and_the_signal(flags, fault, tmp_path):
    """In whatever thread: of the command, of the pool, of an actor; with whatever stack is left."""
    if "torch" in flags:
        pytest.importorskip("torch")
    fall = f"if (s->ball_row == 3) {fault};\n    s->ball_row++;"
    (tmp_path / "fall.c").write_text(DEEP + CATCH.read_text().replace("s->ball_row++;", fall))
    command = [sys.executable, "-m", "headrace", "train", "fall.c", *flags, "--quiet"]
    done = subprocess.run(command, capture_output=True, cwd=tmp_path, text=True)
    assert done.returncode == -signal.SIGSEGV
    told = [line for line in done.stderr.splitlines() if "compiling" not in line]
    assert told == [
        "headrace: native code has crashed, most likely in a step of the environment: "
        "headrace check fall.c looks for the fault"
    ]


@pytest.mark.parametrize("handled", [False, True])
def test_signals_of_crashes_are_as_before_after_a_command(handled):
    """Where somebody handles them already, theirs stays meanwhile too."""
    before = "import faulthandler; faulthandler.enable();" if handled else ""
    program = f"""{before}
import os, signal
from headrace.cli import main
main(["new", "--help"])
os.kill(os.getpid(), signal.SIGSEGV)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == -signal.SIGSEGV
    assert "native code has crashed" not in done.stderr
    assert ("Fatal Python error" in done.stderr) == handled
