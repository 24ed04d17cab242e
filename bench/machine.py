"""What a figure was measured on."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..engine.compile import find_compiler
from ..engine.cpus import available_cpus

LIBRARIES = (
    "headrace", "numpy", "gymnasium", "torch", "numba", "cython", "stable-baselines3", "envpool",
    "pufferlib", "pufferlib-core",
)  # fmt: skip
NVIDIA = Path("/proc/driver/nvidia/gpus")


def describe(arguments: list[str]) -> dict[str, Any]:
    """CPU, usable cores, memory, GPUs, system, compiler, library versions, load, the command."""
    return {
        "cpu": cpu_model(),
        "cores": available_cpus(),
        "memory_gb": memory_gb(),
        "gpu": gpu(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "compiler": compiler(),
        "versions": library_versions(),
        "load": load(),
        "other_work": None,  # cores that it kept busy: known when everything has been measured
        "disturbed": False,  # by it
        "cores_given": None,  # least and median of what the CPUs gave, likewise
        "round_trip_ns": None,  # a cache line between them: least, median of what stands, most
        "retaken": 0,  # repeats that were taken again, since they gave less or lay apart
        "short": 0,  # repeats that stand although they did
        "command": shlex.join(["headrace", "bench", *arguments]),
    }


def cpu_model() -> str:
    """The processor's name as the system gives it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        fields: dict[str, str] = {}
        for line in cpuinfo.read_text().splitlines():
            key, _, value = line.partition(":")
            fields.setdefault(key.strip(), value.strip())
        name = fields.get("model name", platform.machine())
        if "cpu family" in fields:  # some hosts hide the marketing name, never these
            name += f" (family {fields['cpu family']}, model {fields.get('model', '?')})"
        return name
    if sys.platform == "darwin":
        return _output(["sysctl", "-n", "machdep.cpu.brand_string"]) or platform.machine()
    return platform.processor() or platform.machine()


def memory_gb() -> float | None:
    """Physical memory in GB (10^9 bytes), None where the system does not say."""
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1)
    except (ValueError, OSError):
        return None


def gpu() -> str:
    """The names of the GPUs that the driver shows, "none" where it shows none.

    Asked without torch, which takes seconds to import; a GPU that a benchmark may not use
    (CUDA_VISIBLE_DEVICES) is named too.
    """
    told = ""
    if shutil.which("nvidia-smi"):
        told = _output(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"])
    elif NVIDIA.is_dir():
        files = sorted(NVIDIA.glob("*/information"))
        lines = [line for file in files for line in file.read_text().splitlines()]
        told = "\n".join(line[6:] for line in lines if line.startswith("Model:"))
    return ", ".join(name.strip() for name in told.splitlines() if name.strip()) or "none"


def compiler() -> str | None:
    """First line of the C compiler's version, None when there is none."""
    command = find_compiler()
    if command is None:
        return None
    return _output([*command, "--version"]).partition("\n")[0] or command[0]


def library_versions() -> dict[str, str]:
    """Versions of the installed libraries that are measured."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def load() -> float | None:
    """Load average of the last minute: other work on the machine makes figures worse."""
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return None


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
