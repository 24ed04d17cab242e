"""`headrace bench kernels`: the trainer's kernels against torch, eager and compiled."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Any

from ..engine.cpus import available_cpus
from . import native_kernels
from .benchmark import Announce, Benchmark, RepeatFlags, Report
from .kernel_check import Oracle, check_adam, check_advantages
from .kernel_data import Floats, Minibatch, Trajectories, shape_of
from .matmul import sgemm_peak
from .native_kernels import IMPL as NATIVE
from .native_kernels import NativeAdam, NativeKernels
from .results import Result
from .stages import flops
from .timing import Case, Spread, measure

WIDTHS = (64, 128, 256, 512)
DEPTHS = (1, 2)
BATCHES = (256, 4096, 16384, 65536)  # other than CHECKED
REFERENCE = 16384  # rows: the batch at which everything is compared
CHECKED = 1024  # rows that are compared with NumPy's
COMPILATIONS = 3  # how often the time to compile is taken
EAGER, COMPILED = "torch eager", "torch.compile"
QUICK_SECONDS, FULL_SECONDS = 0.03, 0.1  # of one repeat
ROWS, CALLS = "rows/s", "us/call"


@dataclass(frozen=True)
class Plan:
    """What is measured; `torch` is the module of its side, None where it is not installed."""

    rounds: int
    seconds: float
    shapes: Sequence[tuple[int, ...]]
    batches: Sequence[int]
    compiles: bool
    torch: Any
    tick: Callable[[], None]

    def groups(self) -> Iterator[tuple[tuple[int, ...], int]]:
        """(hidden layers, rows) that are measured together."""
        for hidden in self.shapes:
            for batch in self.batches:
                yield hidden, batch

    def impls(self, batch: int) -> list[str]:
        """Who takes part at that batch."""
        torch = [EAGER] if self.torch else []
        return [NATIVE, *torch, *([COMPILED] if torch and self.compiles_at(batch) else [])]

    def compiles_at(self, batch: int) -> bool:
        return self.compiles and batch == REFERENCE


@dataclass
class Group:
    """Cases that are timed in turn, and what each is: (name, impl, threads, unit)."""

    cases: list[Case] = field(default_factory=list)
    about: list[tuple[str, str, int, str]] = field(default_factory=list)

    def add(
        self, name: str, impl: str, threads: int, run: Callable[[int], object], work: float
    ) -> None:
        """work: rows of one iteration, 0 for what is told in time per call."""
        self.cases.append(Case(f"{name}/{impl}/{threads}", run, work or 1.0))
        self.about.append((name, impl, threads, ROWS if work else CALLS))

    def measured(self, plan: Plan) -> Iterator[Result]:
        spreads = measure(self.cases, rounds=plan.rounds, seconds=plan.seconds)
        for case, (name, impl, threads, unit) in zip(self.cases, self.about, strict=True):
            spread = spreads[case.name]
            if unit == CALLS:
                spread = spread.map(lambda rate: 1e6 / rate)
            yield Result.measured(name, impl, "", threads, spread, unit)
        plan.tick()


def run(*, rounds: int, quick: bool, announce: Announce) -> list[Result]:
    """Checks, then measures; CheckFailed where a kernel computes something else."""
    widths, depths = ((64, 128, 512), (1,)) if quick else (WIDTHS, DEPTHS)
    shapes = [(width,) * depth for depth in depths for width in widths]
    batches = (REFERENCE,) if quick else BATCHES
    total = len(shapes) * (len(batches) + 1) + len(batches)
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1
        announce(done, total)

    seconds = QUICK_SECONDS if quick else FULL_SECONDS
    plan = Plan(rounds, seconds, shapes, batches, not quick, _torch_side(), tick)
    found: list[Result] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.compile's, about its own caches
        for hidden in shapes:
            _check_policy(plan, hidden)
        for hidden, batch in plan.groups():
            found += _policy(plan, hidden, batch)
        for hidden in shapes:
            found += _optimiser(plan, hidden)
        for batch in batches:
            found += _advantages(plan, batch)
    if plan.torch is None:
        found.append(Result.missing("learn", EAGER, "", ROWS, "not installed"))
    return found + _shares_of_peak(found, plan)


def _torch_side() -> Any:
    try:
        from . import torch_kernels
    except ImportError:
        return None
    torch_kernels.keep_memory()
    return torch_kernels


def _thread_counts() -> list[int]:
    return sorted({1, available_cpus()})


def _kernels(plan: Plan, data: Minibatch, impl: str, threads: int) -> Any:
    if impl == NATIVE:
        return NativeKernels(data, threads)
    return plan.torch.TorchKernels(data, threads, compiled=impl == COMPILED)


def _check_policy(plan: Plan, hidden: tuple[int, ...]) -> None:
    """The forward pass and the gradient, on a few rows; what is compiled follows in `_policy`."""
    data = Minibatch(hidden, CHECKED)
    oracle = Oracle(data)
    for impl in plan.impls(CHECKED):
        for threads in _thread_counts():
            with closing(_kernels(plan, data, impl, threads)) as kernels:
                oracle.check_forward(impl, kernels.forward())
                oracle.check_gradient(impl, kernels.learn())


def _policy(plan: Plan, hidden: tuple[int, ...], batch: int) -> list[Result]:
    """Forward pass, and forward + loss + backward, of one minibatch."""
    data, group, found = Minibatch(hidden, batch), Group(), []
    where = f"{shape_of(hidden)}-{batch}"
    oracle = Oracle(data) if COMPILED in plan.impls(batch) else None
    with ExitStack() as stack:
        for impl in plan.impls(batch):
            for threads in _thread_counts():
                kernels = stack.enter_context(closing(_kernels(plan, data, impl, threads)))
                if threads == 1:
                    group.add(f"forward-{where}", impl, 1, kernels.forwards, batch)
                group.add(f"learn-{where}", impl, threads, kernels.learns, batch)
                if impl == COMPILED and oracle is not None:
                    if threads == 1:  # first, since nothing that is compiled outlives it
                        found.append(_compile_time(plan, f"learn-{where}", kernels.learn))
                    oracle.check_forward(impl, kernels.forward())
                    oracle.check_gradient(impl, kernels.learn())
        return [*group.measured(plan), *found]


def _compile_time(plan: Plan, name: str, call: Callable[[], object]) -> Result:
    times = [plan.torch.seconds_to_compile(call) for _ in range(COMPILATIONS)]
    note = "the first call, nothing cached"
    return Result.measured(f"compile-{name}", COMPILED, "", 1, Spread.of(times), "s", note)


def _optimiser(plan: Plan, hidden: tuple[int, ...]) -> list[Result]:
    """One step of Adam over the policy's parameters."""
    data = Minibatch(hidden, CHECKED)
    with closing(NativeKernels(data, 1)) as kernels:
        gradient: Floats = kernels.learn()
    group = Group()
    sides = {NATIVE: NativeAdam, **({EAGER: plan.torch.TorchAdam} if plan.torch else {})}
    for impl, make in sides.items():
        adam = make(data, gradient)
        adam.step()
        check_adam(impl, data, gradient, adam.step())
        group.add(f"adam-{shape_of(hidden)}", impl, 1, adam.steps, 0)
    return list(group.measured(plan))


def _advantages(plan: Plan, batch: int) -> list[Result]:
    """Advantages of a rollout of `batch` steps."""
    data, group = Trajectories(batch), Group()
    for name, vtrace in (("gae", False), ("vtrace", True)):
        for impl in plan.impls(batch):
            if impl == NATIVE:
                call = native_kernels.advantages(data, vtrace)
            else:
                call = plan.torch.advantages(data, vtrace, compiled=impl == COMPILED)
            check_advantages(impl, data, vtrace, call())
            group.add(f"{name}-{batch}", impl, 1, _repeated(call), batch)
    return list(group.measured(plan))


def _repeated(call: Callable[[], object]) -> Callable[[int], None]:
    def run(count: int) -> None:
        for _ in range(count):
            call()

    return run


def _shares_of_peak(found: Sequence[Result], plan: Plan) -> list[Result]:
    """What share of the machine's matrix-product peak learning reaches on one thread."""
    peak = Spread.of([sgemm_peak(1) / 1e9 for _ in range(plan.rounds)])
    note = "float32 product of 1024×1024 matrices by NumPy's BLAS, the peak being the best"
    shares = [Result.measured("sgemm-peak", "NumPy", "", 1, peak, "GFLOP/s", note)]
    note = "FLOPs of forward's and backward's matrix products alone, over the time of all of it"
    for hidden in plan.shapes:
        name = f"learn-{shape_of(hidden)}-{REFERENCE}"
        work = flops(Minibatch(hidden, CHECKED).policy)
        for each in found:
            if (each.name, each.threads) == (name, 1):
                share = Spread.of([rate * work / (peak.max * 1e9) for rate in each.samples])
                shares.append(
                    Result.measured(f"{name}-of-peak", each.impl, "", 1, share, "share", note)
                )
    return shares


def ratios(results: Sequence[Result]) -> list[tuple[str, float]]:
    """Native against torch, with all cores, at the reference batch."""
    value = {(each.name, each.impl, each.threads): each.value for each in results}
    threads = available_cpus()
    lines = []
    for (name, impl, used), mine in value.items():
        if impl != NATIVE or used != threads or not name.endswith(f"-{REFERENCE}") or not mine:
            continue
        for other in (EAGER, COMPILED):
            theirs = value.get((name, other, used))
            if theirs:
                what = f"forward + loss + backward, {name.split('-')[1]}, {REFERENCE} rows"
                lines.append((f"{what}: the speed of {other}", mine / theirs))
    return lines


def report(flags: RepeatFlags, announce: Announce) -> Report:
    """As the command line asks for it."""
    found = run(rounds=flags.repeats, quick=flags.quick, announce=announce)
    title = "The trainer's kernels (4 numbers in, 2 choices and a value out)"
    return Report(title, found, ratios(found))


BENCHMARK = Benchmark(
    "kernels",
    "Measures the trainer's kernels - policy forward, loss + backward, Adam, GAE and V-trace - "
    "against torch, eager and through torch.compile (whose time to compile is shown), at widths "
    "64 to 512 and batches of 256 to 65536 rows. Each is compared with float64 NumPy first.",
    RepeatFlags,
    "headrace bench kernels --out bench/results/kernels.json",
    report,
)
