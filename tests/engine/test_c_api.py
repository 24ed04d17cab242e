"""headrace.h: what HR_ENV makes of an author's file, and the kernels that come out of it."""

from __future__ import annotations

import ctypes
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from driven import C_FILES, Driven, address, load, params_bytes

from headrace.engine import compile
from headrace.engine._core import Library

ROOT = Path(__file__).resolve().parents[2]
PRICES = np.array([5.0, 0.25], np.float32)
GXX = shutil.which("g++")


def everything(worlds: int, **options: Any) -> Driven:
    return Driven("everything", worlds, lambda about: params_bytes(about, prices=PRICES), **options)


def summary(fields: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [
        (f["name"], f["kind"], f["dtype"], f["offset"], f["shape"], f["low"], f["high"])
        for f in fields
    ]


def test_description_comes_from_the_structs() -> None:
    about = everything(1).about
    assert (about["name"], about["agents"], about["max_steps"]) == ("everything", 2, 40)
    assert (about["params_size"], about["state_size"], about["action_size"]) == (40, 20, 20)
    assert summary(about["obs_fields"]) == [
        ("place", "box", "float32", 0, (), -np.inf, np.inf),
        ("cube", "box", "float32", 4, (2, 3, 3, 1), 0, 1),
        ("count", "discrete", "int32", 76, (), 0, 999),
        ("height", "box", "int16", 80, (2,), -5, 5),
        ("small", "box", "int8", 84, (3,), -128, 127),
        ("pixel", "box", "uint8", 87, (3, 2, 1), 0, 255),
        ("fill", "box", "uint8", 93, (7,), 0, 0),
    ]
    assert summary(about["action_fields"]) == [
        ("turn", "discrete", "int32", 0, (), 0, 2),
        ("fingers", "discrete", "int32", 4, (2,), 0, 3),
        ("push", "box", "float32", 12, (2,), -1, 1),
    ]
    assert [f["choices"] for f in about["action_fields"]] == [3, 4, 0]
    assert [
        (p["name"], p["dtype"], p["offset"], p["default"], p["is_array"]) for p in about["params"]
    ] == [
        ("prices", "float32", 0, None, True),
        ("big", "int64", 8, 1 << 20, False),
        ("fine", "float64", 16, 0.125, False),
        ("scale", "float32", 24, 2.0, False),
        ("offset", "int32", 32, -3, False),
    ]
    assert about["params"][0]["length_offset"] == 28
    assert about["mask_size"] == 3 + 2 * 4
    assert about["metric_names"] == ["total", "longest"]
    assert about["has_present"]
    assert about["has_mask"]
    assert about["has_metrics"]
    assert about["has_draw"]
    assert about["source_hash"] == compile.source_hash(C_FILES / "everything.c", {})


def test_what_an_environment_does_not_have_is_absent() -> None:
    about = Driven("cartpole_driven", 1).about
    assert not (about["has_present"] or about["has_mask"] or about["has_metrics"])
    assert (about["agents"], about["mask_size"], about["metric_names"]) == (1, 0, [])


def test_compile_time_sizes() -> None:
    about = everything(1, defines={"SIZE": 5}).about
    shapes = {field["name"]: field["shape"] for field in about["obs_fields"]}
    assert shapes["cube"] == (2, 3, 5, 1)
    assert shapes["pixel"] == (5, 2, 1)
    assert everything(1, defines={"AGENTS": 4}).about["agents"] == 4


def test_kernels_of_many_agents() -> None:
    env = everything(3)
    env.reset()
    np.testing.assert_array_equal(env.rng[:, 1], [3, 3, 3])
    before = env.state.view(np.float32)[:, :2].copy()
    env.field("actions", "turn")[:] = [0, 1, 2, 0, 0, 0]
    env.field("actions", "fingers")[:, 1] = 3
    env.field("actions", "push")[:, 0] = 0.5
    env.call("step")
    after = env.state.view(np.float32)[:, :2]
    np.testing.assert_array_equal(after, before + np.float32(3.75))
    np.testing.assert_array_equal(env.rewards, after.ravel() * 11)
    assert env.terminated.tolist() == [0, 0, 1, 0, 0, 0]
    assert env.truncated.tolist() == [0, 1, 0, 0, 0, 0]
    assert env.flags("present", 1).ravel().tolist() == [1, 0, 0, 1, 1, 1]
    mask = env.flags("mask", 11)
    assert [row.nonzero()[0].tolist() for row in mask] == [[0], [1], [2], [0], [0], [0]]
    out = np.full(3, 9, np.float32)
    env.lib.drive_metrics(ctypes.c_int64(1), address(out))
    np.testing.assert_array_equal(out, [2 + after[1, 0], 1, 9])


def test_observations_of_every_dtype() -> None:
    env = everything(2)
    env.reset()
    env.call("observe")
    np.testing.assert_array_equal(env.field("obs", "place"), env.state.view("<f4")[:, :2].ravel())
    assert (env.field("obs", "cube")[:, 1, 2, 2, 0] == 0.125).all()
    assert (env.field("obs", "height")[:, 1] == -3).all()
    assert env.field("obs", "small")[:, 0].tolist() == [0, -1, 0, -1]
    assert (env.field("obs", "pixel")[:, 2, 1, 0] == 3).all()


def test_outcomes_and_states_are_zero_before_the_author_sees_them() -> None:
    env = everything(2)
    env.reset()
    assert (env.state.view(np.int32)[:, 2:] == 0).all()  # last[] is never written by reset
    env.call("step")
    assert env.terminated.tolist() == env.truncated.tolist() == [0] * 4


def test_drawing() -> None:
    env = everything(2)
    env.reset()
    env.call("step", 1, 2)
    frame = np.zeros((2, 3, 3), np.uint8)
    env.lib.drive_draw(ctypes.c_int64(1), address(frame), ctypes.c_int32(3), ctypes.c_int32(2))
    expected = np.full((2, 3, 3), (1, 2, 3))
    expected[0, 1] = (9, 8, 7)
    np.testing.assert_array_equal(frame, expected)


def test_checks_are_free_in_a_normal_build_and_name_line_and_world_in_a_checked_one() -> None:
    normal, checked = everything(3), everything(3, checked=True)
    world = ctypes.c_int64(-5)
    for env in (normal, checked):
        env.reset()
        for _ in range(2):
            env.call("step")
        assert env.lib.drive_failure(ctypes.byref(world)) == 0
        env.call("step", 2, 3)
    assert not normal.about["checked"]
    assert normal.lib.drive_failure(ctypes.byref(world)) == 0
    lines = (C_FILES / "everything.c").read_text().splitlines()
    line = checked.lib.drive_failure(ctypes.byref(world))
    assert "more than two steps" in lines[line - 1]
    assert world.value == 2
    np.testing.assert_array_equal(normal.state, checked.state)


RANGES = [
    [(0, 200)],
    [(0, 64), (64, 200)],
    [(128, 200), (0, 128)],
    [(k, k + 1) for k in range(200)],
]


def cartpole(worlds: int, per_world: bool = False) -> Driven:
    def params(about: Any) -> np.ndarray:
        one = params_bytes(about)
        return np.ascontiguousarray(np.tile(one, (worlds, 1))) if per_world else one

    return Driven("cartpole_driven", worlds, params)


@pytest.mark.parametrize("per_world", [False, True], ids=["shared", "per world"])
@pytest.mark.parametrize("ranges", RANGES, ids=["whole", "blocks", "backwards", "singly"])
def test_bits_do_not_depend_on_ranges_or_on_how_params_are_given(
    ranges: list[tuple[int, int]], per_world: bool
) -> None:
    reference, cut = cartpole(200), cartpole(200, per_world)
    pushes = np.random.default_rng(3).integers(0, 2, (40, 200, 1))
    reference.reset()
    cut.reset()
    for push in pushes:
        for env in (reference, cut):
            env.actions.view(np.int32)[:] = push
        reference.call("step")
        reference.call("observe")
        for lo, hi in ranges:
            cut.call("step", lo, hi)
            cut.call("observe", lo, hi)
        for name in ("state", "rewards", "terminated", "truncated", "obs", "rng"):
            np.testing.assert_array_equal(getattr(reference, name), getattr(cut, name), name)


@pytest.mark.parametrize("words", [1, 2, 3, 5, 9, 15, 17])
def test_a_state_of_any_size_is_stepped_in_its_own_place(words: int) -> None:
    env = Driven("uneven", 150, defines={"WORDS": words})
    pushes = np.random.default_rng(words).integers(0, 10, (4, 150, 1))
    env.state[:] = 0
    for push in pushes:
        env.actions.view(np.int32)[:] = push
        env.call("step", 3, 140)  # two whole blocks, and some worlds of a third
    total = pushes.sum(axis=0)
    total[:3] = total[140:] = 0
    np.testing.assert_array_equal(env.state.view(np.int32), total * np.arange(1, words + 1))
    np.testing.assert_array_equal(env.rewards[3:140], pushes[-1, 3:140, 0])
    np.testing.assert_array_equal(env.terminated[3:140], total[3:140, 0] >= 20)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="flags of x86-64")
def test_bits_do_not_depend_on_the_instruction_set(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = cartpole(130)
    monkeypatch.setenv("CC", "gcc -mno-avx512f -mno-avx2 -mno-avx -mno-fma -mno-sse4.1")
    narrow = cartpole(130)
    pushes = np.random.default_rng(5).integers(0, 2, (60, 130, 1))
    for env in (wide, narrow):
        env.reset()
        for push in pushes:
            env.actions.view(np.int32)[:] = push
            env.call("step")
            ended = env.terminated.copy()
            env.reset(which=ended)
    assert (wide.rng[:, 1] > 4).any()
    for name in ("state", "rng", "terminated"):
        np.testing.assert_array_equal(getattr(wide, name), getattr(narrow, name), name)


def test_kernels_write_only_inside_their_range() -> None:
    env = cartpole(200)
    env.reset(0, 200)
    names = ("state", "rewards", "terminated", "truncated", "obs")
    before = {name: getattr(env, name).copy() for name in names}
    env.call("step", 64, 192)
    env.call("observe", 64, 192)
    for name in names:
        after = getattr(env, name)
        np.testing.assert_array_equal(after[:64], before[name][:64])
        np.testing.assert_array_equal(after[192:], before[name][192:])
        assert (after[64:192] != before[name][64:192]).any(axis=-1).all()


@pytest.mark.parametrize(("lo", "hi"), [(0, 200), (64, 128), (3, 150), (199, 200), (5, 5)])
def test_reset_touches_the_flagged_worlds_alone(lo: int, hi: int) -> None:
    env = cartpole(200)
    which = np.random.default_rng(4).integers(0, 3, hi - lo).astype(np.uint8) * 100
    env.reset(lo, hi, which)
    fresh = np.zeros(200, bool)
    fresh[lo:hi] = which != 0
    assert ((env.state != 0xAB).any(axis=1) == fresh).all()
    np.testing.assert_array_equal(env.rng[:, 1], np.where(fresh, 2, 0))
    values = env.state.view(np.float32)[fresh]
    assert (np.abs(values) <= 0.05).all()


def frame_of(name: str, values: list[float], shape: tuple[int, int] = (12, 16)) -> np.ndarray:
    frame = np.zeros((*shape, 3), np.uint8)
    args = np.array(values, np.float32)
    height, width = shape
    load("draw_probe")[name](
        address(frame), ctypes.c_int32(width), ctypes.c_int32(height), address(args)
    )
    painted = (frame == (10, 20, 30)).all(axis=2)
    assert (frame[~painted] == 0).all()
    return painted


def centres(shape: tuple[int, int] = (12, 16)) -> tuple[np.ndarray, np.ndarray]:
    y, x = np.mgrid[: shape[0], : shape[1]] + 0.5
    return x, y


@pytest.mark.parametrize(
    "box", [(2, 3, 4, 5), (-5, -5, 8, 100), (3.4, 3.6, 0.2, 9), (20, 0, 5, 5), (4, 4, -2, 3)]
)
def test_rect_paints_the_pixels_whose_centres_it_holds(box: tuple[float, ...]) -> None:
    x, y = centres()
    left, top, width, height = box
    inside = (x >= left) & (x < left + width) & (y >= top) & (y < top + height)
    np.testing.assert_array_equal(frame_of("rect", list(box)), inside)


def test_disc_line_and_fill() -> None:
    x, y = centres()
    np.testing.assert_array_equal(
        frame_of("disc", [5.2, 6.1, 3.3]), np.hypot(x - 5.2, y - 6.1) < 3.3
    )
    across = frame_of("line", [2, 4, 10, 4, 2])
    np.testing.assert_array_equal(across[3:5, 2:10], True)
    assert not across[:2].any()
    assert not across[6:].any()
    diagonal = frame_of("line", [-40, -40, 60, 60, 1.5])
    np.testing.assert_array_equal(diagonal, np.abs(x - y) / np.sqrt(2) < 0.75)
    assert frame_of("fill", []).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38, -3e38])
def test_drawing_survives_any_coordinates(bad: float) -> None:
    for name, count in (("rect", 4), ("line", 5), ("disc", 3)):
        for place in range(count):
            values = [4.0] * count
            values[place] = bad
            frame_of(name, values)


def test_text() -> None:
    frame = np.zeros((10, 20, 3), np.uint8)
    args = np.array([1, 1, 1], np.float32)
    text = load("draw_probe").text
    text.restype = ctypes.c_float
    end = text(address(frame), 20, 10, address(args), b"Hi\xff")
    assert end == 19
    rows = ["".join("#" if dot else "." for dot in row) for row in frame[:, :, 0] == 10]
    assert rows[1:8] == [
        ".#...#...#..........",
        ".#...#..............",
        ".#...#..##..........",
        ".#####...#..........",
        ".#...#...#..........",
        ".#...#...#..........",
        ".#...#..###.........",
    ]
    assert not frame[[0, 8, 9]].any()


@pytest.mark.skipif(GXX is None, reason="no C++ compiler")
@pytest.mark.parametrize("path", [C_FILES / "everything.c", *sorted(ROOT.glob("envs/*.c"))])
def test_the_same_source_is_cpp20(path: Path, tmp_path: Path) -> None:
    library = tmp_path / "env.so"
    flags = "-std=c++20 -x c++ -O1 -ffp-contract=off -fPIC -shared -Wall -Wextra".split()
    flags += ["-Wno-missing-field-initializers", "-Werror", f"-I{compile.INCLUDE_DIR}"]
    assert GXX is not None
    done = subprocess.run(
        [GXX, *flags, str(path), "-o", str(library)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    as_c = Library(str(compile.build(path))).describe()
    as_cpp = Library(str(library)).describe()
    assert as_cpp.pop("source_hash") == ""
    as_c.pop("source_hash")
    assert as_cpp == as_c


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.c")), ids=lambda p: p.name)
def test_examples_are_short_and_compile(path: Path) -> None:
    """60 lines without optional functions, 100 with the drawing and metrics of a walk-through."""
    text = path.read_text()
    optional = ".draw" in text or ".metrics" in text
    assert 30 <= len(text.splitlines()) <= (100 if optional else 60)
    assert Library(str(compile.build(path))).describe()["name"] == path.stem


def test_every_public_name_is_documented() -> None:
    text = (ROOT / "docs" / "c-api.md").read_text()
    names: set[str] = set()
    for header in compile.INCLUDE_DIR.rglob("*.h"):
        source = header.read_text()
        names |= set(re.findall(r"^#define (HR_(?!_)\w+)", source, re.MULTILINE))
        names |= set(re.findall(r"\b(hr_(?!_)\w+)\(", source))
        names |= set(re.findall(r"^typedef struct (hr_(?!_)\w+)", source, re.MULTILINE))
    internal = {"HR_ABI_VERSION", "HR_BLOCK", "HR_MAX_RANK", "HR_SOURCE_HASH"}
    internal |= {"hr_field", "hr_param", "hr_failure", "hr_batch", "hr_env"}  # abi.h: the engine's
    missing = {name for name in names - internal if not re.search(rf"\b{name}\b", text)}
    assert not missing
    assert "hr_sin" in names
    assert "HR_ENV" in names
