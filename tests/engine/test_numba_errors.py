"""What an author of a Numba environment does wrong is one sentence at the author's line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.engine.errors import CheckError, EnvDefinitionError

SOURCE = """\
import numpy as np
from headrace import discrete, field, numba_env
@numba_env(max_steps=10)
class Walk:
    state = np.dtype([("x", "f4"), ("n", "i4")])
    action = {"push": discrete(2)}
    obs = {"x": field(-1, 1), "v": field(-1, 1, shape=3)}
    def reset(p, s, rng):
        s.x = 0.0
    def step(p, s, a, out, rng):
        s.x += 0.1
        out.reward = 1.0
    def observe(p, s, o):
        o.x = s.x
"""
STEP, OBSERVE = "s.x += 0.1", "o.x = s.x"

# what is replaced, by what, line of the message, words of the message
WRONG: list[tuple[str, str, int, str]] = [
    ("def step(", "def stepp(", 3, "it has no function step(p, s, a, out, rng)"),
    ("a, out, rng)", "a, out)", 10, "step takes (p, s, a, out): declare it as step(p, s, a, "),
    (STEP, "s.y += 0.1", 11, "s has no 'y': it has x, n"),
    (STEP, "out.rewards = 1.0", 11, "out has no 'rewards': did you mean 'reward'?"),
    (OBSERVE, "o.z = s.x", 14, "o has no 'z': it has x, v"),
    (STEP, "s.x += p.speed", 11, "p has no 'speed': it has no members"),
    (STEP, "s.x += rng.gauss()", 11, "rng has no 'gauss': it has bits, unit, uniform"),
    (STEP, "s.x += rng.uniform(1)", 11, "the generator cannot be called like this: rng.uniform("),
    (STEP, "s.x += speed", 11, "Walk.step uses 'speed', which is not defined"),
    (STEP, "s.x += 'a'", 11, "in step: Numba has no iadd for these types: iadd(float32, "),
    (STEP, "s.n = 'abc'", 11, "in step: Cannot cast Literal[str](abc) to int32"),
    (OBSERVE, "o.v = s.x", 14, "in observe: Cannot cast float32 to nestedarray(float32, (3,))"),
    (STEP, "print(s.x)", 11, "print cannot be called in Walk.step"),
    (STEP, "s.x += len({'a': [1]})", 11, "Walk allocates memory in a function"),
    (OBSERVE, "o.v[:] = np.zeros(4, np.float32)", 14, "Walk allocates memory in a function"),
    (STEP, "s.x += np.random.rand()", 11, "draws from NumPy's or Python's random numbers"),
    (STEP, "if s.x > 1: raise ValueError('far')", 11, "this may raise ValueError('far')"),
    (STEP, "p.x = 3", 11, "step writes to p.x, but p is only to be read there"),
    (STEP, "a.push += 1", 11, "step writes to a.push, but a is only to be read there"),
    (OBSERVE, "s.x = 3", 14, "observe writes to s.x, but s is only to be read there"),
    ('("n", "i4")', '("n", "u1")', 3, "`state` has 3 unused bytes at its end"),
    ('("x", "f4")', '("b", "u1"), ("x", "f4")', 3, "`state` has 3 unused bytes before 'x'"),
    ('("x", "f4")', '("view", "f4")', 3, "`state` has a member 'view', a name that Numba keeps"),
    ('("x", "f4")', '("x", object)', 3, "`state` holds Python objects"),
    ("    state =", "    stat =", 3, "it has no `state`"),
    ("field(-1, 1),", "3,", 3, "`obs` has 'x': 3; give headrace.field or headrace.discrete"),
    ("max_steps=10", "max_steps=-1", 3, "max_steps is -1: give an integer from 0 on"),
    ("max_steps=10", "metrics=('won',)", 3, "it has the option `metrics` and not the function"),
    (STEP, "s.x += ", 11, "invalid syntax"),
    ("import numpy as np", "import nothing_of_the_kind", 1, "it needs the module 'nothing_of_the"),
    ("@numba_env", "q = 1 / 0\n@numba_env", 3, "ZeroDivisionError: division by zero"),
]  # fmt: skip


def written(folder: Path, old: str = "", new: str = "") -> Path:
    assert old in SOURCE
    path = folder / "walk.py"
    path.write_text(SOURCE.replace(old, new, 1) if old else SOURCE)
    return path


@pytest.mark.parametrize(("old", "new", "line", "words"), WRONG)
def test_message(tmp_path: Path, old: str, new: str, line: int, words: str) -> None:
    path = written(tmp_path, old, new)
    with pytest.raises(EnvDefinitionError) as caught:
        headrace.make_vec(str(path), 1)
    message = str(caught.value)
    assert message.startswith(f"{path}:{line}: ")
    assert words in message
    assert "Traceback" not in message
    assert len(message.splitlines()) <= 2


def test_line_in_a_helper_function(tmp_path: Path) -> None:
    helper = "def speed(x):\n    return x + 'a'\n@numba_env"
    path = written(tmp_path, "@numba_env", helper)
    path.write_text(path.read_text().replace(STEP, "s.x += speed(s.x)"))
    with pytest.raises(EnvDefinitionError, match=r"walk\.py:4: in step: Numba has no add"):
        headrace.make_vec(str(path), 1)


@pytest.mark.parametrize(
    ("env", "options", "words"),
    [
        ("walk.py:Run", {}, r"walk\.py has no environment Run: it has Walk"),
        ("walk.py", {"SIZE": 3}, r"walk\.py has no compile-time size SIZE: it has none"),
        (
            "walk.py",
            {"speed": 3},
            r"'speed' is no argument of make_vec, nor a parameter of the environment 'walk'",
        ),
        ("other.py", {}, "there is no such file"),
    ],
)
def test_choosing(tmp_path: Path, env: str, options: dict[str, Any], words: str) -> None:
    written(tmp_path)
    with pytest.raises(ValueError, match=words):
        headrace.make_vec(str(tmp_path / env), 1, **options)


def test_file_with_several_and_with_none(tmp_path: Path) -> None:
    path = tmp_path / "walk.py"
    path.write_text(SOURCE + SOURCE.replace("Walk", "Run"))
    with pytest.raises(ValueError, match=r"walk\.py defines 2 environments \(Walk, Run\): say whi"):
        headrace.make_vec(str(path), 1)
    assert headrace.make_vec(f"{path}:Run", 1).spec_.name == "run"
    path.write_text("x = 1\n")
    with pytest.raises(EnvDefinitionError, match="defines no environment"):
        headrace.make_vec(str(path), 1)


@pytest.fixture
def hidden_numba(tmp_path: Path) -> dict[str, str]:
    """The environment of a process that has no numba."""
    stub = tmp_path / "site" / "sitecustomize.py"
    stub.parent.mkdir()
    stub.write_text(
        "import importlib.util as u\n"
        "found = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'numba' else found(name, *rest)\n"
    )
    return {**os.environ, "PYTHONPATH": str(stub.parent)}


def said(path: Path, environment: dict[str, str]) -> str:
    code = f"import headrace\ntry: headrace.make_vec({str(path)!r}, 1)\n"
    code += "except headrace.HeadraceError as e: print(e)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_without_numba(tmp_path: Path, hidden_numba: dict[str, str]) -> None:
    assert said(written(tmp_path), hidden_numba) == (
        "environment 'walk' is compiled by numba, which is not installed: "
        "run `pip install 'headrace[numba]'`"
    )


def test_with_numba_switched_off(tmp_path: Path) -> None:
    message = said(written(tmp_path), {**os.environ, "NUMBA_DISABLE_JIT": "1"})
    assert "which NUMBA_DISABLE_JIT switches off" in message


ASSERTION = "s.x += 0.1; assert s.x < 0.15, 'too far'"


def test_assertions_are_free_in_a_normal_build(tmp_path: Path) -> None:
    vec = headrace.make_vec(str(written(tmp_path, STEP, ASSERTION)), 1)
    vec.reset(seed=1)
    for _ in range(5):
        vec.step([0])


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (STEP, ASSERTION, r"walk\.py:11: .*AssertionError: too far .*environment 0 .*step 2 "),
        (OBSERVE, "o.v[s.n + 5] = s.x", r"walk\.py:13: .*IndexError: index is out of bounds"),
        (STEP, "if s.x > 1: raise ValueError('far')\n        s.x += 1.0", r"walk\.py:11: .*far"),
    ],
)
def test_checked_build_reports(tmp_path: Path, old: str, new: str, words: str) -> None:
    path = written(tmp_path, old, new)
    vec = headrace.make_vec(str(path), 3, checked=True, executor="serial")
    with pytest.raises(CheckError, match=words):  # noqa: PT012 (whenever it is)
        vec.reset(seed=1)
        for _ in range(5):
            vec.step([0, 0, 0])


def test_checked_build_gives_the_same_values(tmp_path: Path) -> None:
    path = Path(__file__).parent / "languages" / "squared.py"
    results = []
    for checked in (False, True):
        vec = headrace.make_vec(str(path), 5, checked=checked)
        vec.reset(seed=2)
        results.append([vec.step([1, 2, 3, 4, 0])[0] for _ in range(30)])
    assert (results[0][-1] == results[1][-1]).all()
    assert all((a == b).all() for a, b in zip(*results, strict=True))


def test_exception_in_draw_is_raised(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_text(path.read_text() + "    def draw(p, s, frame):\n        1 / 0\n")
    vec = headrace.make_vec(str(path), 1)
    vec.reset(seed=1)
    with pytest.raises(ZeroDivisionError):
        vec.draw(0)
