"""Arrays as parameters of an environment that is trained: read from .npy files, never unpickled."""

from pathlib import Path

import numpy as np
import pytest

import headrace
from headrace.cli import main
from headrace.trainers.run import Run
from headrace.trainers.settings import ConfigError

SLIDE = str(Path(__file__).parents[1] / "engine" / "worlds" / "slide.c")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def train(value, **options):
    return headrace.train(SLIDE, steps=2000, num_envs=64, params={"slope": value}, **options)


def test_an_array_comes_from_its_file(tmp_path, monkeypatch):
    np.save("slope.npy", np.float32([0.3, -0.2]))
    run = train("slope.npy", run_dir="r").run
    assert dict(Run.open(run).read_config()[0].params)["slope"] == str(tmp_path / "slope.npy")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    low = headrace.evaluate(str(tmp_path / "r"), episodes=4).return_mean
    np.save(tmp_path / "slope.npy", np.float32([3.0, 3.0]))
    assert headrace.evaluate(str(tmp_path / "r"), episodes=4).return_mean != low


def test_what_is_no_array_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"slope=\S+missing.npy: No such file"):
        train("missing.npy")
    Path("text.npy").write_text("no array")
    with pytest.raises(ConfigError, match=r"slope=\S+text.npy holds no array"):
        train("text.npy")
    with pytest.raises(ConfigError, match="names with numbers"):
        train("slope.txt")


class Evil:
    def __reduce__(self):
        return Path.touch, (Path("executed"),)


def test_pickles_are_not_opened():
    np.save("evil.npy", np.array([Evil()], object), allow_pickle=True)
    with pytest.raises(ConfigError, match="holds no array"):
        train("evil.npy")
    assert not Path("executed").exists()


LAKE = """
import gymnasium, numpy as np

class Lake(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, slippery=True, name="4x4", size=1, quoted=""):
        assert (slippery, name, size, quoted) == (False, "8x8", 9, "7"), (slippery, name, size)

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 1.0, True, False, {}
"""
FLAGS = ["--steps", "8", "--num-envs", "2", "--horizon", "4", "--quiet", "--run-dir", "r"]


@pytest.mark.parametrize("preset", [False, True])
def test_booleans_and_texts_are_parameters_of_python_environments(preset):
    Path("lake.py").write_text(LAKE)
    given = ["--params", "slippery=false,name=8x8,size=9,quoted='7'"]
    if preset:
        Path("lake.toml").write_text(
            '[params]\nslippery = false\nname = "8x8"\nsize = 9\nquoted = "7"\n'
        )
        given = []
    assert main(["train", "lake.py:Lake", *given, *FLAGS]) == 0
    assert headrace.evaluate("r", episodes=2).return_mean == 1.0  # as the run's folder has them


@pytest.mark.parametrize("given", ["gravity=false", "gravity=x", "gravity=[1,2]", "gravity="])
def test_parameters_of_native_environments_are_numbers(given, capsys):
    assert main(["train", "cartpole", "--params", given, *FLAGS]) == 2
    said = capsys.readouterr().err
    assert "must be names with numbers" in said
    assert not Path("r").exists()
