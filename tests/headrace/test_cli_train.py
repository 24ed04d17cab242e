"""`headrace train` and `headrace eval` as a person or a script runs them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace.cli import main
from headrace.trainers.run import Run

FIELDS = [
    "env", "seed", "steps", "frames", "seconds", "setup_seconds", "sps", "return_mean",
    "return_target", "solved", "solved_seconds", "solved_steps", "run",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_train_json_is_exactly_one_document(capsys):
    assert main(["train", "cartpole", "--seed", "3", "--steps", "2e4", "--json"]) == 0
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert list(result) == FIELDS
    assert (result["env"], result["seed"], result["solved"]) == ("cartpole", 3, False)
    assert result["frames"] == result["steps"]
    assert result["return_target"] == 475.0
    assert result["solved_steps"] is None
    assert "NaN" not in out
    assert f"the run is in {result['run']}" in err


def test_flags_come_before_the_preset(capsys):
    argv = ["train", "cartpole", "--steps", "1", "--hidden", "16,8", "--target", "400"]
    assert main([*argv, "--no-normalize-obs", "--run-dir", "r"]) == 0
    config, _ = Run.open("r").read_config()
    assert config.hidden == (16, 8)
    assert config.target == 400.0
    assert config.normalize_obs is False
    assert "target 400 not reached" in capsys.readouterr().err


def test_eval_json_is_exactly_one_document(capsys):
    main(["train", "cartpole", "--steps", "20_000", "--run-dir", "r"])
    capsys.readouterr()
    assert main(["eval", "r", "--episodes", "10", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["episodes"] == 10
    assert result["env"] == "cartpole"
    assert 8 <= result["return_mean"] <= 500
    assert main(["eval", "r", "--episodes", "10"]) == 0
    assert "return_mean" in capsys.readouterr().out


def test_compile_error_shows_the_authors_line_and_fails(capsys, tmp_path):
    (tmp_path / "broken.c").write_text("#include <headrace.h>\nint x = ;\n")
    assert main(["train", "broken.c"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "broken.c:2" in err
    assert "Traceback" not in err


def test_run_folder_in_use_is_a_bad_argument(capsys):
    assert main(["train", "cartpole", "--steps", "1", "--run-dir", "r"]) == 0
    assert main(["train", "cartpole", "--steps", "1", "--run-dir", "r"]) == 2
    err = capsys.readouterr().err
    assert "run folder r is not empty; name another with --run-dir" in err


def test_rollout_larger_than_memory_is_one_sentence(capsys):
    assert main(["train", "cartpole", "--num-envs", "100_000", "--horizon", "1_000_000"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("headrace: not enough memory: ")
    assert err.count("\n") == 1
    assert os.listdir(".") == []


def test_resume_continues_to_a_larger_budget(capsys):
    assert main(["train", "cartpole", "--steps", "10_000", "--run-dir", "r"]) == 0
    assert main(["train", "--resume", "r", "--steps", "30_000", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] >= 30_000


SLOW = """
import time
from gymnasium.envs.classic_control import CartPoleEnv

class Slow(CartPoleEnv):
    def step(self, action):
        time.sleep(0.05)
        return super().step(action)
"""


def start(*argv, env="cartpole"):
    """A training that would last for hours, in a process group of its own."""
    command = [sys.executable, "-m", "headrace", "train", env, "--steps", "1e12"]
    return subprocess.Popen(
        [*command, "--target", "none", "--run-dir", "r", *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for(condition, seconds=60):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "nothing happened"
        time.sleep(0.02)


def interrupted(process, send):
    """What a run in r says on stderr, once `send` has interrupted it after its first update."""
    metrics = Path("r", "metrics.jsonl")
    try:
        wait_for(lambda: metrics.exists() and metrics.read_text())
        send()
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert json.loads(out) == {"interrupted": True, "run": "r"}
    assert "Traceback" not in err
    assert f"saved r/checkpoints/{Run.open('r').latest()}" in err
    return err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_saves_says_where_and_exits_with_130(number, tmp_path):
    process = start("--json")
    err = interrupted(process, lambda: process.send_signal(number))
    assert "--resume r" in err
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_every_process_leaves_the_workers_to_the_run(number, tmp_path):
    """As a terminal sends SIGINT, and `timeout` SIGTERM."""
    (tmp_path / "slow.py").write_text(SLOW)
    process = start("--json", "--num-envs", "4", "--horizon", "8", "--async", env="slow.py:Slow")
    interrupted(process, lambda: os.killpg(process.pid, number))


def test_interrupt_while_setting_up_exits_with_130(monkeypatch, capsys):
    def interrupted(*_args, **_settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("headrace.trainers.environments.make_vec", interrupted)
    assert main(["train", "cartpole"]) == 130
    assert capsys.readouterr().err == "headrace: interrupted\n"


def test_command_works_as_a_module_from_another_folder(tmp_path):
    argv = [sys.executable, "-m", "headrace", "train", "cartpole", "--steps", "1", "--json"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["env"] == "cartpole"
