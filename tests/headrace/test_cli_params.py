"""Parameters that are wrong: the sentence is for who typed it."""

import re
from pathlib import Path

import pytest

import headrace
from headrace.cli import main

SLIDE = str(Path(__file__).parents[1] / "engine" / "worlds" / "slide.c")


@pytest.mark.parametrize("verb", ["train", "play", "check", "scale"])
@pytest.mark.parametrize(
    ("env", "given", "said"),
    [
        ("cartpole", "speed=3", r"cartpole has no speed: its parameters are gravity, .*; it has no "
         r"compile-time sizes$"),
        ("cartpole", "seed=3", "cartpole has no seed: its parameters are gravity, "),
        ("cartpole", "GRAVITY=3", r"cartpole has no GRAVITY: .*; did you mean 'gravity'\?$"),
        ("maze", "SIZED=3", r"maze has no SIZED: .*sizes are SIZE.*; did you mean 'SIZE'\?$"),
        ("maze", "SIZE=9.5", "SIZE=9.5: a compile-time size is a whole number$"),
        ("cartpole", "max_steps=2.5", "max_steps=2.5: a time limit is a whole number of steps"),
    ],
)  # fmt: skip
def test_a_parameter_that_an_environment_has_not_got_is_told_with_those_it_has(
    verb, env, given, said, capsys
):
    assert main([verb, env, "--params", given, *["--frames", "1"] * (verb == "play")]) == 2
    err = capsys.readouterr().err.splitlines()[-1]
    assert re.match(f"headrace: --params: {said}", err), err


def test_callers_from_python_are_told_of_settings_not_flags():
    with pytest.raises(headrace.HeadraceError, match=r"^params: cartpole has no speed: its param"):
        headrace.train("cartpole", params={"speed": 3})
    with pytest.raises(headrace.HeadraceError, match=r"^max_lag 2 is of asynchronous"):
        headrace.train("cartpole", max_lag=2)


def test_an_array_that_is_needed_is_told_of_with_its_flag(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["train", SLIDE]) == 2
    said = "--params: slope of slide is an array and has no default: give one, slope=FILE.npy\n"
    assert capsys.readouterr().err.endswith(said)


def test_words_of_headraces_own_are_no_parameters(capsys):
    assert main(["train", "gymnasium:CartPole-v1", "--params", "seed=3"]) == 2
    assert "--params: seed is a word of headrace's own" in capsys.readouterr().err
