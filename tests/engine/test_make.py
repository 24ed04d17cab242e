"""make_vec, resolve and register: from a name to a batch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from batches import SLIDE, SLOPE, WALK, assert_same

import headrace
from headrace import make_vec, register
from headrace.engine import registration
from headrace.engine.cpus import available_cpus
from headrace.engine.errors import ArgumentError
from headrace.engine.resolve import resolve


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is forgotten after it."""
    monkeypatch.setattr(registration, "_registry", dict(registration._registry))
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    monkeypatch.setattr(gymnasium, "registry", gymnasium.envs.registration.registry)


def test_defaults() -> None:
    vec = make_vec("cartpole", 8)
    assert (vec.num_envs, vec.batch_size, vec.executor) == (8, 8, "threads")
    assert vec.threads == available_cpus()
    assert vec.copy
    assert vec.max_steps == 500
    assert vec.render_mode is None
    assert make_vec("cartpole", 8, executor="serial").pool is None
    assert make_vec("cartpole", np.int64(8), threads=np.int32(3)).pool.threads == 3
    assert make_vec("cartpole", 8, max_steps=0).max_steps == 0


def test_paths_name_files() -> None:
    assert resolve(WALK).spec.name == "walk"
    assert resolve(Path(WALK)).source == Path(WALK)
    assert resolve("cartpole").source.name == "cartpole.c"


def test_a_file_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "with a space"
    folder.mkdir()
    (folder / "walk.c").write_text(Path(WALK).read_text())
    monkeypatch.chdir(folder)
    assert make_vec("walk.c", 2).spec_.name == "walk"
    with pytest.raises(ArgumentError, match="'walk' is unknown"):
        make_vec("walk", 2)


def test_registered_names() -> None:
    register("stroll", WALK)
    assert make_vec("stroll", 2).spec_.name == "walk"
    with pytest.raises(ArgumentError, match="did you mean 'stroll'"):
        make_vec("strol", 2)
    register("stroll", SLIDE)  # replaced
    assert make_vec("stroll", 2, slope=SLOPE).spec_.name == "slide"


def test_registering_with_gymnasium() -> None:
    register("stroll", WALK, gymnasium_id="mine/Stroll-v3", max_episode_steps=20)
    single = gymnasium.make("mine/Stroll-v3", slip=0.0)
    assert single.unwrapped.params == {"slip": 0.0}
    ours = gymnasium.make_vec("mine/Stroll-v3", 3, slip=0.0)
    theirs = gymnasium.make_vec("mine/Stroll-v3", 3, vectorization_mode="sync", slip=0.0)
    assert_same(ours.reset(seed=1)[0], theirs.reset(seed=1)[0])
    for _ in range(25):
        assert_same(ours.step(np.ones((3, 2), int))[0], theirs.step(np.ones((3, 2), int))[0])


@pytest.mark.parametrize(
    ("name", "path", "words"),
    [
        ("", WALK, "name '' cannot be registered"),
        ("a/b", WALK, "name 'a/b' cannot be registered"),
        ("my.c", WALK, "name 'my.c' cannot be registered"),
        ("cartpole", WALK, "'cartpole' is a shipped environment's: choose another"),
        ("stroll", "nowhere.c", "path 'nowhere.c' of environment 'stroll' is not a file"),
    ],
)
def test_names_that_cannot_be_registered(name: str, path: str, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        register(name, path)


def test_gymnasiums_worker_processes_know_our_environments() -> None:
    vec = gymnasium.make_vec("headrace/CartPole-v1", 2, vectorization_mode="async")
    obs, _ = vec.reset(seed=3)
    np.testing.assert_array_equal(obs, make_vec("cartpole", 2).reset(seed=3)[0])
    vec.close()


def test_batches_that_are_dropped_without_close_end_their_threads() -> None:
    code = (
        "import headrace, threading, numpy as np\n"
        "for k in range(30):\n"
        "    vec = headrace.make_vec('cartpole', 20_000, threads=3)\n"
        "    vec.reset(seed=0)\n"
        "    vec.step(np.zeros(20_000, int))\n"
        "    vec.send(np.zeros(20_000, int))\n"
        "print(open('/proc/self/status').read().split('Threads:')[1].split()[0])\n"
    )
    if not Path("/proc/self/status").exists():
        pytest.skip("no /proc")
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert int(done.stdout) <= 12  # this batch's and NumPy's, not thirty batches'


def test_public_names() -> None:
    assert headrace.make_vec is make_vec
    assert issubclass(headrace.VecEnv, gymnasium.vector.VectorEnv)
    assert issubclass(ArgumentError, headrace.HeadraceError)
