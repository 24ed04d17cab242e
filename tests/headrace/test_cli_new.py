"""`headrace new`: what it writes works, in each language, and it overwrites nothing."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli import main

SUFFIXES = {"c": ".c", "cython": ".pyx", "numba": ".py"}


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("lang", SUFFIXES)
def test_a_new_environment_is_checked_tested_and_trained(lang, capsys):
    assert main(["new", "my_walk", "--lang", lang]) == 0
    source = f"my_walk{SUFFIXES[lang]}"
    written = {path.name for path in Path().iterdir()}
    assert written == {source, "my_walk.toml", "test_my_walk.py"}
    lines = sum(len(path.read_text().splitlines()) for path in Path().iterdir())
    assert lines < 80
    assert not any("demo" in path.read_text().lower() for path in Path().iterdir())
    assert "headrace train my_walk" in capsys.readouterr().out

    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "test_my_walk.py"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert tested.returncode == 0, tested.stdout
    assert "2 passed" in tested.stdout

    assert main(["train", source, "--seed", "1", "--json", "--quiet"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["solved"] is True
    assert result["return_mean"] >= 0.7


def test_the_three_languages_step_alike():
    import numpy as np

    import headrace

    actions = np.random.default_rng(5).integers(0, 3, (200, 8))
    trajectories = []
    for lang, suffix in SUFFIXES.items():
        assert main(["new", f"walk_{lang}", "--lang", lang]) == 0
        vec = headrace.make_vec(f"walk_{lang}{suffix}", 8, seed=1)
        vec.reset()
        trajectories.append([np.column_stack([vec.step(a)[0], vec.step(a)[1]]) for a in actions])
    assert np.array_equal(trajectories[0], trajectories[1])
    assert np.array_equal(trajectories[0], trajectories[2])


@pytest.mark.parametrize("name", ["w", "a_name_that_is_rather_long_for_its_job"])
@pytest.mark.parametrize("lang", ["c", "cython"])
def test_the_second_line_of_step_stands_below_its_parenthesis(name, lang):
    assert main(["new", name, "--lang", lang]) == 0
    lines = Path(f"{name}{SUFFIXES[lang]}").read_text().splitlines()
    at = next(i for i, line in enumerate(lines) if re.search(rf"void {name}_step\(", line))
    assert lines[at + 1].index("hr_") == lines[at].index("(") + 1


def test_nothing_is_overwritten(capsys):
    Path("test_walk.py").write_text("mine")
    assert main(["new", "walk"]) == 2
    assert capsys.readouterr().err == (
        "headrace: test_walk.py is there already: remove it, or choose another name\n"
    )
    assert [path.name for path in Path().iterdir()] == ["test_walk.py"]
    assert Path("test_walk.py").read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("1x", "use small letters"),
        ("Walk", "use small letters"),
        ("a-b", "use small letters"),
        ("../walk", "use small letters"),
        ("w" * 41, "41 characters"),
        ("float", "a word of the language"),
        ("lambda", "a word of the language"),
        ("hr_walk", "a word of the language"),
        ("cartpole", "a shipped environment"),
        ("numpy", "a Python module"),
    ],
)
def test_names_that_cannot_be_used_are_refused_in_one_sentence(name, reason, capsys):
    assert main(["new", name]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("headrace: NAME ")
    assert reason in err
    assert err.count("\n") == 1
    assert not list(Path().iterdir())


def test_an_unknown_language_is_refused(capsys):
    assert main(["new", "walk", "--lang", "rust"]) == 2
    assert capsys.readouterr().err == (
        "headrace: --lang must be c or cython or numba, not 'rust'\n"
    )
