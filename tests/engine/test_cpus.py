"""Counting CPUs and memory, with control-group files laid out by hand."""

from __future__ import annotations

import os

import pytest

from headrace.engine.cgroup import cpu_quota, memory_left
from headrace.engine.cpus import available_cpus
from headrace.engine.errors import ArgumentError
from headrace.engine.memory import available_memory, check_memory, show_bytes

MB = 2**20


def lay_out(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"}, 1.5),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "50000 100000"}, 0.5),
        (  # the smallest of the groups above counts
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/b/cpu.max": "max 100000",
                "sys/fs/cgroup/a/cpu.max": "300000 100000",
            },
            3.0,
        ),
        (  # in a container, the path may be the host's: the mount is the group
            {"proc/self/cgroup": "0::/docker/123\n", "sys/fs/cgroup/cpu.max": "200000 100000"},
            2.0,
        ),
        ({"proc/self/cgroup": "0::/../x\n", "sys/fs/cgroup/cpu.max": "200000 100000"}, 2.0),
        (
            {
                "proc/self/cgroup": "3:cpu,cpuacct:/job\n2:memory:/\n",
                "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "250000\n",
                "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
            },
            2.5,
        ),
        (
            {
                "proc/self/cgroup": "3:cpu,cpuacct:/job\n",
                "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000\n",
            },
            None,
        ),
        ({"proc/self/cgroup": "garbage\n\n", "sys/fs/cgroup/cpu.max": "bad"}, None),
    ],
)
def test_cpu_quota(tmp_path, files, quota):
    lay_out(tmp_path, files)
    assert cpu_quota(tmp_path) == quota


@pytest.mark.parametrize(
    ("affinity", "limit", "expected"),
    [(8, None, 8), (8, "150000 100000", 2), (8, "10000 100000", 1), (2, "800000 100000", 2)],
)
def test_available_cpus(tmp_path, monkeypatch, affinity, limit, expected):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(affinity)), raising=False)
    if limit is not None:
        lay_out(tmp_path, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": limit})
    assert available_cpus(tmp_path) == expected


def test_without_affinity_all_cpus_count(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert available_cpus(tmp_path) == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert available_cpus(tmp_path) == 1


@pytest.mark.parametrize(
    ("files", "left"),
    [
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max"}, None),
        (
            {
                "proc/self/cgroup": "0::/\n",
                "sys/fs/cgroup/memory.max": str(100 * MB),
                "sys/fs/cgroup/memory.current": str(70 * MB),
                "sys/fs/cgroup/memory.stat": f"anon 5\ninactive_file {20 * MB}\n",
            },
            50 * MB,
        ),
        (
            {
                "proc/self/cgroup": "4:memory:/\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": str(100 * MB),
                "sys/fs/cgroup/memory/memory.usage_in_bytes": str(130 * MB),
            },
            0,
        ),
        (
            {
                "proc/self/cgroup": "4:memory:/\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
                "sys/fs/cgroup/memory/memory.usage_in_bytes": "5",
            },
            None,
        ),
    ],
)
def test_memory_left(tmp_path, files, left):
    lay_out(tmp_path, files)
    assert memory_left(tmp_path) == left


def test_available_memory_is_the_smaller_of_machine_and_group(tmp_path):
    lay_out(tmp_path, {"proc/meminfo": "MemTotal: 9 kB\nMemAvailable:   2048 kB\n"})
    assert available_memory(tmp_path) == 2 * MB
    lay_out(
        tmp_path,
        {
            "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/memory.max": str(MB),
            "sys/fs/cgroup/memory.current": "0",
        },
    )
    assert available_memory(tmp_path) == MB


def test_memory_is_checked_in_one_sentence():
    check_memory(10, "this", 10)
    check_memory(10, "this", None)
    with pytest.raises(ArgumentError, match=r"^this would need 3\.5 GB .* 1\.0 kB are available"):
        check_memory(3_500_000_000, "this", 1000)


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (2.5e15, "2.5 PB")]
)
def test_show_bytes(size, text):
    assert show_bytes(int(size)) == text
