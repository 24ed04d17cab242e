"""What an installed headrace consists of (a built wheel is tried in CI: tools/check_wheel.py)."""

from __future__ import annotations

import importlib.metadata
import importlib.resources
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.engine import compile as engine_compile

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = {"headrace": "headrace", **{n: n for n in ("engine", "envs", "trainers", "bench")}}
ENVIRONMENTS = sorted(path.stem for path in (ROOT / "envs").glob("*.c"))


@pytest.fixture(scope="module")
def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def requirement_name(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0]


def test_five_folders_are_one_package(pyproject: dict[str, Any]) -> None:
    assert pyproject["tool"]["setuptools"]["package-dir"] == {
        "headrace": "headrace",
        "headrace.engine": "engine",
        "headrace.envs": "envs",
        "headrace.trainers": "trainers",
        "headrace.bench": "bench",
    }


def test_every_folder_with_python_is_a_package() -> None:
    """A folder without __init__.py would be left out of the wheel."""
    holders = {path.parent for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}
    holders -= {ROOT / "headrace" / "templates"}  # data: what `headrace new` copies
    assert [str(folder) for folder in holders if not (folder / "__init__.py").exists()] == []


def test_version_is_said_once(pyproject: dict[str, Any]) -> None:
    assert headrace.__version__ == pyproject["project"]["version"]
    assert importlib.metadata.version("headrace") == headrace.__version__


def test_base_install_is_light(pyproject: dict[str, Any]) -> None:
    names = {requirement_name(each) for each in pyproject["project"]["dependencies"]}
    assert {"numpy", "gymnasium"} <= names
    assert names.isdisjoint({"torch", "numba", "cython", "matplotlib", "ziglang"})


def test_extras(pyproject: dict[str, Any]) -> None:
    extras = pyproject["project"]["optional-dependencies"]
    integrations = {"torch", "numba", "cython", "pufferlib", "sb3", "pettingzoo", "compiler"}
    outputs = {"plots", "video", "tensorboard", "wandb", "onnx"}
    assert set(extras) == {*integrations, *outputs, "test", "dev"}
    assert requirement_name(extras["pufferlib"][0]) == "pufferlib-core"
    assert "pufferlib-core" not in {requirement_name(each) for each in extras["test"]}


def test_linters_are_pinned(pyproject: dict[str, Any]) -> None:
    dev = pyproject["project"]["optional-dependencies"]["dev"]
    pinned = {requirement_name(each) for each in dev if "==" in each}
    assert pinned == {"ruff", "mypy", "clang-format", "codespell"}


def test_command_is_installed() -> None:
    scripts = importlib.metadata.entry_points(group="console_scripts", name="headrace")
    assert [script.value for script in scripts] == ["headrace.cli:main"]


def test_headers_are_installed() -> None:
    include = importlib.resources.files("headrace.engine") / "include"
    assert (include / "headrace.h").is_file()
    shipped = {path.name for path in (ROOT / "engine/include/headrace").iterdir()}
    assert shipped <= {path.name for path in (include / "headrace").iterdir()}
    assert {Path(each).suffix for each in shipped} == {".h"}


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_environment_comes_with_a_preset_and_prebuilt(environment: str) -> None:
    assert (ROOT / "envs" / f"{environment}.toml").is_file()
    library = engine_compile.prebuilt(environment)
    assert library is not None, "stale or missing: run `python setup.py build_ext --inplace`"
    assert library.is_file()
