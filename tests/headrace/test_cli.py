"""The command line: exit codes, one sentence for each mistake, clean stdout."""

import json
import re

import pytest

from headrace.cli import main
from headrace.cli_train import TrainFlags
from headrace.flags import flag
from headrace.trainers.config import TrainConfig
from headrace.trainers.settings import settings


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def complain(capsys):
    """Runs a command that must fail; returns (exit code, its one sentence)."""

    def run(*argv):
        code = main(list(argv))
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("headrace: ")
        assert err.count("\n") == 1, err
        assert "Traceback" not in err
        return code, err.removeprefix("headrace: ").rstrip("\n")

    return run


def test_no_verb_prints_usage_and_is_a_bad_argument(capsys):
    assert main([]) == 2
    assert "usage: headrace VERB" in capsys.readouterr().err


def test_help_goes_to_stdout(capsys):
    assert main(["--help"]) == 0
    out, err = capsys.readouterr()
    assert "headrace train cartpole" in out
    assert err == ""


def test_unknown_verb_suggests_the_nearest(complain):
    assert complain("trian", "cartpole") == (2, "unknown verb 'trian'; did you mean train?")


def test_train_help_names_every_setting_with_its_default(capsys):
    assert main(["train", "--help"]) == 0
    out = capsys.readouterr().out
    for name in settings(TrainFlags):
        shown = "ENV" if name == "env" else flag(name)
        assert shown in out, name
    text = re.sub(r"\s+", " ", out)
    assert f"(default: {TrainConfig(env='x').steps})" in text
    assert "10 million" in text


def test_train_help_of_an_environment_shows_its_preset(capsys):
    assert main(["train", "cartpole", "--help"]) == 0
    assert "(default: 475.0)" in re.sub(r"\s+", " ", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["--num-env", "4"], "unknown flag --num-env; did you mean --num-envs?"),
        (["--no-inflght"], "unknown flag --no-inflght; did you mean --no-inflight?"),
        (["--lr", "fast"], "--lr must be a number above 0, not 'fast'"),
        (["--lr", "-1"], "--lr must be a number above 0, not -1"),
        (["--lr=-1"], "--lr must be a number above 0, not -1"),
        (["--num-envs", "0"], "--num-envs must be a whole number of at least 1, not 0"),
        (["--num-envs", "-1"], "--num-envs must be a whole number of at least 1, not -1"),
        (["--seed", "1.5"], "--seed must be a whole number from 0 to 9223372036854775807, not 1.5"),
        (["--lr"], "argument --lr: expected one argument; see headrace train --help"),
        (["extra"], "unexpected argument 'extra'"),
        (["--policy", "jax"],
         "--policy 'jax' is none: expected native, torch or a class in a file of yours, such as "
         "net.py:Net"),
        (["--params", "a=0.1,a=0.2"],
         "--params must be names with numbers, booleans or texts, each name once, "
         "not 'a=0.1,a=0.2'"),
        (["--num-envs", "3", "--wrappers", "TimeLimit(9)"],
         "--wrappers is ('TimeLimit(9)',), but env is a native environment: wrappers is for Python "
         "ones"),
        (["--schedule", "cosine"],
         "--schedule is there no more: --lr-schedule, constant, linear or cosine, has replaced it"),
        (["--no-anneal-lr"],
         "--anneal-lr is there no more: --lr-schedule, constant, linear or cosine, has replaced "
         "it"),
        (["--resume", "r", "--env", "x.c"],
         "unknown flag --env: name it by its place, headrace train ENV"),
        (["--encoder", "nature"], "--encoder nature needs a torch policy: add --policy torch"),
        (["--device", "cuda"], "--device cuda needs a torch policy: add --policy torch"),
        (["--max-lag", "2"], "--max-lag 2 is of asynchronous training: add --async"),
        (["--async", "--replicas", "9"],
         "--replicas is 9: 256 worlds make 4 blocks of 64, so 1 to 4"),
    ],
)  # fmt: skip
def test_bad_flag_of_train_is_one_sentence(complain, argv, sentence):
    assert complain("train", "cartpole", *argv) == (2, sentence)


def test_train_without_environment_says_what_to_name(complain):
    code, sentence = complain("train")
    assert code == 2
    assert "ENV is missing" in sentence


def test_train_of_unknown_environment_suggests_the_nearest(complain):
    code, sentence = complain("train", "cartpool")
    assert code == 2
    assert "did you mean 'cartpole'?" in sentence
    assert "cartpool" in sentence


def test_envs_json_is_one_document(capsys):
    assert main(["envs", "--json"]) == 0
    envs = json.loads(capsys.readouterr().out)["envs"]
    cartpole = next(entry for entry in envs if entry["name"] == "cartpole")
    assert cartpole["language"] == "c"
    assert cartpole["agents"] == 1
    assert cartpole["target"] == 475.0
    assert cartpole["action_space"] == "Discrete(2)"
    assert cartpole["observation_space"].startswith("Box(")


def test_envs_prints_a_table(capsys):
    assert main(["envs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[0] == "name"
    assert any(line.startswith("cartpole ") for line in lines)


def test_eval_of_no_run_is_one_sentence(complain):
    code, sentence = complain("eval", "nowhere")
    assert code == 2
    assert sentence.startswith("nowhere is no run")


def test_debug_shows_the_traceback(monkeypatch):
    monkeypatch.setenv("HEADRACE_DEBUG", "1")
    with pytest.raises(ValueError, match="cartpool"):
        main(["train", "cartpool"])


@pytest.mark.parametrize("columns", ["40", "60", "80"])
def test_examples_of_help_can_be_copied(columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    for verb in ("scale", "eval"):
        assert main([verb, "--help"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line for line in lines if line.startswith("example: headrace ")] == [lines[-1]]
        assert not [line for line in lines if line.endswith(("-", "--price-per"))]
    assert main(["train", "--help"]) == 0
    said = capsys.readouterr().out
    assert "--wrappers NAME,NAME" in said
    assert "--params NAME=X" in said


def test_the_help_of_check_names_numba(capsys):
    assert main(["check", "--help"]) == 0
    assert ".py:Class of an environment in Numba" in " ".join(capsys.readouterr().out.split())
