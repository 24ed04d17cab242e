"""What Linux control groups (versions 1 and 2) grant this process: CPU quota and memory.

`root` stands for "/" everywhere, so that tests can lay out files of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def cpu_quota(root: Path = Path("/")) -> float | None:
    """CPUs that the quota amounts to; None when there is none."""
    quotas = []
    for version, folder in _folders(root, "cpu"):
        if version == 2:
            quota, period = [*_words(folder / "cpu.max"), "", ""][:2]
        else:
            quota = "".join(_words(folder / "cpu.cfs_quota_us"))
            period = "".join(_words(folder / "cpu.cfs_period_us"))
        if quota.isdecimal() and period.isdecimal() and int(quota) > 0 and int(period) > 0:
            quotas.append(int(quota) / int(period))
    return min(quotas, default=None)


def memory_left(root: Path = Path("/")) -> int | None:
    """Bytes left under the memory limit; None when there is no limit."""
    left = []
    for version, folder in _folders(root, "memory"):
        names = ("memory.max", "memory.current")
        if version == 1:
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
        limit, used = ("".join(_words(folder / name)) for name in names)
        if limit.isdecimal() and used.isdecimal() and int(limit) < 2**60:  # v1: 2**63 is "none"
            left.append(max(0, int(limit) - int(used) + _cache(folder / "memory.stat")))
    return min(left, default=None)


def _cache(stat: Path) -> int:
    """Bytes of file cache that the kernel drops when memory is needed."""
    words = _words(stat)
    for name in ("total_inactive_file", "inactive_file"):
        if name in words[::2]:
            return int(words[2 * words[::2].index(name) + 1])
    return 0


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def _folders(root: Path, controller: str) -> Iterator[tuple[int, Path]]:
    """(version, folder) of this process's group and of each group above it.

    Inside a container the path in /proc/self/cgroup may be the host's: where it does not
    exist, the mount itself is this process's group.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if not controllers:
            version, mount = 2, root / "sys/fs/cgroup"
        elif controller in controllers.split(","):
            version, mount = 1, root / "sys/fs/cgroup" / controllers
            if not mount.is_dir():
                mount = root / "sys/fs/cgroup" / controller
        else:
            continue
        folder = mount / path.lstrip("/")
        if ".." in folder.parts or not folder.is_dir():
            folder = mount
        yield version, folder
        while folder != mount:
            folder = folder.parent
            yield version, folder
