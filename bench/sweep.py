"""The part of `headrace bench env` that goes through every shipped environment.

Three ways of stepping, by number of rows and threads: the kernel alone (the engine's step with
time limit, resets and statistics, and the checking and copying in of actions, without Python's
VecEnv), `VecEnv.step`, and `send`/`recv` of half the rows at a time. All with same-step autoreset,
as the trainer has it, so that every row of every step is a transition.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..engine import _core
from ..engine.actions import ActionReader
from ..engine.cpus import available_cpus
from ..engine.make import make_vec
from ..engine.memory import available_memory
from ..engine.resolve import resolve
from ..engine.spec import EnvSpec
from ..engine.vector import VecEnv
from . import bandwidth
from .results import Result
from .spread import Spread
from .timing import Case, measure_anew
from .trajectory import WORLDS, actions_at, check_trajectory

KERNEL, STEP, SEND_RECV = "headrace kernel", "headrace VecEnv.step", "headrace send/recv"
WAYS = {"kernel": KERNEL, "step": STEP, "sendrecv": SEND_RECV}
SIZES = (1, 64, 4096, 65536, 1 << 20)  # rows
THREADED = 4096  # rows from which on several threads are measured too,
SHARED = 1 << 20  # and from which on nothing else is
CACHED = 1 << 16  # rows up to which send/recv is measured
CHECKED = 4096  # rows at most with which a way of stepping is checked
ACTING_STEPS = 64  # in which those that act are counted
ACTION_BYTES = 1 << 24  # of ready-made actions at most
SHARE_OF_MEMORY = 0.4  # that a batch may take
Stepper = Callable[[NDArray[Any]], object]  # given Action structs [rows]


@dataclass(frozen=True)
class Sweep:
    """What is measured."""

    rounds: int
    seconds: float
    sizes: Sequence[int] = SIZES
    threads: Sequence[int] = ()
    announce: Callable[[int, int], object] = lambda *_: None

    def points(self) -> Iterator[tuple[int, int]]:
        """(rows, threads)"""
        for size in self.sizes:
            counts = self.threads or sorted({1, available_cpus()})
            for threads in counts if size >= THREADED else counts[:1]:
                if threads == counts[-1] or size < SHARED:
                    yield size, threads


def make(name: str, rows: int, threads: int, batch_size: int | None = None) -> VecEnv:
    """A shipped environment with same-step autoreset and views instead of copies."""
    made = make_vec(
        name,
        rows,
        executor="serial" if threads == 1 else "threads",
        threads=threads,
        autoreset_mode="SameStep",
        batch_size=batch_size,
        copy=False,
    )
    return cast(VecEnv, made)  # native: never processes


def rows_for(spec: EnvSpec, size: int) -> int:
    """`size` rows, or a few more or less, so that worlds are whole."""
    return max(1, size // spec.agents) * spec.agents


def bytes_per_step(spec: EnvSpec) -> float:
    """Bytes that a step of one row moves at most: state in and out, observation out, action in
    (with its copying: three times), reward and flags out, episode counters in and out."""
    obs, action = spec.obs_dtype.itemsize, spec.action_dtype.itemsize
    world = 2 * spec.state_size + 2 * 4 + 2  # with elapsed, pending and over
    return world / spec.agents + obs + 3 * action + 2 * 4 + 4 + 4 * 4 + spec.mask_size


# ---- the ways of stepping: one step of all rows, for the check; then a loop, for the clock --


def kernel_step(env: VecEnv) -> Callable[[Any], object]:
    """The engine's step of actions as the action space has them: what VecEnv.step calls, without
    the sums over episodes."""
    reader = ActionReader(env.spec_, env.buffers.action_slots)
    turns = _core.Turns(env.core, env.pool, reader.direct)

    def step(actions: Any) -> None:
        if turns.step(actions) == _core.REFUSED:  # no array that can be read directly
            reader.read(actions)
            turns.step()

    return step


def kernel(env: VecEnv) -> Stepper:
    step, spec = kernel_step(env), env.spec_
    return lambda actions: step(spec.view_actions(actions))


def stepped(env: VecEnv) -> Stepper:
    spec = env.spec_
    return lambda actions: env.step(spec.view_actions(actions))


def sent(env: VecEnv) -> Stepper:
    spec = env.spec_

    def step(actions: NDArray[Any]) -> None:
        env.send(spec.view_actions(actions), np.arange(env.num_envs))
        got = 0
        while got < env.num_envs:
            got += len(env.recv()[1])

    return step


STEPPERS: dict[str, Callable[[VecEnv], Stepper]] = {
    "kernel": kernel, "step": stepped, "sendrecv": sent,
}  # fmt: skip


def ready_actions(spec: EnvSpec, rows: int) -> list[NDArray[Any]]:
    """Different batches of actions that a run cycles through, at least 2."""
    count = min(64, max(2, ACTION_BYTES // (rows * spec.action_dtype.itemsize)))
    return [actions_at(spec, rows, step) for step in range(count)]


def loop(way: str, env: VecEnv, batches: Sequence[NDArray[Any]]) -> Callable[[int], None]:
    """Steps all rows n times; batches: of `ready_actions`."""
    views = [env.spec_.view_actions(batch) for batch in batches]
    if way == "kernel":
        return _cycled(kernel_step(env), views)
    if way == "step":
        return _cycled(env.step, views)
    half = [env.spec_.view_actions(batch[: env.batch_size]) for batch in batches]
    env.send(views[0])
    halves = env.num_envs // env.batch_size

    def run(count: int) -> None:
        for index in range(count * halves):
            env.recv()
            env.send(half[index % len(half)])

    return run


def _cycled(step: Callable[[Any], object], batches: Sequence[Any]) -> Callable[[int], None]:
    def run(count: int) -> None:
        for index in range(count):
            step(batches[index % len(batches)])

    return run


# ---- measuring ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Point:
    """An environment with so many rows and threads: what is timed in turn."""

    env: str
    size: int  # rows that were asked for
    threads: int

    @cached_property  # Numba's are read from their source every time
    def spec(self) -> EnvSpec:
        return resolve(self.env).spec

    @property
    def rows(self) -> int:
        return rows_for(self.spec, self.size)

    @property
    def ways(self) -> list[str]:
        return [way for way in WAYS if way != "sendrecv" or self.size <= CACHED]

    @property
    def nbytes(self) -> float:
        """Memory that it takes, about."""
        return self.rows * (bytes_per_step(self.spec) + 200) * (1 + ("sendrecv" in self.ways))

    @contextmanager
    def cases(self) -> Iterator[list[Case]]:
        """The ways of stepping, whose environments are made anew: one for those that step all
        rows at once, one for halves."""
        batches = ready_actions(self.spec, self.rows)
        work = acting(self.env) * self.rows
        made: dict[int | None, VecEnv] = {}
        with ExitStack() as stack:
            for way in self.ways:
                size = _batch_size(way, self.rows, self.spec)
                if size not in made:
                    env = make(self.env, self.rows, self.threads, size)
                    made[size] = stack.enter_context(closing(env))
                    env.reset(seed=1)
            yield [
                Case(way, loop(way, made[_batch_size(way, self.rows, self.spec)], batches), work)
                for way in self.ways
            ]

    def results(self, spreads: dict[str, Spread]) -> Iterator[Result]:
        note = "" if self.rows == self.size else f"{self.rows} rows: worlds are whole"
        for way, spread in spreads.items():
            yield Result.measured(
                f"{way}-{self.size}", WAYS[way], self.env, self.threads, spread, "steps/s", note
            )

    def missing(self, note: str) -> Result:
        return Result.missing(f"kernel-{self.size}", KERNEL, self.env, "steps/s", note)


def run(names: Sequence[str], sweep: Sweep) -> list[Result]:
    """The figures of these environments; CheckFailed where one does not do what is on record."""
    points, found = [], []
    checked: set[tuple[str, str, int, int]] = set()
    free = available_memory()
    for name in names:
        for size, threads in sweep.points():
            point = Point(name, size, threads)
            if any(param.is_array for param in point.spec.params):
                found.append(point.missing("needs an array parameter"))
            elif free is not None and point.nbytes > SHARE_OF_MEMORY * free:
                found.append(point.missing(f"would take {point.nbytes / 1e9:.1f} GB"))
            else:
                points.append(point)
                for way in point.ways:
                    rows = min(point.rows, rows_for(point.spec, _most_checked(point.spec)))
                    if (name, way, rows, threads) not in checked:
                        _check(name, way, rows, threads)
                        checked.add((name, way, rows, threads))
    spreads = measure_anew(
        [point.cases for point in points],
        rounds=sweep.rounds,
        seconds=sweep.seconds,
        announce=sweep.announce,
    )
    for point, spread in zip(points, spreads, strict=True):
        found += point.results(spread)
    return found


def _batch_size(way: str, rows: int, spec: EnvSpec) -> int | None:
    """send/recv goes by halves where there are several worlds."""
    worlds = rows // spec.agents
    return max(1, worlds // 2) * spec.agents if way == "sendrecv" else None


def _most_checked(spec: EnvSpec) -> int:
    """Rows with which a way of stepping is checked where it is timed with more."""
    return max(CHECKED, WORLDS * spec.agents)


def _check(name: str, way: str, rows: int, threads: int) -> None:
    batch_size = _batch_size(way, rows, resolve(name).spec)
    with closing(make(name, rows, threads, batch_size)) as env:
        check_trajectory(WAYS[way], env, STEPPERS[way](env))


@cache
def acting(name: str) -> float:
    """Share of the rows whose agent is there and acts, in the first steps of some worlds; once."""
    spec = resolve(name).spec
    if spec.agents == 1:
        return 1.0
    with closing(make(name, rows_for(spec, CHECKED), 1)) as env:
        env.reset(seed=1)
        step, acted, total = kernel(env), env.buffers.arrays["acted"], 0
        for number in range(ACTING_STEPS):
            step(actions_at(spec, env.num_envs, number))
            total += int(np.count_nonzero(acted))
        return total / (ACTING_STEPS * env.num_envs)


def limits(found: Sequence[Result], sweep: Sweep) -> Iterator[Result]:
    """The machine's copy bandwidth, and what share of it the bytes that kernels move come to."""
    rates: dict[int, dict[int, Spread]] = {}
    sizes = [size for size in bandwidth.SIZES if size <= _largest(found)]
    for threads in sorted({each.threads for each in found if each.threads}):
        rates[threads] = bandwidth.copy_bandwidth(
            sizes, threads, rounds=sweep.rounds, seconds=sweep.seconds
        )
        for size, spread in rates[threads].items():
            giga = spread.map(lambda rate: rate / 1e9)
            note = "bytes read and bytes written, by the memory that they lie in (KiB)"
            yield Result.measured(f"copy-{size >> 10}", "NumPy", "", threads, giga, "GB/s", note)
    note = "bytes that the kernel moves at most, of what copying as much memory moves"
    for each in found:
        if each.impl == KERNEL and each.value and _rows(each) >= THREADED:
            moved = bytes_per_step(resolve(each.env).spec)
            size = bandwidth.nearest(int(_rows(each) * moved), sizes)
            rate = each.spread.map(partial(operator.mul, moved))
            share = rate.over(rates[each.threads][size])
            yield Result.measured(
                f"{each.name}-of-copy", KERNEL, each.env, each.threads, share, "share", note
            )


def _rows(each: Result) -> int:
    return int(each.name.rpartition("-")[2])


def _largest(found: Sequence[Result]) -> float:
    """Bytes around which the largest batch of all moves, with room above."""
    moved = [
        _rows(each) * bytes_per_step(resolve(each.env).spec)
        for each in found
        if each.impl == KERNEL and each.value
    ]
    return max([*moved, float(bandwidth.SIZES[0])]) * 2
