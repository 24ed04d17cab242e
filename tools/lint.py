"""Runs every linter and formatter: `python tools/lint.py [--fix]`.

ruff (lint and format), mypy, clang-format over *.c and *.h, codespell, at the versions that the
`dev` extra pins. Exit code 0 when all are content, 1 otherwise. With --fix, what can be corrected
mechanically is.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {"engine": "engine", "envs": "envs", "trainers": "trainers", "bench": "bench"}


def tool(name: str) -> str:
    """The tool beside this Python, else the one on PATH."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else name


def files(*patterns: str) -> list[str]:
    """Files of the repository, tracked or new, that match; ignored ones left out."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return sorted({name for name in listed.stdout.splitlines() if (ROOT / name).exists()})


def run(title: str, command: list[str], cwd: Path = ROOT, **environment: str) -> bool:
    """Runs one tool; True when it is content."""
    print(f"== {title}", flush=True)
    done = subprocess.run(command, cwd=cwd, env={**os.environ, **environment}, check=False)
    return done.returncode == 0


def mypy() -> bool:
    """Checks the folders as the one import package that they install as.

    mypy does not read setuptools' package-dir table, so it is shown a folder of links.
    """
    with tempfile.TemporaryDirectory() as scratch:
        package = Path(scratch) / "headrace"
        package.mkdir()
        for path in (ROOT / "headrace").iterdir():
            (package / path.name).symlink_to(path)
        for name, folder in PACKAGES.items():
            (package / name).symlink_to(ROOT / folder, target_is_directory=True)
        config = ["--config-file", str(ROOT / "pyproject.toml")]
        cache = ["--cache-dir", str(ROOT / ".mypy_cache")]
        package_ok = run("mypy", [tool("mypy"), *config, *cache, "-p", "headrace"], Path(scratch))
        scripts = [str(ROOT / name) for name in files("setup.py", "tools/*.py")]
        scripts_ok = run("mypy (scripts)", [tool("mypy"), *config, *cache, *scripts], Path(scratch))
    return package_ok and scripts_ok


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--fix", action="store_true", help="correct what can be corrected")
    fix = parser.parse_args().fix
    c_files = files("*.c", "*.h")
    style = ["-i"] if fix else ["--dry-run", "-Werror"]
    passed = [
        run("ruff check", [tool("ruff"), "check", *(["--fix"] if fix else []), "."]),
        run("ruff format", [tool("ruff"), "format", *([] if fix else ["--check"]), "."]),
        not c_files or run("clang-format", [tool("clang-format"), *style, *c_files]),
        run("codespell", [tool("codespell"), *(["-w"] if fix else []), *files()]),
        mypy(),
    ]
    print("all linters are content" if all(passed) else "some linters complained", flush=True)
    return 0 if all(passed) else 1


if __name__ == "__main__":
    raise SystemExit(main())
