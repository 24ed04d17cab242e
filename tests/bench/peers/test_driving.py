"""Drivers in processes of their own: asked, answered, and what happens when they fail."""

from __future__ import annotations

import os
import shutil
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from headrace.bench.peers import driving
from headrace.bench.peers.driving import Driver, PeerError
from headrace.bench.peers.table import Peer

DRIVER = """
import os, sys
from ...batches import gymnasium_numpy
from .protocol import STEP, Case, Running, serve

print("a library that prints")
done = []

def boom():
    raise RuntimeError("out of luck")

case = Case("one", STEP, "Peer", "its setting", 1, lambda: Running(8.0, done.append))
scored = Running(1.0, lambda n: None, lambda: (float(sum(done)), len(done)))
cases = [case, Case("two", STEP, "Peer", "", 1, lambda: scored),
         Case("bad", STEP, "P", "", 1, boom),
         Case("dies", STEP, "P", "", 1, lambda: os._exit(3))]
if len(sys.argv) != 3:
    sys.exit("no cores were named")
serve(("numpy",), gymnasium_numpy(4), cases)
"""


@pytest.fixture
def peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Peer:
    """A driver beside a copy of what drivers may import, in a folder without headrace."""
    bench = tmp_path / "bench"
    drivers = bench / "peers" / "drivers"
    drivers.mkdir(parents=True)
    real = driving.BENCH
    for name in ("__init__.py", "batches.py", "peers/__init__.py", "peers/drivers/__init__.py",
                 "peers/drivers/protocol.py"):  # fmt: skip
        shutil.copy(real / name, bench / name)
    (drivers / "fake.py").write_text(DRIVER)
    monkeypatch.setattr(driving, "BENCH", bench)
    return Peer("Fake", "fake", ())


def test_questions_and_answers(peer: Peer, tmp_path: Path) -> None:
    with closing(Driver(peer, Path(sys.executable))) as driver:
        described = driver.ask(do="describe")
        assert [case["case"] for case in described["cases"]] == ["one", "two", "bad", "dies"]
        assert described["cases"][0]["setting"] == "its setting"
        assert described["next_step"] is True
        assert "numpy" in described["versions"]
        assert driver.ask(do="open", case="one") == {"work": 8.0}
        driver.ask(do="run", case="one", count=3)
        driver.ask(do="run", case="one", count=4)
        driver.ask(do="open", case="two")
        assert driver.ask(do="score", case="two") == {"return": 7.0, "steps": 2}
        driver.ask(do="close", case="one")
        with pytest.raises(PeerError, match="KeyError"):
            driver.ask(do="run", case="one", count=1)
        driver.ask(do="record", path=str(tmp_path / "it.npz"))
        assert (tmp_path / "it.npz").is_file()


def test_what_goes_wrong_is_told_and_the_driver_lives(peer: Peer) -> None:
    with closing(Driver(peer, Path(sys.executable))) as driver:
        with pytest.raises(PeerError, match="RuntimeError: out of luck"):
            driver.ask(do="open", case="bad")
        with pytest.raises(PeerError, match="nothing is called 'dance'"):
            driver.ask(do="dance", case="one")
        assert driver.ask(do="open", case="one") == {"work": 8.0}


def test_a_driver_that_dies(peer: Peer) -> None:
    with closing(Driver(peer, Path(sys.executable))) as driver:
        with pytest.raises(PeerError, match="a library that prints"):
            driver.ask(do="open", case="dies")
        with pytest.raises(PeerError):
            driver.ask(do="describe")


def test_a_driver_that_does_not_start(peer: Peer, tmp_path: Path) -> None:
    (tmp_path / "bench" / "peers" / "drivers" / "fake.py").write_text("import nothing_of_the_kind")
    with (
        closing(Driver(peer, Path(sys.executable))) as driver,
        pytest.raises(PeerError, match="No module named 'nothing_of_the_kind'"),
    ):
        driver.ask(do="describe")


def test_silence_is_an_error(peer: Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bench" / "peers" / "drivers" / "fake.py"
    path.write_text("import sys\nfor line in sys.stdin: pass")
    monkeypatch.setattr(driving, "LIMIT", 0.05)
    with (
        closing(Driver(peer, Path(sys.executable))) as driver,
        pytest.raises(PeerError, match="no answer"),
    ):
        driver.ask(do="describe")


def test_nobody_is_left_behind(peer: Peer, tmp_path: Path) -> None:
    """Workers of a library's own that outlive the driver, as PufferLib's may, end with it."""
    fork = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(tmp_path / 'child')!r}, 'w').write(str(child.pid))\n"
    )
    (tmp_path / "bench" / "peers" / "drivers" / "fake.py").write_text(fork + DRIVER)
    with closing(Driver(peer, Path(sys.executable))) as driver:
        driver.ask(do="describe")
        child = int((tmp_path / "child").read_text())
        os.kill(child, 0)  # it is there
    for _ in range(500):
        if _gone(child):
            break
        time.sleep(0.01)
    assert _gone(child)


def _gone(pid: int) -> bool:
    """Whether a process, no child of ours, has ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"
