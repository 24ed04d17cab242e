"""`headrace envs NAME`: what it says of one environment."""

import json
from pathlib import Path

import pytest

from headrace.cli import main
from headrace.engine.registration import registered

CATCH = Path(__file__).parents[2] / "examples" / "catch.c"


def told(capsys, env):
    assert main(["envs", env, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_document_holds_spaces_parameters_rules_and_speed(capsys):
    entry = told(capsys, "cartpole")
    assert (entry["name"], entry["language"], entry["agents"]) == ("cartpole", "c", 1)
    assert entry["action_space"] == "Discrete(2)"
    assert entry["observation"][0] == {
        "name": "x", "dtype": "float32", "shape": [],
        "low": pytest.approx(-4.8), "high": pytest.approx(4.8),
    }  # fmt: skip
    assert entry["observation"][1]["low"] is None  # unbounded
    assert entry["action"] == [{"name": "push", "dtype": "int32", "shape": [], "choices": 2}]
    params = {param["name"]: param["default"] for param in entry["params"]}
    assert params["gravity"] == pytest.approx(9.8)
    assert len(params) == 8
    assert entry["max_steps"] == 500
    assert entry["target"] == entry["preset"]["target"] == 475.0
    assert entry["rules"].startswith("CartPole: a cart on a track")
    assert (
        "action       0 pushes the cart to the left, 1 to the right" in entry["rules"].splitlines()
    )
    assert entry["steps_per_second"] > 1e5


@pytest.mark.parametrize(
    ("env", "language", "sizes"),
    [
        ("snake", "c", {"SIZE": "10", "VIEW": "7"}),
        ("inventory", "cython", {"LEAD": "4"}),
        ("memory", "numba", {"DELAY": "8", "CUES": "4"}),
        (str(CATCH), "c", {"SIZE": "8"}),
    ],
)
def test_sizes_and_rules_are_found_in_every_language(env, language, sizes, capsys):
    entry = told(capsys, env)
    assert entry["language"] == language
    assert entry["sizes"].items() >= sizes.items()
    for word in ("observation ", "reward "):
        assert any(line.startswith(word) for line in entry["rules"].splitlines())


def test_people_get_the_same_as_text(capsys):
    assert main(["envs", "snake"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("snake  (c, ")
    assert "observes    view[7][7]: -1 to 1 (float32)" in lines
    assert "acts        turn: 0 to 2" in lines
    assert "time limit  none" in lines
    assert lines[-1].startswith("speed ")
    assert lines[-1].endswith("steps/s on one core, measured just now")


@pytest.mark.parametrize("env", [name for name, each in registered().items() if each.shipped])
def test_every_environment_states_its_rules(env, capsys):
    rules = told(capsys, env)["rules"]
    for word in ("observation", "action", "reward", "start", "end"):
        assert any(line.startswith(f"{word} ") for line in rules.splitlines()), word


def test_an_unknown_name_is_one_sentence(capsys):
    assert main(["envs", "snak"]) == 2
    assert "did you mean 'snake'?" in capsys.readouterr().err


def test_spaces_come_as_structure_and_as_a_line(capsys):
    assert main(["envs", "--json"]) == 0
    entries = {each["name"]: each for each in json.loads(capsys.readouterr().out)["envs"]}
    pole = entries["cartpole"]["observation_space_structure"]
    assert (pole["type"], pole["shape"], pole["dtype"]) == ("Box", [4], "float32")
    assert pole["low"] == [pytest.approx(-4.8), None, pytest.approx(-0.41887903), None]
    assert entries["cartpole"]["observation_space"].startswith("Box(")
    assert entries["cartpole"]["action_space_structure"] == {
        "type": "Discrete", "shape": [], "dtype": "int64", "n": 2, "start": 0,
    }  # fmt: skip
    squared = told(capsys, "squared")["observation_space_structure"]
    assert squared == {"type": "Box", "shape": [11, 11], "dtype": "int8", "low": -1, "high": 1}


def test_a_file_without_rules_has_no_gap(capsys, tmp_path):
    text = CATCH.read_text()
    (tmp_path / "bare.c").write_text(text[text.index("*/") + 2 :])
    assert main(["envs", str(tmp_path / "bare.c")]) == 0
    assert "\n\n\n" not in capsys.readouterr().out
