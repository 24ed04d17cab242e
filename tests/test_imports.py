"""Who may import whom, and what `import headrace` may load."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("headrace", "engine", "envs", "trainers", "bench")
ALLOWED = {
    "engine": {"engine"},
    "envs": {"envs", "engine"},
    "trainers": {"trainers", "engine"},
    "bench": set(FOLDERS),
    "headrace": set(FOLDERS),
}
TEMPLATES = ROOT / "headrace" / "templates"  # what `headrace new` copies: an author's files
SOURCES = sorted(
    path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py") if path.parent != TEMPLATES
)
CYTHON = sorted(
    path
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".pyx", ".pxi", ".pxd"} and path.parent != TEMPLATES
)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def package_of(path: Path) -> list[str]:
    """The package in which relative imports of this file start: headrace.engine for engine/x.py."""
    parts = list(path.relative_to(ROOT).parent.parts)
    return parts if parts[0] == "headrace" else ["headrace", *parts]


def folder_of(module: str) -> str:
    """The folder that holds headrace.<...>: `headrace` itself unless it is one of the others."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in FOLDERS else "headrace"


def absolute(path: Path, level: int, module: str, names: list[str]) -> list[str]:
    """The modules that `from <level dots><module> import <names>` may load."""
    package = package_of(path)
    base = package[: len(package) - (level - 1)] + ([module] if module else [])
    if len(base) == 1:  # from .. import engine
        return [f"headrace.{each}" for each in names]
    return [".".join(base)]


def imported(path: Path) -> list[tuple[int, str, bool]]:
    """(line, module, whether written relative) of each import of the package in a Python file."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [
                (node.lineno, alias.name, False)
                for alias in node.names
                if alias.name.split(".")[0] == "headrace"
            ]
        elif isinstance(node, ast.ImportFrom) and node.level > 0:
            names = [alias.name for alias in node.names]
            modules = absolute(path, node.level, node.module or "", names)
            found += [(node.lineno, module, True) for module in modules]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "headrace":
            found.append((node.lineno, str(node.module), False))
    return found


def cython_imported(path: Path) -> list[tuple[int, str, bool]]:
    """The same for a Cython file, line by line."""
    found = []
    for line, text in enumerate(path.read_text().splitlines(), 1):
        match = re.match(r"\s*from\s+(\.*)([\w.]*)\s+c?import\s+(.+)", text)
        if match and match[1]:
            names = re.findall(r"\w+", match[3])
            modules = absolute(path, len(match[1]), match[2], names)
            found += [(line, module, True) for module in modules]
        elif re.match(r"\s*(from headrace cimport|cimport headrace)\b", text):
            found.append((line, "headrace.engine", False))  # engine/include/headrace.pxd
        elif re.match(r"\s*(from|c?import)\s+headrace\b", text):
            found.append((line, text.split()[1], False))
    return found


def broken(path: Path, imports: list[tuple[int, str, bool]]) -> list[str]:
    allowed = ALLOWED[path.relative_to(ROOT).parts[0]]
    return [
        f"{name(path)}:{line} imports {module}"
        for line, module, _ in imports
        if folder_of(module) not in allowed
    ]


def test_every_folder_is_looked_at() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in SOURCES} == set(FOLDERS)


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_imports_go_downward(path: Path) -> None:
    assert broken(path, imported(path)) == []


@pytest.mark.parametrize("path", CYTHON, ids=name)
def test_cython_imports_go_downward(path: Path) -> None:
    assert broken(path, cython_imported(path)) == []


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_imports_inside_the_package_are_relative(path: Path) -> None:
    assert [f"{name(path)}:{line}" for line, _, relative in imported(path) if not relative] == []


def test_the_rule_sees_a_break(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "engine").mkdir()
    source = tmp_path / "engine" / "wrong.py"
    source.write_text("from ..trainers.train import train\nfrom . import spec\nimport numpy\n")
    cython = tmp_path / "engine" / "wrong.pyx"
    cython.write_text("from ..bench cimport timing\nfrom .core cimport vec\n")
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    assert broken(source, imported(source)) == ["engine/wrong.py:1 imports headrace.trainers.train"]
    assert broken(cython, cython_imported(cython)) == ["engine/wrong.pyx:1 imports headrace.bench"]


def test_import_headrace_stays_light() -> None:
    """The heavy libraries, and those that only the command line needs, wait until they are used."""
    code = (
        "import sys, numpy, gymnasium; before = set(sys.modules); import headrace;"
        "print(*sorted({m.split('.')[0] for m in set(sys.modules) - before}))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    loaded = set(done.stdout.split())
    assert "headrace" in loaded
    heavy = {"torch", "numba", "matplotlib", "rich", "tyro", "safetensors", "Cython", "setuptools"}
    assert loaded & heavy == set()
