"""Virtual environments of peers: where they lie, and why one cannot be had."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from headrace.bench.peers import installing
from headrace.bench.peers.installing import NotInstallable, folder_of, python_of, reason_in
from headrace.bench.peers.table import PEERS, Peer

PEER = Peer("A peer", "envpool", ("a==1", "b==2"))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that were run; pip's fails where it is told to install "bad"."""
    run: list[list[str]] = []

    def fake(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        run.append(command)
        if command[1:3] == ["-m", "venv"]:
            (Path(command[3]) / "bin").mkdir(parents=True)
            (Path(command[3]) / "bin" / "python").touch()
        bad = "bad" in command
        return subprocess.CompletedProcess(command, int(bad), "", "ERROR: no bad here\n" * bad)

    monkeypatch.setattr(installing.subprocess, "run", fake)
    return run


def test_made_once(commands: list[list[str]], cache: Path) -> None:
    told: list[str] = []
    python = python_of(PEER, tell=told.append)
    assert python == folder_of(PEER) / "bin" / "python"
    assert python.is_file()
    assert cache in python.parents
    assert commands[1][1:] == ["-m", "pip", "install", "a==1", "b==2"]
    assert "A peer" in told[0]
    assert python_of(PEER, tell=told.append) == python
    assert (len(commands), len(told)) == (2, 1)
    python_of(PEER, again=True)
    assert len(commands) == 4
    assert [path.name for path in (cache / "peers").iterdir()] == [folder_of(PEER).name]


def test_other_requirements_are_another_environment() -> None:
    assert folder_of(PEER) != folder_of(Peer("A peer", "envpool", ("a==1", "b==3")))


def test_a_failure_is_told_and_kept(commands: list[list[str]]) -> None:
    bad = Peer("Bad", "envpool", ("bad",))
    for _ in range(2):
        with pytest.raises(NotInstallable, match="pip install failed: no bad here"):
            python_of(bad)
    assert len(commands) == 2  # not tried a second time
    with pytest.raises(NotInstallable):
        python_of(bad, again=True)
    assert len(commands) == 4


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("ERROR: first\nERROR: No matching distribution\n", "No matching distribution"),
        (
            "error: subprocess-exited-with-error\n  urllib.error.URLError: <name unknown>\n"
            "  [end of output]\nerror: metadata-generation-failed\n\nhint: See above\n",
            "urllib.error.URLError: <name unknown>",
        ),
        ("something odd\n", "something odd"),
        ("", "pip failed and said nothing"),
    ],
)
def test_the_reason(output: str, reason: str) -> None:
    assert reason_in(output) == f"pip install failed: {reason}"


def test_every_peer_is_pinned_and_has_its_driver() -> None:
    drivers = Path(installing.__file__).parent / "drivers"
    for peer in PEERS.values():
        assert "==" in peer.requirements[0]
        assert (drivers / f"{peer.driver}.py").is_file()
