"""Measures inference: environments and the policy that acts in them, by replicas and size.

A replica is an actor with its share of the environments: a thread for native environments, a
worker process for Python ones, in which case the policy acts in this process.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

from ...engine.cpus import available_cpus
from ...engine.processes.vector import ProcessVecEnv
from ...trainers.config import TrainConfig
from ...trainers.environments import environments, is_python
from ...trainers.parts import make_parts
from ...trainers.seeds import TRAINING
from ..rounds import repeated
from ..timing import Case, iterations_for, no_collecting, rate
from .choice import Measured
from .waiting import Waiting

NATIVE_ENVS, PYTHON_ENVS = (64, 256, 1024), (4, 16, 64)  # per replica
HORIZON = 32  # steps of each row in one iteration; in Python as many as make PYTHON_STEPS
PYTHON_STEPS = 128  # of each replica
MOST = 16  # replicas that are tried unasked
WORTH = 0.10  # gain of a doubling after which another is tried
AGAIN = 2  # how often as many rounds again are measured where it is not clear what to recommend
SOURCES = {"waiting": Waiting}
Announce = Callable[[int, int], object]


@dataclass
class Setting:
    """One number of replicas with one number of environments each, set up."""

    replicas: int
    envs: int
    case: Case
    gpus: float = 0.0
    threads: int | None = None  # of torch
    used: list[tuple[float | None, float]] = field(default_factory=list)  # (CPU, wall) seconds

    def busy(self) -> float:
        """Cores kept busy in the last run; replicas where nobody knows."""
        cpu, wall = self.used[-1]
        return float(self.replicas) if cpu is None else max(cpu / wall, 1e-6)

    def once(self, count: int, _: int) -> tuple[float, float]:
        """(steps per second, cores kept busy)"""
        return rate(self.case, count), self.busy()


def scale(
    config: TrainConfig,
    *,
    replicas: Sequence[int] | None,
    envs: Sequence[int] | None,
    threads: Sequence[int] | None = None,
    rounds: int,
    seconds: float,
    announce: Announce,
    unclear: Callable[[Sequence[Measured]], Sequence[Measured]] = lambda _: (),
) -> list[Measured]:
    """Every number of replicas with every number of environments each, in interleaved rounds.

    replicas: None: 1, 2, 4, ... to twice the cores, which is enough for threads; worker processes
        may wait: on until a doubling gains less than 10 %, or MOST are reached.
    envs: environments per replica; None: some usual ones.
    threads: of torch, where its policy acts; None: one.
    unclear: those of which more is to be known; they are measured in turn for as many rounds
        again, at most AGAIN times.
    """
    python = in_python(config)
    envs = tuple(envs or (PYTHON_ENVS if python else NATIVE_ENVS))
    with ExitStack() as stack:
        settings = _set_up(stack, config, replicas, envs, threads, seconds)
        found = _rounds(settings, rounds, seconds, announce)
        for _ in range(AGAIN):
            which = [found.index(each) for each in unclear(found)]
            if not which:
                break
            again = _rounds([settings[at] for at in which], rounds, seconds, announce)
            for at, more in zip(which, again, strict=True):
                found[at] = found[at].longer(more)
        return found


def _rounds(
    settings: Sequence[Setting], rounds: int, seconds: float, announce: Announce
) -> list[Measured]:
    """Measures these in turn."""
    total = rounds * len(settings)
    jobs = [partial(each.once, iterations_for(each.case, seconds)) for each in settings]
    with no_collecting():
        found = repeated(jobs, rounds, lambda done: announce(done, total))
    return [
        Measured(
            setting.replicas,
            setting.envs,
            each.spread(itemgetter(0)),
            each.spread(itemgetter(1)),
            setting.gpus,
            setting.threads,
        )
        for setting, each in zip(settings, found, strict=True)
    ]


def gpus_of(config: TrainConfig) -> float:
    """GPUs that acting holds: one where a torch policy acts on it."""
    device = config.actor_device or config.device
    return float(config.policy != "native" and not device.startswith("cpu"))


def in_python(config: TrainConfig) -> bool:
    """Whether the environment runs in worker processes."""
    return config.env in SOURCES or is_python(config.env)


def _set_up(
    stack: ExitStack, config: TrainConfig, replicas: Sequence[int] | None, envs: Sequence[int],
    threads: Sequence[int] | None, seconds: float,
) -> list[Setting]:  # fmt: skip
    """The settings, opened; each new number of replicas is tried before the next is."""
    sizes = [(size, count) for size in envs for count in threads or (None,)]
    if replicas is not None:
        return [_open(stack, config, n, *size) for n in sorted(set(replicas)) for size in sizes]
    cores = available_cpus()
    settings: list[Setting] = []
    before, count = 0.0, 1
    while count <= max(MOST, 2 * cores):
        opened = [_open(stack, config, count, *size) for size in sizes]
        settings += opened
        speed = max(_trial(each.case, seconds) for each in opened)
        if count >= 2 * cores and (not in_python(config) or speed < (1 + WORTH) * before):
            break
        before, count = speed, 2 * count
    return settings


def _trial(case: Case, seconds: float) -> float:
    """Units per second, once."""
    count = iterations_for(case, seconds / 2)
    started = time.perf_counter()
    case.run(count)
    return count * case.work / (time.perf_counter() - started)


def _open(
    stack: ExitStack, config: TrainConfig, replicas: int, envs: int, threads: int | None
) -> Setting:
    """Environments, policy and collector of one setting; threads: of torch, None: one."""
    python = in_python(config)
    torch = config.policy != "native"
    rows = replicas * envs
    config = config.replace(
        num_envs=rows,
        threads=threads or 1 if python or torch else replicas,
        horizon=max(1, PYTHON_STEPS // envs) if python else HORIZON,
        minibatches=1,
        batch_size=max(1, envs // 2) if python else None,  # so that workers step meanwhile
    )
    source = SOURCES.get(config.env)
    vec = environments(config, rows, replicas, config.seed, TRAINING, source=source)
    stack.callback(vec.close)
    _, collector, learner, pool = make_parts(config, vec)
    if pool is not None:
        stack.callback(pool.close)
    pids = vec.pids() if isinstance(vec, ProcessVecEnv) else []
    setting = Setting(replicas, envs, Case("", bool), gpus_of(config), threads)

    def run(count: int) -> None:
        if torch:
            _torch_threads(threads or 1)
        cpu, started = cpu_seconds(pids), time.perf_counter()
        for _ in range(count):
            collector.collect(learner.weights)
        passed = time.perf_counter() - started
        after = cpu_seconds(pids)
        setting.used.append((None if cpu is None or after is None else after - cpu, passed))

    name = f"{replicas}/{envs}/{threads}"
    setting.case = Case(name, run, float(rows * config.horizon))
    return setting


def _torch_threads(count: int) -> None:
    """Those of this process, of which there is one number for all settings that are open."""
    import torch

    torch.set_num_threads(count)


def cpu_seconds(pids: Sequence[int], proc: Path = Path("/proc")) -> float | None:
    """CPU time of this process with all its threads, and of others; None where the system does
    not tell that of others."""
    total = time.process_time()
    for pid in pids:
        try:
            fields = (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def describe(config: TrainConfig) -> dict[str, Any]:
    """What was measured, for the document."""
    widths = "×".join(map(str, config.hidden))
    return {
        "env": config.env,
        "policy": widths if config.policy == "native" else f"{config.policy} {widths}",
        "device": config.actor_device or config.device,
        "gpus": gpus_of(config),
        "replica": "worker process" if in_python(config) else "thread",
        "cores": available_cpus(),
    }
