"""`import headrace`: its names, what it says where it cannot work, and what it costs."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import headrace

ROOT = Path(__file__).parents[2]
HEAVY = "print([m for m in ('torch', 'numba', 'rich', 'Cython') if m in sys.modules])"


def python(code, cwd):
    """Runs code with `cwd` first on the path, as `python -c` does."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def test_every_public_name_is_there():
    for name in headrace.__all__:
        assert getattr(headrace, name) is not None
    assert set(headrace.__all__) <= set(dir(headrace))


def test_version_is_the_installed_one():
    assert headrace.__version__[0].isdigit()


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'headrace' has no attribute 'tarin'"):
        _ = headrace.tarin


def test_import_loads_no_heavy_module(tmp_path):
    assert python(f"import sys, headrace; {HEAVY}", tmp_path).stdout.strip() == "[]"


def test_training_loads_no_heavy_module(tmp_path):
    code = f"import sys, headrace; headrace.train('cartpole', steps=1); {HEAVY}"
    assert python(code, tmp_path).stdout.strip() == "[]"


@pytest.mark.parametrize("engine", ["missing", "not built"])
def test_folder_without_its_engine_says_what_to_do(tmp_path, engine):
    """The source folder found before an installed package, and one that was never built."""
    shutil.copytree(ROOT / "headrace", tmp_path / "headrace")
    if engine == "not built":
        for name in ("engine", "trainers"):
            package = tmp_path / "headrace" / name
            package.mkdir()
            for source in (ROOT / name).glob("*.py"):
                shutil.copy(source, package)
    # Without the finder of an editable install, which finds the engine from everywhere.
    plain = "import sys; sys.meta_path = [f for f in sys.meta_path if 'ditable' not in repr(f)]"
    done = python(f"{plain}; import headrace", tmp_path)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"ImportError: headrace was imported from {tmp_path / 'headrace'}, ")
    assert "pip install -e ." in last


def test_registered_environment_trains_by_name_and_outlives_the_process(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "mine.c"
    shutil.copy(ROOT / "envs" / "cartpole.c", source)
    headrace.register("my_cartpole", source)
    result = headrace.train("my_cartpole", steps=1)
    code = f"import headrace; print(headrace.evaluate({result.run!r}, episodes=2).env)"
    assert python(code, tmp_path).stdout.strip() == str(source)
