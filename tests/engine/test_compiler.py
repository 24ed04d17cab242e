"""A compiler that takes its time, what killed builds leave, and sentences above its messages."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from headrace.engine import compile, compiler
from headrace.engine.errors import CompileError

SOURCE = """\
#include <headrace.h>
#ifndef SIZE
#define SIZE 4
#endif
typedef hr_none Params;
typedef struct { int32_t at; } State;
typedef struct { int32_t move; } Action;
typedef struct { float seen[SIZE]; } Obs;
static inline void hop_reset(const Params *p, State *s, hr_rng *rng) {
    (void)p, (void)s, (void)rng;
}
static inline void hop_step(const Params *p, State *s, const Action a[], hr_outcome out[],
                            hr_rng *rng) {
    (void)p, (void)rng;
    s->at = a->move;
    out->reward = 1.0f;
}
static inline void hop_observe(const Params *p, const State *s, Obs o[]) {
    (void)p;
    for (int32_t k = 0; k < SIZE; k++)
        o->seen[k] = (float)s->at;
}
HR_ENV(hop, HR_OBS(HR_FIELD(Obs, seen, 0, 1)), HR_ACTION(HR_DISCRETE(Action, move, 2)),
       HR_PARAMS(), .max_steps = 9)
"""


@pytest.fixture
def hop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "hop.c"
    path.write_text(SOURCE)
    return path


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A compiler whose vectoriser never comes to an end; the file holds its process's number."""
    script, number = tmp_path / "slow-cc", tmp_path / "number"
    script.write_text(
        "#!/bin/sh\n"
        'case "$*" in *--version*|*-fno-tree-vectorize*) exec cc "$@";; esac\n'
        f"sleep 60 & echo $! > {number}; wait\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))
    return number


def test_a_stuck_vectoriser_is_left_out(
    hop: Path, slow: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(compiler, "PATIENCE", (1.5, 60.0))
    monkeypatch.setattr(compiler, "on_slow", told.append)
    assert compile.build(hop).is_file()
    assert told[0] == f"compiling {hop} ..."
    deadline = time.monotonic() + 10
    while Path(f"/proc/{slow.read_text().strip()}").exists():  # what it started ended with it
        state = Path(f"/proc/{slow.read_text().strip()}/stat").read_text().split(")")[1].split()[0]
        if state == "Z":
            break
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_stuck_compiler_is_one_sentence(
    hop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "stuck-cc"
    script.write_text('#!/bin/sh\ncase "$*" in *--version*) exec cc "$@";; esac\nsleep 60\n')
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))
    monkeypatch.setattr(compiler, "PATIENCE", (0.2, 0.3))
    with pytest.raises(CompileError, match=r"busy for more than 0\.3 seconds: .* set CC") as caught:
        compile.build(hop)
    assert "\n" not in str(caught.value)
    assert list((tmp_path / "cache").iterdir()) == []


def test_what_killed_builds_left_is_removed(hop: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    for name, age in ((".build-old", 4000), (".build-new", 0)):
        (cache / name).mkdir(parents=True)
        os.utime(cache / name, (time.time() - age,) * 2)
    library = compile.build(hop)
    assert sorted(each.name for each in cache.iterdir()) == [".build-new", library.name]


@pytest.mark.parametrize(
    ("old", "new", "sizes", "says"),
    [
        (
            "HR_ENV(hop",
            "HR_ENV(jump",
            {},
            "does not compile: functions must begin with the name given to HR_ENV, and jump_reset "
            "is not defined in hop.c:",
        ),
        (
            "#include <headrace.h>\n",
            "",
            {},
            "does not compile: #include <headrace.h> is missing at its top:",
        ),
        ("", "", {"SIZE": -3}, "does not compile with SIZE=-3:"),
    ],
)
def test_the_first_line_says_what_to_do(
    old: str, new: str, sizes: dict[str, int], says: str, hop: Path
) -> None:
    hop.write_text(SOURCE.replace(old, new, 1) if old else SOURCE)
    with pytest.raises(CompileError) as caught:
        compile.build(hop, defines=sizes)
    assert str(caught.value).splitlines()[0] == f"{hop} {says}"
