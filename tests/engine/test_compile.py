"""Compiling an author's file: the cache, and what an author reads after a mistake."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.engine import compile, compiler
from headrace.engine._core import Library
from headrace.engine.errors import ArgumentError, CompileError, EnvDefinitionError

WALK = """\
#include <headrace.h>
typedef struct { float goal; } Params;
typedef struct { float place; } State;
typedef struct { int32_t push; } Action;
typedef struct { float place; } Obs;
static inline void walk_reset(const Params *p, State *s, hr_rng *rng) {
    s->place = p->goal * hr_unit(rng);
}
static inline void walk_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                             hr_rng *rng) {
    (void)rng;
    s->place += (float)a->push;
    out->reward = s->place < p->goal ? 0.0f : 1.0f;
}
static inline void walk_observe(const Params *p, const State *s, Obs o[]) {
    (void)p;
    o->place = s->place;
}
HR_ENV(walk, HR_OBS(HR_FIELD(Obs, place, -1.0f, 1.0f)), HR_ACTION(HR_DISCRETE(Action, push, 2)),
       HR_PARAMS(HR_PARAM(goal, 0.5f)), .max_steps = 100)
"""
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def walk(tmp_path: Path) -> Path:
    path = tmp_path / "walk.c"
    path.write_text(WALK)
    return path


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(folder))
    return folder


def message(path: Path, text: str) -> str:
    """What an author reads whose file holds this text."""
    path.write_text(text)
    with pytest.raises(CompileError) as caught:
        compile.build(path)
    return str(caught.value)


def line_of(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


# an author's mistake: what to replace, by what, where the message points, what it says
MISTAKES = {
    "syntax": ("hr_unit(rng);", "hr_unit(rng)", "hr_unit", "expected ';'"),
    "padding": ("float place; } State", "float place; uint8_t x; } State", "x; } State", "padding"),
    "dtype of a field": (
        "float place; } Obs",
        "double place; } Obs",
        "HR_ENV",
        "Obs.place must be",
    ),
    "dtype of a discrete": ("int32_t push", "float push", "HR_ENV", "Action.push must be int32_t"),
    "dtype of a param": (
        "float goal",
        "uint8_t goal",
        "HR_ENV",
        "Params.goal must be float, double",
    ),
    "signature": ("Obs o[]", "Obs o[], int k", "HR_ENV", "walk_observe must be declared as"),
    "no such function": ("void walk_observe", "void look", "HR_ENV", "'walk_observe' undeclared"),
    "no such type": ("float place; } State", "float place; } Stat", "State *s", "name 'State'"),
    "no such member": ("Action, push", "Action, pull", "HR_ENV", "no member named 'pull'"),
    "no such option": (".max_steps", ".max_step", "HR_ENV", "did you mean '?max_steps"),
    "a misspelt helper": ("hr_unit", "hr_unitt", "hr_unitt", "hr_unitt"),
    "a missing return": ("(void)p;", "(void)p, return;", "(void)p, return", "expected expression"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_reported_at_the_authors_line(name: str, tmp_path: Path) -> None:
    old, new, at, says = MISTAKES[name]
    text = WALK.replace(old, new)
    assert text != WALK
    path = tmp_path / "walk.c"
    shown = message(path, text)
    why = ""
    if name == "no such function":
        why = ": functions must begin with the name given to HR_ENV"
    assert shown.startswith(f"{path} does not compile{why or ':'}")
    first = next(line for line in shown.splitlines()[1:] if "error" in line)
    assert first.startswith(f"{path}:{line_of(text, at)}:")
    assert re.search(says, first)
    assert "hr__step" not in shown
    assert "-march" not in shown
    assert "In file included" not in shown
    assert ("order the members from the largest type" in shown) == (name == "padding")


def test_a_pointer_is_no_field(tmp_path: Path) -> None:
    text = WALK.replace("float place; } Obs", "float *place; } Obs")
    text = text.replace("o->place = s->place", "(void)o, (void)s")
    shown = message(tmp_path / "walk.c", text)
    assert "Obs.place must be float, uint8_t, int8_t" in shown


def test_a_repeated_message_is_shown_once(tmp_path: Path) -> None:
    shown = message(tmp_path / "walk.c", WALK.replace("Action, push", "Action, pull"))
    assert shown.count("no member named 'pull'") == 1


def test_a_function_that_nobody_defines(tmp_path: Path) -> None:
    text = WALK.replace("#include <headrace.h>", "#include <headrace.h>\nfloat gust(void);")
    shown = message(tmp_path / "walk.c", text.replace("hr_unit(rng)", "gust()"))
    assert "undefined reference to" in shown
    assert "gust" in shown


def test_a_file_without_an_environment(walk: Path) -> None:
    walk.write_text(WALK[: WALK.index("HR_ENV")])
    with pytest.raises(EnvDefinitionError, match="defines no environment"):
        Library(str(compile.build(walk)), source=str(walk))


@pytest.mark.parametrize("where", ["before", "after"])
def test_an_authors_macros_may_have_such_names(walk: Path, where: str) -> None:
    names = "N H i j k n p r s t w x y T A B C D E F M R S W ROWS LENGTH MAX DEBUG min max swap"
    macros = "\n".join(f"#define {name} 11" for name in names.split())
    include = "#include <headrace.h>"
    lines = [macros, include] if where == "before" else [include, macros]
    text = re.sub(r"\b(p|s)\b", r"my_\1", WALK.replace(include, ""))
    walk.write_text("\n".join([*lines, text]))
    assert Library(str(compile.build(walk))).describe()["max_steps"] == 100


def test_cached_until_something_changes(walk: Path, cache: Path) -> None:
    first = compile.build(walk)
    made = first.stat().st_mtime_ns
    assert compile.build(walk) == first
    assert first.stat().st_mtime_ns == made
    assert first.parent == cache
    copy = walk.parent / "elsewhere" / "walk.c"
    copy.parent.mkdir()
    copy.write_text(WALK)
    assert compile.build(copy) == first
    assert compile.build(copy, checked=True) != first
    walk.write_text(WALK.replace("100", "101"))
    second = compile.build(walk)
    assert second != first
    assert Library(str(second)).describe()["max_steps"] == 101
    assert sorted(path.suffix for path in cache.iterdir()) == [".so"] * 3  # nothing left behind


def test_a_changed_include_of_the_authors_compiles_again(walk: Path, cache: Path) -> None:
    (walk.parent / "inner.h").write_text("#define LIMIT 7\n")
    (walk.parent / "limit.h").write_text('#  include "inner.h"\n')
    walk.write_text('#include "limit.h"\n' + WALK.replace("100", "LIMIT"))
    assert Library(str(compile.build(walk))).describe()["max_steps"] == 7
    (walk.parent / "inner.h").write_text("#define LIMIT 8\n")
    assert Library(str(compile.build(walk))).describe()["max_steps"] == 8


def test_compiler_flags_and_cpu_are_part_of_the_key(
    walk: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = compile.build(walk)
    monkeypatch.setenv("CC", f"{compile.find_compiler()[0]} -DUNUSED=1")  # type: ignore[index]
    second = compile.build(walk)
    monkeypatch.setattr(compile, "_cpu_identity", lambda: "another CPU")
    assert len({first, second, compile.build(walk)}) == 3


def test_source_hash_depends_on_contents_alone(walk: Path, tmp_path: Path) -> None:
    copy = tmp_path / "a b" / "walk.c"
    copy.parent.mkdir()
    shutil.copy(walk, copy)
    plain = compile.source_hash(walk, {})
    assert compile.source_hash(copy, {}) == plain
    assert compile.source_hash(walk, {"SIZE": 3}) != plain
    assert compile.source_hash(walk, {"SIZE": 3}) != compile.source_hash(walk, {"SIZE": 4})
    copy.write_text(WALK + "\n")
    assert compile.source_hash(copy, {}) != plain
    assert Library(str(compile.build(walk))).describe()["source_hash"] == plain


def test_sizes(walk: Path) -> None:
    walk.write_text(WALK.replace("#include", "#ifndef SIZE\n#define SIZE 4\n#endif\n#include", 1))
    for value in (3, -1):
        compile.build(walk, defines={"SIZE": value})
    with pytest.raises(
        ArgumentError, match=r"walk\.c has no compile-time size SIZES: did you mean"
    ):
        compile.build(walk, defines={"SIZES": 3})
    with pytest.raises(ArgumentError, match="has no compile-time size AGENTS: it has SIZE"):
        compile.build(walk, defines={"AGENTS": 3})
    for value in (2.5, "3", True, None):
        with pytest.raises(ArgumentError, match=r"size SIZE is .*: give an integer"):
            compile.build(walk, defines={"SIZE": value})  # type: ignore[dict-item]
    walk.write_text(WALK)
    with pytest.raises(ArgumentError, match="it has none"):
        compile.build(walk, defines={"SIZE": 3})


def test_paths_with_spaces_quotes_and_a_leading_dash(tmp_path: Path, cache: Path) -> None:
    folder = tmp_path / '-my env\'s "files" é'
    folder.mkdir()
    (folder / "-walk.c").write_text(WALK)
    assert Library(str(compile.build(folder / "-walk.c"))).describe()["name"] == "walk"


def test_no_compiler(walk: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(compile.importlib.util, "find_spec", lambda name: None)
    assert compile.find_compiler() is None
    with pytest.raises(CompileError, match=r"no C compiler here; .*headrace\[compiler\]") as caught:
        compile.build(walk)
    assert "\n" not in str(caught.value)


def test_ziglang_is_the_last_resort(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(compile.importlib.util, "find_spec", lambda name: object())
    assert compile.find_compiler() == [sys.executable, "-m", "ziglang", "cc"]


def test_cc(walk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = shutil.which("cc") or shutil.which("gcc")
    monkeypatch.setenv("CC", "gcc -Dx=1")
    assert compile.find_compiler() == [shutil.which("gcc"), "-Dx=1"]
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(CompileError, match="CC names 'no-such-compiler', which is no program"):
        compile.build(walk)
    monkeypatch.delenv("CC")
    assert compile.find_compiler() == [real]


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"nothing\.c cannot be read: No such file"):
        compile.build(tmp_path / "nothing.c")


def test_an_unwritable_cache_falls_back_to_a_temporary_folder(
    walk: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / "file" / "cache"))
    compile._warn_of_cache.cache_clear()
    with pytest.warns(RuntimeWarning, match="HEADRACE_CACHE_DIR") as told:
        library = compile.build(walk)
    assert len(told) == 1
    assert library.parent == compile._temporary_cache()
    assert library == compile.build(walk)
    shutil.rmtree(library.parent)
    compile._temporary_cache.cache_clear()
    monkeypatch.setattr(compile.tempfile, "mkdtemp", _refuse)
    with pytest.raises(OSError, match="set HEADRACE_CACHE_DIR to a folder that can") as caught:
        compile.build(walk)
    assert "\n" not in str(caught.value)


def _refuse(**_: object) -> str:
    raise PermissionError(13, "Permission denied")


def test_two_processes_compile_the_same_file_at_once(walk: Path, cache: Path) -> None:
    script = (
        "import sys; from headrace.engine import compile; from headrace.engine._core import "
        "Library; path = compile.build(sys.argv[1]); "
        "print(path, Library(str(path)).describe()['name'])"
    )
    command = [sys.executable, "-c", script, str(walk)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    printed = {process.communicate()[0] for process in running}
    assert [process.returncode for process in running] == [0, 0, 0]
    assert len(printed) == 1
    library, name = printed.pop().rsplit(" ", 1)
    assert name.strip() == "walk"
    assert [str(path) for path in cache.iterdir()] == [library]


def test_prebuilt_only_when_fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "envs" / "_prebuilt"
    folder.mkdir(parents=True)
    source = folder.parent / "walk.c"
    source.write_text(WALK)
    monkeypatch.setattr(compile, "PREBUILT_DIR", folder)
    monkeypatch.setattr(compile, "_cpu_features", lambda: ("", frozenset(_V4)))
    monkeypatch.delenv("HEADRACE_ISA", raising=False)
    assert compile.prebuilt("walk") is None
    built = compile.build(source)
    for level in ("base", "v3", "v4"):
        shutil.copy(built, folder / f"walk.{level}.so")
    assert compile.prebuilt("walk") == folder / "walk.v4.so"
    assert compile.prebuilt("other") is None
    monkeypatch.setenv("HEADRACE_ISA", "v3")
    assert compile.prebuilt("walk") == folder / "walk.v3.so"
    monkeypatch.setenv("HEADRACE_ISA", "v5")
    with pytest.raises(ArgumentError, match="HEADRACE_ISA is 'v5': expected base, v3, v4"):
        compile.prebuilt("walk")
    monkeypatch.delenv("HEADRACE_ISA")
    monkeypatch.setattr(compile, "_cpu_features", lambda: ("", frozenset({"avx512f"})))
    assert compile.prebuilt("walk") == folder / "walk.base.so"
    monkeypatch.setenv("HEADRACE_PREBUILT", "0")
    assert compile.prebuilt("walk") is None
    monkeypatch.delenv("HEADRACE_PREBUILT")
    source.write_text(WALK.replace("100", "101"))
    assert compile.prebuilt("walk") is None


_V4 = set().union(*compile._LEVEL_FEATURES.values())


def test_the_cache_answers_at_once(walk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compile.build(walk)
    monkeypatch.setattr(compile, "_compile", None)  # whoever calls it fails
    assert compile.build(walk).is_file()


def test_a_file_saved_while_it_is_compiled(
    walk: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library under the name of some content is of that content."""
    real = " ".join(compile.find_compiler() or [])
    edits, script = tmp_path / "edits", tmp_path / "compiler"
    script.write_text(  # edits the file after each compile, as often as `edits` says
        f"""#!/bin/sh
{real} "$@" || exit 1
case "$*" in *walk.c*) left=$(cat {edits}) ;; *) left=0 ;; esac
[ "$left" -eq 0 ] && exit 0
echo "/* $left */" >> {walk}
echo $((left - 1)) > {edits}
"""
    )
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))
    edits.write_text("1")
    hash_of_first = compile.source_hash(walk, {})
    library = compile.build(walk)
    assert walk.read_text() == WALK + "/* 1 */\n"
    assert compile.source_hash(walk, {}).encode() in library.read_bytes()
    assert hash_of_first.encode() not in library.read_bytes()
    assert len(list(cache.glob("*.so"))) == 1
    edits.write_text("9")
    walk.write_text(WALK + "/* new */\n")
    with pytest.raises(CompileError, match="keeps changing while it is compiled"):
        compile.build(walk)


def test_the_temporary_cache_goes_with_its_process(tmp_path: Path) -> None:
    words = "from headrace.engine import compile; print(compile._temporary_cache())"
    done = subprocess.run(
        [sys.executable, "-c", words], capture_output=True, text=True, check=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert Path(done.stdout.strip()).parent == tmp_path
    assert not list(tmp_path.iterdir())


_OBSERVE = """
import ctypes, sys
lib, worlds = ctypes.CDLL(sys.argv[1]), ctypes.c_int64(1024)
params, *arrays = (
    ctypes.create_string_buffer(1024 * size) for size in (4, 4, 16, 4, 4, 1, 1, 4))
lib.drive_arrays(params, ctypes.c_int64(0), *arrays)
lib.drive_observe(ctypes.c_int64(0), worlds)
print("done")
"""


@pytest.mark.parametrize("shift", [0, 1])
def test_a_sanitized_build_finds_a_write_outside(walk: Path, shift: int) -> None:
    runtime = subprocess.run(
        ["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not os.path.isabs(runtime):
        pytest.skip("gcc has no AddressSanitizer here")
    text = WALK.replace("o->place = s->place", f"o[{shift}].place = s->place")
    walk.write_text(text + f'#include "{ROOT}/tests/engine/c/driver.h"\n')
    done = subprocess.run(
        [sys.executable, "-c", _OBSERVE, str(compile.build(walk, sanitize=True))],
        env={**os.environ, "LD_PRELOAD": runtime, "ASAN_OPTIONS": "detect_leaks=0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if shift == 0:
        assert done.stdout == "done\n", done.stderr
    else:
        assert "heap-buffer-overflow" in done.stderr
        assert "walk_observe" in done.stderr
        assert done.returncode != 0


BYTES = """\
#include <headrace.h>
#ifndef WIDTH
#define WIDTH 8
#endif
typedef hr_none Params;
typedef struct { int32_t x, y; } State;
typedef struct { int32_t move; } Action;
typedef struct { uint8_t grid[4][WIDTH]; uint8_t q[4]; } Obs;
static inline void cliff_reset(const Params *p, State *s, hr_rng *rng) {
    (void)p, (void)rng;
    s->y = 3;
}
static inline void cliff_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                              hr_rng *rng) {
    (void)p, (void)rng;
    s->x = (s->x + a->move) % WIDTH;
    out->terminated = s->x == WIDTH - 1;
}
static inline void cliff_observe(const Params *p, const State *s, Obs o[]) {
    (void)p;
    for (int32_t k = 0; k < 4; k++)
        o->q[k] = (uint8_t)(s->x == k);
    for (int32_t y = 0; y < 4; y++)
        for (int32_t x = 0; x < WIDTH; x++)
            o->grid[y][x] = (uint8_t)(255 * ((x == s->x) & (y == s->y)));
}
HR_ENV(cliff, HR_OBS(HR_FIELD(Obs, grid, 0, 255), HR_FIELD(Obs, q, 0, 255)),
       HR_ACTION(HR_DISCRETE(Action, move, 4)), HR_PARAMS(), .max_steps = 100)
"""


@pytest.mark.parametrize("quarter", ["uint8_t q[4]", "float q[4]"])
def test_observations_of_bytes_compile_without_a_retry(
    quarter: str, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = BYTES.replace(
        "uint8_t grid[4][WIDTH]; uint8_t q[4]", quarter + "; uint8_t grid[4][WIDTH]"
    )
    (tmp_path / "cliff.c").write_text(text)
    monkeypatch.setattr(compiler, "PATIENCE", (20.0, 0.0))  # gcc took minutes
    assert compile.build(tmp_path / "cliff.c").is_file()
