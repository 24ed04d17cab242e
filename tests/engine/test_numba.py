"""Numba environments: what the author may write, names, sizes, and machine code that is kept."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace
from headrace.engine.numba import source

LANGUAGES = Path(__file__).parent / "languages"
SQUARED = LANGUAGES / "squared.py"
K = 0.25  # a constant of the module, used below
TABLE = (10, 20, 30)


def quarter(x: Any) -> Any:
    return x * K


@headrace.numba_env(max_steps=7, name="thing")
class Thing:
    """Decorated here and given as a class."""

    params = {"gain": 2.0, "count": 3, "wide": np.float64(0.1), "table": headrace.array(np.int16)}  # noqa: RUF012
    state = np.dtype([("x", np.float32), ("which", np.int32)])
    action = {"which": headrace.discrete(3)}  # noqa: RUF012
    obs = {"x": headrace.field(-1e9, 1e9), "length": headrace.field(0, 100)}  # noqa: RUF012

    @staticmethod
    def reset(p: Any, s: Any, rng: Any) -> None:
        s.which = 1

    @staticmethod
    def step(p: Any, s: Any, a: Any, out: Any, rng: Any) -> None:
        s.which = a.which
        s.x = quarter(p.gain) + TABLE[a.which] + p.table[a.which]
        out.reward = np.float32(p.wide)

    @staticmethod
    def observe(p: Any, s: Any, o: Any) -> None:
        o.x = s.x
        o.length = len(p.table)


def test_class_as_environment() -> None:
    vec = headrace.make_vec(Thing, 3, table=[1, 2, 3], gain=[2.0, 4.0, 8.0])
    assert (vec.spec_.name, vec.max_steps) == ("thing", 7)
    assert vec.params["count"] == 3
    assert {p.name: p.dtype for p in vec.spec_.params} == {
        "gain": "float32", "count": "int32", "wide": "float64", "table": "int16",
    }  # fmt: skip
    vec.reset(seed=0)
    obs, rewards, *_ = vec.step([0, 1, 2])
    np.testing.assert_array_equal(obs[:, 0], [0.5 + 10 + 1, 1 + 20 + 2, 2 + 30 + 3])
    np.testing.assert_array_equal(obs[:, 1], 3)
    np.testing.assert_array_equal(rewards, np.float32(0.1))


def test_functions_run_in_plain_python_with_the_same_values() -> None:
    from types import SimpleNamespace

    s, out = SimpleNamespace(which=0, x=0), SimpleNamespace()
    p = SimpleNamespace(gain=np.float32(3), wide=0.1, table=[1, 2, 3])
    Thing.step(p, s, SimpleNamespace(which=2), out, None)
    vec = headrace.make_vec(Thing, 1, table=[1, 2, 3], gain=3.0)
    vec.reset(seed=0)
    assert vec.step([2])[0][0, 0] == s.x


def test_floats_are_float32_unless_they_say_otherwise() -> None:
    def function(x: Any) -> Any:
        return x * 0.1 + np.float64(0.1) + K

    found = source.find(function, "function")
    assert found is not None
    prepared = source.prepare(found, checked=False)
    assert prepared.values["0.1f"] == np.float32(0.1)
    assert type(prepared.values["K"]) is np.float32
    made = prepared.realise(lambda each: each)
    assert made(np.float64(0)) == np.float64(0.1) + np.float64(np.float32(0.25))


def test_fingerprint_changes_with_what_is_used_and_only_with_that() -> None:
    def fingerprint(value: float, doc: str) -> str | None:
        def function(x: Any) -> Any:
            assert x > 0, doc
            return x * value

        found = source.find(function, "function")
        assert found is not None
        return source.prepare(found, checked=False).fingerprint()

    assert fingerprint(1.5, "a") == fingerprint(1.5, "b") != fingerprint(2.5, "a")


@pytest.mark.parametrize("size", [5, 11])
def test_size_of_a_file_and_of_a_class(size: int) -> None:
    assert headrace.make_vec(str(SQUARED), 1, SIZE=size).observation_space.shape == (1, size, size)


def test_sizes_of_a_class_given_as_such() -> None:
    sys.path.insert(0, str(LANGUAGES))
    try:
        from squared import Squared  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(LANGUAGES))
    assert headrace.make_vec(Squared, 1).observation_space.shape == (1, 11, 11)
    assert headrace.make_vec(Squared, 1, SIZE=5).observation_space.shape == (1, 5, 5)


CODE = """
import sys
import headrace
vec = headrace.make_vec({env!r}, 64)
vec.reset(seed=1)
vec.step([1] * 64)
print("numba" in sys.modules, int(vec.state.sum()))
"""


def in_a_process(env: Path, cache: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(env=str(env))],
        env={**os.environ, "HEADRACE_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_machine_code_is_kept_between_processes(tmp_path: Path) -> None:
    """The second process finds it, and so never imports numba; a changed file is compiled."""
    env, cache = tmp_path / "grid.py", tmp_path / "cache"
    env.write_text(SQUARED.read_text())
    compiled, first = in_a_process(env, cache)
    assert compiled == "True"
    assert [path.suffix for path in cache.iterdir()] == [".o"]
    assert in_a_process(env, cache) == ["False", first]
    env.write_text(SQUARED.read_text().replace("s.steps += 1", "s.steps += 2"))
    compiled, other = in_a_process(env, cache)
    assert (compiled, int(other)) == ("True", int(first) + 64)


def test_a_comment_does_not_compile_anew(tmp_path: Path) -> None:
    env, cache = tmp_path / "grid.py", tmp_path / "cache"
    env.write_text(SQUARED.read_text())
    _, first = in_a_process(env, cache)
    env.write_text("# a comment\n" + SQUARED.read_text())
    assert in_a_process(env, cache) == ["False", first]


def test_a_constant_of_another_module_counts(tmp_path: Path) -> None:
    env, cache = tmp_path / "grid.py", tmp_path / "cache"
    text = SQUARED.read_text().replace("import numpy", "import beside\nimport numpy", 1)
    env.write_text(text.replace("s.steps += 1", "s.steps += beside.STRIDE"))
    (tmp_path / "beside.py").write_text("STRIDE = 1\n")
    _, first = in_a_process(env, cache)
    (tmp_path / "beside.py").write_text("STRIDE = 3  # of steps\n")
    compiled, other = in_a_process(env, cache)
    assert (compiled, int(other)) == ("True", int(first) + 2 * 64)


def test_damaged_code_is_compiled_anew(tmp_path: Path) -> None:
    env, cache = tmp_path / "grid.py", tmp_path / "cache"
    env.write_text(SQUARED.read_text())
    _, first = in_a_process(env, cache)
    for path in cache.iterdir():
        path.write_bytes(path.read_bytes()[:100])
    assert in_a_process(env, cache) == ["True", first]


def test_trains(tmp_path: Path) -> None:
    result = headrace.train(
        f"{SQUARED}:Squared",
        seed=1,
        steps=20_000,
        params={"SIZE": 5},
        run_dir=str(tmp_path / "run"),
    )
    assert result.steps >= 20_000


def test_described_without_compiling() -> None:
    """All but the hash of the source, which only compiled code has."""
    from dataclasses import replace

    from headrace.engine.describing import describe

    spec = headrace.make_vec(Thing, 1, table=[1]).spec_
    assert describe(Thing) == replace(spec, source_hash="")
    assert describe("maze").single_observation_space.shape == (5, 5)
    assert describe("squared").language == "c"
