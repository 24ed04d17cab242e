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
EXTENSIONS = ("headrace/engine/_core", "headrace/trainers/_native")


def expected() -> set[str]:
    """Paths inside the wheel that come from files of the repository."""
    patterns = [(folder, "**/*.py") for folder in FOLDERS]
    patterns += [("headrace", "py.typed"), ("envs", "*.c"), ("envs", "*.toml")]
    patterns += [("engine", "include/**/*.h")]
    return {
        f"{FOLDERS[folder]}/{path.relative_to(ROOT / folder)}"
        for folder, pattern in patterns
        for path in (ROOT / folder).glob(pattern)
    }


def problems(names: list[str]) -> list[str]:
    """What is wrong with a wheel of these files, one sentence each."""
    found = [f"{name} is missing" for name in sorted(expected() - set(names))]
    for stem in EXTENSIONS:
        if not any(name.startswith(f"{stem}.") and name.endswith(".so") for name in names):
            found.append(f"the extension module {stem} is missing")
    for source in (ROOT / "envs").glob("*.c"):
        if f"headrace/envs/_prebuilt/{source.stem}.base.so" not in names:
            found.append(f"environment {source.stem} is not prebuilt")
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
