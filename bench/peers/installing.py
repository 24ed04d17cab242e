"""A virtual environment for each peer, made once and kept in the user's cache folder."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from ...engine.compile import cache_dir
from ...engine.errors import HeadraceError
from .table import Peer

LIMIT = 1800.0  # seconds for one call of pip
REASON = "failed.txt"
Tell = Callable[[str], object]


def tell(sentence: str) -> None:
    """Says on stderr what takes long."""
    print(f"headrace: {sentence}", file=sys.stderr)


class NotInstallable(HeadraceError):
    """A peer that pip cannot install here; the message says why."""


def folder_of(peer: Peer) -> Path:
    """Where the peer's environment lies: another for other requirements or another Python."""
    python = os.path.realpath(sys.executable)
    key = "\n".join([*peer.requirements, python, platform.python_version()])
    return cache_dir() / "peers" / f"{peer.driver}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def python_of(peer: Peer, *, again: bool = False, tell: Tell = bool) -> Path:
    """The Python of the peer's environment, which is made when it is not there.

    again: make it anew; else one that could not be made is not tried a second time.
    tell: called with a sentence before something slow begins.

    Raises:
        NotInstallable: pip failed, now or the last time.
    """
    folder = folder_of(peer)
    python = folder / "bin" / "python"
    if again:
        shutil.rmtree(folder, ignore_errors=True)
    if (folder / REASON).is_file():
        raise NotInstallable((folder / REASON).read_text())
    if not python.exists():
        tell(f"installing {peer.label} into {folder} (once; it may take minutes)")
        _make(peer, folder)
    return python


def _make(peer: Peer, folder: Path) -> None:
    """Makes the environment beside its place, then moves it there: it is whole or not there."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, ignore_cleanup_errors=True) as scratch:
        made = Path(scratch) / "venv"
        problem = _run([sys.executable, "-m", "venv", str(made)])
        python = str(made / "bin" / "python")
        if problem is None:
            problem = _run([python, "-m", "pip", "install", *peer.requirements])
        if problem is not None:
            shutil.rmtree(made, ignore_errors=True)
            made.mkdir()
            (made / REASON).write_text(problem)
        try:
            made.rename(folder)
        except OSError:  # another process was faster
            if not folder.is_dir():
                raise
    if problem is not None:
        raise NotInstallable(problem)


def _run(command: list[str]) -> str | None:
    """Runs a step of the installation; why it failed, in one line."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            env=outside(os.environ),
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"pip took more than {LIMIT:.0f} s"
    except OSError as error:
        return f"{command[0]} cannot be run: {error.strerror}"
    return None if done.returncode == 0 else reason_in(done.stdout + done.stderr)


def outside(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment variables without those that lead to this Python's own packages."""
    return {k: v for k, v in environment.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}


def reason_in(output: str) -> str:
    """The line of pip's output that says most: the innermost error, else the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    inner = [line for line in lines if "Error: " in line and not line.startswith("raise ")]
    outer = [line for line in lines if line.lower().startswith("error: ")]
    said = (inner or outer or lines or ["pip failed and said nothing"])[-1]
    return f"pip install failed: {said.removeprefix('ERROR: ')}"
