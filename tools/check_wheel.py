"""Checks what a built wheel holds: `python tools/check_wheel.py WHEEL`.

All Python of the five folders, the headers, every environment with its source, preset and
prebuilt libraries, the extension modules, the licence; and nothing outside `headrace`.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = {"headrace": "headrace"} | {
    name: f"headrace/{name}" for name in ("engine", "envs", "trainers", "bench")
}
LANGUAGES = ("*.c", "*.pyx")  # of environments that are compiled when the wheel is built


def expected() -> set[str]:
    """Paths inside the wheel that come from files of the repository."""
    patterns = [(folder, "**/*.py") for folder in FOLDERS]
    patterns += [("headrace", "py.typed"), ("headrace", "templates/*"), ("envs", "*.toml")]
    patterns += [("engine", "include/**/*.h"), ("engine", "include/**/*.pxd")]
    patterns += [("envs", language) for language in LANGUAGES]
    return {
        f"{FOLDERS[folder]}/{path.relative_to(ROOT / folder)}"
        for folder, pattern in patterns
        for path in (ROOT / folder).glob(pattern)
        if path.is_file()
    }


def extensions() -> set[str]:
    """Paths inside the wheel of the extension modules, without what follows the name."""
    return {
        f"{FOLDERS[folder]}/{path.relative_to(ROOT / folder).with_suffix('')}"
        for folder in ("engine", "trainers")
        for path in (ROOT / folder).rglob("_*.pyx")
    }


def environments() -> list[str]:
    """Names of the environments that are prebuilt."""
    return sorted(path.stem for each in LANGUAGES for path in (ROOT / "envs").glob(each))


def problems(names: list[str]) -> list[str]:
    """What is wrong with a wheel of these files, one sentence each."""
    found = [f"{name} is missing" for name in sorted(expected() - set(names))]
    for stem in sorted(extensions()):
        if not any(name.startswith(f"{stem}.") and name.endswith(".so") for name in names):
            found.append(f"the extension module {stem} is missing")
    for name in environments():
        if f"headrace/envs/_prebuilt/{name}.base.so" not in names:
            found.append(f"environment {name} is not prebuilt")
    found += [
        f"{name} does not belong there"
        for name in names
        if not name.startswith("headrace/") and ".dist-info/" not in name
    ]
    if not any(name.endswith("/licenses/LICENSE") for name in names):
        found.append("the licence is missing")
    return found


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python tools/check_wheel.py WHEEL")
    with zipfile.ZipFile(sys.argv[1]) as wheel:
        wrong = problems(wheel.namelist())
    print("\n".join(wrong) or f"{Path(sys.argv[1]).name}: complete")
    raise SystemExit(1 if wrong else 0)
