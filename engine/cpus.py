"""How many CPUs this process may really use."""

from __future__ import annotations

import math
import os
from pathlib import Path

from .cgroup import cpu_quota


def available_cpus(root: Path = Path("/")) -> int:
    """CPUs that this process may use, at least 1: those of its affinity, and no more than its
    control group's quota, rounded up.

    root: where "proc" and "sys" lie.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    count = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    quota = cpu_quota(root)
    if quota is not None:
        count = min(count, math.ceil(quota))
    return max(count, 1)
