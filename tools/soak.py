"""Long runs: processes, file handles and memory stay what they were.

    python tools/soak.py [--cycles 200] [--native 50e6] [--processes 2e6]

Creates and closes batches in worker processes, then steps a native batch and one in processes
for so many steps, and prints what the process holds before and after. Exit code 1: it grew.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import headrace

GROWTH_MB = 8.0  # that memory may grow by: arenas of the allocators


def held() -> tuple[int, int, float]:
    """Child processes, open file handles and resident memory in MB of this process."""
    gc.collect()
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    handles = len(os.listdir("/proc/self/fd"))
    return len(children), handles, resident("self")


def resident(pid: Any) -> float:
    """Resident memory of a process in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def cycles(count: int, method: str) -> bool:
    """Makes, resets and closes a batch again and again; whether nothing stayed behind."""
    for _ in range(2):
        _cycle(method)
    before = held()
    for _ in range(count):
        _cycle(method)
    return _told(f"{count} create-close cycles, {method}", before, held())


def _cycle(method: str) -> None:
    with closing(
        headrace.make_vec("gymnasium:CartPole-v1", 4, workers=2, start_method=method)
    ) as vec:
        vec.reset(seed=0)


def steps(name: str, vec: Any, count: int) -> bool:
    """Random steps; whether memory stayed flat, here and in the workers."""
    with closing(vec):
        vec.reset(seed=0)
        actions = [vec.action_space.sample() for _ in range(64)]
        pids = vec.pids() if hasattr(vec, "pids") else []
        warm = max(200, count // vec.num_envs // 20)
        for step in range(warm):
            vec.step(actions[step % 64])
        before, workers = held(), sum(map(resident, pids))
        for step in range(count // vec.num_envs):
            vec.step(actions[step % 64])
        flat = _told(f"{count:,} steps, {name}", before, held())
        grown = sum(map(resident, pids)) - workers
        if pids:
            print(f"  workers' memory grew by {grown:.2f} MB")
        return flat and grown < GROWTH_MB


def _told(what: str, before: tuple[int, int, float], after: tuple[int, int, float]) -> bool:
    print(
        f"{what}: processes {before[0]} -> {after[0]}, handles {before[1]} -> {after[1]}, memory "
        f"{before[2]:.1f} -> {after[2]:.1f} MB",
        flush=True,
    )
    return before[:2] == after[:2] and after[2] - before[2] < GROWTH_MB


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cycles", type=int, default=200)
    parser.add_argument("--native", type=float, default=50e6)
    parser.add_argument("--processes", type=float, default=2e6)
    asked = parser.parse_args()
    flat = [cycles(asked.cycles, method) for method in ("spawn", "fork")]
    flat.append(steps("native", headrace.make_vec("cartpole", 256), int(asked.native)))
    vec = headrace.make_vec("gymnasium:CartPole-v1", 64, workers=2)
    flat.append(steps("in processes", vec, int(asked.processes)))
    return 0 if all(flat) else 1


if __name__ == "__main__":
    sys.exit(main())
