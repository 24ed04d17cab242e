"""Cython environments: what the author may write, and errors at the author's line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import headrace
from headrace.engine import compile, cython_env
from headrace.engine.errors import CheckError, CompileError, EnvDefinitionError, HeadraceError

SOURCE = '''\
from headrace cimport *

cdef extern from *:
    """
    #ifndef SIZE
    #define SIZE 4
    #endif
    """
    enum: SIZE

cdef struct Params:
    float target

cdef struct State:
    float place
    int8_t trail[SIZE]

cdef struct Action:
    int32_t push

cdef struct Obs:
    float place

cdef float moved(float place, int32_t push) noexcept nogil:
    return place + (<float>0.25 if push == 1 else <float>-0.25)

cdef void walk_reset(const Params *p, State *s, hr_rng *rng) noexcept nogil:
    s.place = hr_uniform(rng, -1, 1)

cdef void walk_step(const Params *p, State *s, const Action *a, hr_outcome *out,
                    hr_rng *rng) noexcept nogil:
    HR_CHECK(s.place < 2, "too far")
    s.place = moved(s.place, a.push)
    out.reward = -hr_fabs(s.place - p.target)
    out.terminated = hr_fabs(s.place) > 3

cdef void walk_observe(const Params *p, const State *s, Obs *o) noexcept nogil:
    o.place = s.place

cdef extern from *:
    """
    HR_ENV(walk, HR_OBS(HR_FIELD(Obs, place, -4, 4)),
           HR_ACTION(HR_DISCRETE(Action, push, 2)),
           HR_PARAMS(HR_PARAM(target, 0.5f)), .max_steps = 100)
    """
'''

MOVE = "s.place = moved"
RESET = "hr_rng *rng) noexcept nogil:\n    s.place = hr_uniform"
# what is replaced, by what, line of the message, words of the message
WRONG: list[tuple[str, str, int, str]] = [
    (MOVE, "s.place = speed + moved", 33, "undeclared name not builtin: speed"),
    (MOVE, "s.plaze = moved", 33, "State has no such member"),
    (MOVE, "print(3)\n    s.place = moved", 33, "Python cannot be used in a function"),
    (MOVE, "s.place = = moved", 33, "Expected an identifier or literal"),
    (RESET, RESET.replace("noexcept ", ""), 27, "walk_reset is not declared noexcept"),
    (RESET, RESET.replace(" nogil", ""), 27, "walk_reset is not declared nogil"),
    ("out,\n                    hr_rng *rng)", "out)", 41, "walk_step must be declared as"),
    ("trail[SIZE]", "trail[3]", 14, "padding struct size to alignment boundary"),
    ("Obs, place", "Obs, plaze", 42, "has no member named 'plaze'"),
    (".max_steps = 100)", ".max_steps = 100", 42, "HR_ENV( is never closed"),
]  # fmt: skip


def written(folder: Path, old: str = "", new: str = "", name: str = "walk.pyx") -> Path:
    assert old in SOURCE
    path = folder / name
    path.write_text(SOURCE.replace(old, new, 1) if old else SOURCE)
    return path


@pytest.mark.parametrize(("old", "new", "line", "words"), WRONG)
def test_message(tmp_path: Path, old: str, new: str, line: int, words: str) -> None:
    path = written(tmp_path, old, new)
    with pytest.raises(HeadraceError) as caught:
        headrace.make_vec(str(path), 1)
    message = str(caught.value)
    assert f"{path}:{line}:" in message
    assert words in message
    assert "__pyx_v" not in message


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("walk_step", "walk_stepp", "there is no function walk_step"),
        ("cdef struct Obs", "cdef struct Observation", "there is no struct Obs: declare"),
        ("HR_ENV", "HR_ENVIRONMENT", "defines no environment: it needs HR_ENV"),
    ],
)
def test_what_is_missing(tmp_path: Path, old: str, new: str, words: str) -> None:
    with pytest.raises(EnvDefinitionError, match=words):
        headrace.make_vec(str(written(tmp_path, old, new)), 1)


def test_values_parameters_and_sizes(tmp_path: Path) -> None:
    path = written(tmp_path, name="a walk-1.pyx")
    vec = headrace.make_vec(str(path), 70, SIZE=8, target=[0.25] * 70)
    assert (vec.spec_.name, vec.max_steps, vec.spec_.state_size) == ("walk", 100, 12)
    start, _ = vec.reset(seed=1)
    obs, rewards, terminated, *_ = vec.step(np.arange(70) % 2)
    moved = start + np.where(np.arange(70) % 2, np.float32(0.25), np.float32(-0.25))[:, None]
    np.testing.assert_array_equal(obs, moved)
    np.testing.assert_array_equal(rewards, -np.abs(moved[:, 0] - np.float32(0.25)))
    assert not terminated.any()


def test_unknown_size(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no compile-time size SIZES: did you mean SIZE"):
        headrace.make_vec(str(written(tmp_path)), 1, SIZES=3)


def test_checked_build(tmp_path: Path) -> None:
    vec = headrace.make_vec(str(written(tmp_path)), 2, checked=True)
    vec.reset(seed=1)
    with pytest.raises(CheckError, match=r"walk\.pyx:32: .*too far .*environment \d of 'walk'"):  # noqa: PT012
        for _ in range(20):
            vec.step([1, 1])


def test_nothing_in_a_struct_needs_params(tmp_path: Path) -> None:
    text = SOURCE.replace("cdef struct Params:\n    float target", "ctypedef hr_none Params")
    text = text.replace("HR_PARAM(target, 0.5f)", "").replace("p.target", "1")
    path = tmp_path / "walk.pyx"
    path.write_text(text)
    assert headrace.make_vec(str(path), 1).params == {}


def test_library_needs_no_python(tmp_path: Path) -> None:
    nm = shutil.which("nm")
    if nm is None:
        pytest.skip("nm is not installed")
    library = compile.build(written(tmp_path))
    symbols = subprocess.run([nm, "-D", library], capture_output=True, text=True, check=True).stdout
    assert " T headrace_env" in symbols
    assert " Py" not in symbols
    assert " _Py" not in symbols


def test_second_process_compiles_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path)
    library = compile.build(path)
    monkeypatch.setattr(cython_env, "translate", None)
    assert compile.build(path) == library


def test_without_cython(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cython_env.importlib.util, "find_spec", lambda name: None)  # type: ignore
    with pytest.raises(
        CompileError, match=r"not installed: run `pip install 'headrace\[cython\]'`"
    ):
        headrace.make_vec(str(written(tmp_path, "-4, 4", "-5, 5")), 1)


def test_without_python_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cython_env.sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(CompileError, match=r"there is no Python\.h in"):
        headrace.make_vec(str(written(tmp_path, "-4, 4", "-6, 6")), 1)


def test_shipped_one_is_prebuilt() -> None:
    code = "import headrace; print(headrace.make_vec('inventory', 1).spec_.language)"
    environment = {**os.environ, "CC": "/nowhere/cc"}
    if compile.prebuilt("inventory") is None:
        pytest.skip("not built from the sources that are here")
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "cython"


def test_every_public_name_of_the_header_is_declared() -> None:
    import re

    include = compile.INCLUDE_DIR
    declared = (include / "headrace.pxd").read_text()
    public: set[str] = set()
    for header in ("random", "math", "draw"):
        text = (include / "headrace" / f"{header}.h").read_text()
        public |= set(
            re.findall(r"^(?:HR__INLINE|static inline) .*?\b(hr_[a-z0-9]\w*)\(", text, re.M)
        )
    assert len(public) > 25
    assert {name for name in public if f"{name}(" not in declared} == set()
