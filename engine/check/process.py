"""Runs a worker in a process of its own, and makes a finding of how it died, if it did."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from ..compile import cache_dir, find_compiler
from ..errors import HeadraceError
from .experiments import OUTSIDE
from .report import FAIL, Finding
from .worker import PROGRESS, SANITIZED, Job

_START_SECONDS = 600.0  # until the first call: compiling with Numba may take a while
_POLL_SECONDS = 0.02


class WorkerError(HeadraceError, RuntimeError):
    """A worker failed by headrace's own fault, or the machine's."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a worker left: its findings, and how it died (None: it did not)."""

    findings: tuple[Finding, ...]
    death: Finding | None


@functools.cache
def sanitizer_runtime() -> tuple[str, str]:
    """(path of AddressSanitizer's library for a process to start with, why there is none)."""
    if not sys.platform.startswith("linux"):
        return "", f"not used on {sys.platform}"
    try:
        compiler = find_compiler()
    except HeadraceError as fault:
        return "", str(fault)
    if compiler is None:
        return "", "there is no C compiler"
    machine = os.uname().machine
    for name in ("libasan.so", f"libclang_rt.asan-{machine}.so", "libclang_rt.asan.so"):
        command = [*compiler, f"-print-file-name={name}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        path = Path(done.stdout.strip())
        if done.returncode == 0 and path.is_absolute() and path.exists():
            return str(path.resolve()), ""
    return "", f"{Path(compiler[0]).name} comes without AddressSanitizer's library"


def run(job: Job, patience: float, stop: threading.Event) -> Outcome:
    """Does a job in another process.

    patience: seconds that one call of the environment may take. stop: ends the process when set.
    """
    progress = Path(job.progress)
    progress.write_bytes(bytes(PROGRESS.size))
    description = progress.with_suffix(".json")
    description.write_text(json.dumps(dataclasses.asdict(job)))
    environment = {
        **os.environ,
        "HEADRACE_CACHE_DIR": str(cache_dir()),  # this process's own, where the user's fails
        # the packages that this process sees, wherever it got them from
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "PYTHONFAULTHANDLER": "",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=1:handle_segv=1",
    }
    if job.kind == SANITIZED:
        environment["LD_PRELOAD"] = sanitizer_runtime()[0]
    command = [
        sys.executable,
        "-c",
        f"from {__package__}.worker import main; main({str(description)!r})",
    ]
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
        try:
            hung = _wait(child, progress, patience, stop)
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
        output.seek(0)
        said = output.read().decode(errors="replace")
    if not hung and child.returncode == 0:
        return Outcome(_findings(Path(job.result)), None)
    return Outcome((), _death(job, child.returncode, said, patience if hung else None))


def _wait(
    child: subprocess.Popen[bytes], progress: Path, patience: float, stop: threading.Event
) -> bool:
    """Waits for a worker, or until it is to stop; True when it hangs in a call."""
    calls, since = 0, time.monotonic()
    while child.poll() is None and not stop.is_set():
        time.sleep(_POLL_SECONDS)
        now, world, _ = PROGRESS.unpack(progress.read_bytes())
        if now != calls or world == OUTSIDE:
            calls, since = now, time.monotonic()
        if time.monotonic() - since > (patience if calls else _START_SECONDS):
            return True
    return False


def _findings(result: Path) -> tuple[Finding, ...]:
    return tuple(Finding(**each) for each in json.loads(result.read_text())["findings"])


def _death(job: Job, code: int, said: str, hung_for: float | None) -> Finding:
    """How a worker died, as a finding; WorkerError when it was not the environment's doing."""
    calls, world, step = PROGRESS.unpack(Path(job.progress).read_bytes())
    where: dict[str, int | None] = {
        "world": world if world >= 0 else None,
        "step": step,
        "seed": job.seed + world if world >= 0 else None,
    }
    if calls == 0 and hung_for is None and not _sanitizer_spoke(said):
        raise WorkerError(f"the process that checks {job.env} failed:\n{said.strip()[-3000:]}")
    if hung_for is not None:
        message = f"a call had not returned after {hung_for:g} seconds"
        return Finding("runs", FAIL, message, **where)  # type: ignore[arg-type]
    found = _undefined(said, job.file) or _address(said, job.file)
    if found is not None:
        return dataclasses.replace(found, **where)  # type: ignore[arg-type]
    if code < 0:
        name = signal.Signals(-code).name
        return Finding("runs", FAIL, f"it crashed with {name}", **where)  # type: ignore[arg-type]
    raise WorkerError(f"the process that checks {job.env} failed:\n{said.strip()[-3000:]}")


def _sanitizer_spoke(said: str) -> bool:
    return "ERROR: AddressSanitizer" in said or "runtime error: " in said


def _undefined(said: str, file: str) -> Finding | None:
    """UBSan's report."""
    found = re.search(r"^(.*?):(\d+)(?::\d+)?: runtime error: (.*)$", said, re.M)
    if found is None:
        return None
    place, line = _author_frame(said, file) or (found[1], int(found[2]))
    return Finding("memory", FAIL, f"undefined behaviour: {found[3]}", file=place, line=line)


_SAID = {
    "heap-buffer-overflow": "outside of its slot",
    "stack-buffer-overflow": "outside of a variable",
    "global-buffer-overflow": "outside of a constant or static array",
    "stack-use-after-return": "in a variable of a function that has returned",
    "stack-use-after-scope": "in a variable that is gone",
    "heap-use-after-free": "in memory that was freed",
}


def _address(said: str, file: str) -> Finding | None:
    """AddressSanitizer's report."""
    found = re.search(r"ERROR: AddressSanitizer: ([\w-]+)", said)
    if found is None:
        return None
    access = re.search(r"^(READ|WRITE) of size (\d+)", said, re.M)
    kind = found[1]
    if access is not None and kind in _SAID:
        verb = "reads" if access[1] == "READ" else "writes"
        message = f"{verb} {access[2]} bytes {_SAID[kind]} ({kind})"
    else:
        message = f"AddressSanitizer: {kind}"
    function = re.search(rf"#\d+ 0x\w+ in (\w+) {re.escape(file)}:\d+", said)
    if function is not None and not function[1].startswith("hr__"):
        message += f" in {_author_name(function[1])}"
    place = _author_frame(said, file)
    return Finding(
        "memory", FAIL, message, file=place[0] if place else None, line=place[1] if place else None
    )


def _author_name(function: str) -> str:
    """What the author calls a C function that Cython may have written."""
    made = re.match(r"__pyx_f_(\d+)(\w+)$", function)
    return made[2][int(made[1]) + 1 :] if made else function


def _author_frame(said: str, file: str) -> tuple[str, int] | None:
    """(file, line) of the innermost call that lies in the author's file."""
    frame = re.search(rf"#\d+ 0x\w+ in \S+ ({re.escape(file)}):(\d+)", said)
    return (frame[1], int(frame[2])) if frame else None
