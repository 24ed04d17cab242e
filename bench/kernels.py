"""`headrace bench kernels`: the trainer's kernels against torch, eager and compiled."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..engine.cpus import available_cpus
from ..trainers.settings import setting
from . import native_kernels
from .benchmark import Announce, Benchmark, RepeatFlags, Report
from .kernel_check import Oracle, check_adam, check_advantages
from .kernel_data import Floats, Minibatch, Trajectories, shape_of
from .matmul import peak, sgemm_peak
from .native_kernels import IMPL as NATIVE
from .native_kernels import NativeAdam, NativeKernels
from .results import Ratio, Result
from .rounds import repeated
from .spread import Spread
from .stages import flops
from .timing import Case, Group, measure_anew

WIDTHS = (64, 128, 256, 512)
DEPTHS = (1, 2)
BATCHES = (256, 4096, 16384, 65536)  # other than CHECKED; of two layers, which take long,
DEEP_BATCHES = (256, 16384)  # only these
REFERENCE = 16384  # rows: the batch at which everything is compared
CHECKED = 1024  # rows that are compared with NumPy's
COMPILATIONS = 5  # how often the time to compile is taken
EAGER, COMPILED = "torch eager", "torch.compile"
QUICK_SECONDS, FULL_SECONDS = 0.03, 0.05  # of one repeat
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
    announce: Announce
    kept: dict[Any, Any] = field(default_factory=dict)  # what was compiled, or takes long to make

    def impls(self, batch: int) -> list[str]:
        """Who takes part at that batch."""
        torch = [EAGER] if self.torch else []
        return [NATIVE, *torch, *([COMPILED] if torch and self.compiles_at(batch) else [])]

    def batches_of(self, hidden: tuple[int, ...]) -> list[int]:
        """Those at which a policy of these widths is measured."""
        return [each for each in self.batches if len(hidden) == 1 or each in DEEP_BATCHES]

    def compiles_at(self, batch: int) -> bool:
        return self.compiles and batch == REFERENCE


def case(
    name: str, impl: str, threads: int, run: Callable[[int], object], work: float = 0.0
) -> Case:
    """work: rows of one iteration, 0 for what is told in time per call."""
    return Case("/".join((name, impl, str(threads), ROWS if work else CALLS)), run, work or 1.0)


def result(case_name: str, spread: Spread) -> Result:
    """The figure of a case."""
    name, impl, threads, unit = case_name.split("/", 3)
    if unit == CALLS:
        spread = spread.map(lambda rate: 1e6 / rate)
    return Result.measured(name, impl, "", int(threads), spread, unit)


def run(*, rounds: int, quick: bool, announce: Announce) -> list[Result]:
    """Checks, then measures; CheckFailed where a kernel computes something else."""
    widths, depths = ((64, 128, 512), (1,)) if quick else (WIDTHS, DEPTHS)
    shapes = [(width,) * depth for depth in depths for width in widths]
    batches = (REFERENCE,) if quick else BATCHES
    seconds = QUICK_SECONDS if quick else FULL_SECONDS
    plan = Plan(rounds, seconds, shapes, batches, not quick, _torch_side(), announce)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.compile's, about its own caches
        found = _measured(plan)
    if plan.torch is None:
        found.append(Result.missing("learn", EAGER, "", ROWS, "not installed"))
    return found + _shares_of_peak(found, plan)


def _measured(plan: Plan) -> list[Result]:
    """Checks everything, compiles what is compiled, then times it all in turn."""
    found: list[Result] = []
    groups: list[Group] = []
    for hidden in plan.shapes:
        _check_policy(plan, hidden)
        _check_optimiser(plan, hidden)
        if COMPILED in plan.impls(REFERENCE) and REFERENCE in plan.batches:
            found.append(_compile(plan, hidden))
        groups += [partial(_policy, plan, hidden, batch) for batch in plan.batches_of(hidden)]
        groups.append(partial(_optimiser, plan, hidden))
    for batch in plan.batches:
        _check_advantages(plan, batch)
        groups.append(partial(_advantages, plan, batch))
    measured = measure_anew(
        groups, rounds=plan.rounds, seconds=plan.seconds, announce=plan.announce
    )
    return [*(result(*each) for group in measured for each in group.items()), *found]


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


def _compile(plan: Plan, hidden: tuple[int, ...]) -> Result:
    """Compiles, checks and keeps torch's kernels; the result is how long that takes."""
    data = Minibatch(hidden, REFERENCE)
    oracle = Oracle(data)
    made = {threads: _kernels(plan, data, COMPILED, threads) for threads in _thread_counts()}
    times = [plan.torch.seconds_to_compile(made[1].learn) for _ in range(COMPILATIONS)]
    for threads, kernels in made.items():
        plan.kept[hidden, threads] = kernels
        oracle.check_forward(COMPILED, kernels.forward())
        oracle.check_gradient(COMPILED, kernels.learn())
    name = f"compile-learn-{shape_of(hidden)}-{REFERENCE}"
    note = "the first call, nothing cached"
    return Result.measured(name, COMPILED, "", 1, Spread.of(times), "s", note)


@contextmanager
def _policy(plan: Plan, hidden: tuple[int, ...], batch: int) -> Iterator[list[Case]]:
    """Forward pass, and forward + loss + backward, of one minibatch."""
    data = plan.kept.setdefault((hidden, batch), Minibatch(hidden, batch))
    where = f"{shape_of(hidden)}-{batch}"
    cases = []
    with ExitStack() as stack:
        for impl in plan.impls(batch):
            for threads in _thread_counts():
                if impl == COMPILED:
                    kernels = plan.kept[hidden, threads]
                else:
                    kernels = stack.enter_context(closing(_kernels(plan, data, impl, threads)))
                if threads == 1:
                    cases.append(case(f"forward-{where}", impl, 1, kernels.forwards, batch))
                cases.append(case(f"learn-{where}", impl, threads, kernels.learns, batch))
        yield cases


def _adams(plan: Plan) -> dict[str, Any]:
    return {NATIVE: NativeAdam, **({EAGER: plan.torch.TorchAdam} if plan.torch else {})}


def _gradient(hidden: tuple[int, ...]) -> tuple[Minibatch, Floats]:
    data = Minibatch(hidden, CHECKED)
    with closing(NativeKernels(data, 1)) as kernels:
        return data, kernels.learn()


def _check_optimiser(plan: Plan, hidden: tuple[int, ...]) -> None:
    """Two steps of Adam."""
    data, gradient = _gradient(hidden)
    for impl, make in _adams(plan).items():
        adam = make(data, gradient)
        adam.step()
        check_adam(impl, data, gradient, adam.step())


@contextmanager
def _optimiser(plan: Plan, hidden: tuple[int, ...]) -> Iterator[list[Case]]:
    """One step of Adam over the policy's parameters."""
    data, gradient = _gradient(hidden)
    yield [
        case(f"adam-{shape_of(hidden)}", impl, 1, make(data, gradient).steps)
        for impl, make in _adams(plan).items()
    ]


def _estimators(plan: Plan, batch: int) -> Iterator[tuple[str, str, Any]]:
    """(gae or vtrace, whose, a function that computes it)"""
    data = Trajectories(batch)
    for name in ("gae", "vtrace"):
        for impl in plan.impls(batch):
            call: Any
            if impl == NATIVE:
                call = native_kernels.advantages(data, name == "vtrace")
            elif impl == EAGER:
                call = plan.torch.advantages(data, name == "vtrace")
            else:
                key = (name, batch)
                if key not in plan.kept:
                    plan.kept[key] = plan.torch.advantages(data, name == "vtrace", compiled=True)
                call = plan.kept[key]
            yield name, impl, call


def _check_advantages(plan: Plan, batch: int) -> None:
    for name, impl, call in _estimators(plan, batch):
        check_advantages(impl, Trajectories(batch), name == "vtrace", call())


@contextmanager
def _advantages(plan: Plan, batch: int) -> Iterator[list[Case]]:
    """Advantages of a rollout of `batch` steps."""
    yield [
        case(f"{name}-{batch}", impl, 1, _repeated(call), batch)
        for name, impl, call in _estimators(plan, batch)
    ]


def _repeated(call: Callable[[], object]) -> Callable[[int], None]:
    def run(count: int) -> None:
        for _ in range(count):
            call()

    return run


def _shares_of_peak(found: Sequence[Result], plan: Plan) -> list[Result]:
    """What share of the machine's matrix-product peak learning reaches on one thread."""
    (rates,) = repeated([lambda _: sgemm_peak(1)], plan.rounds)
    top = peak(rates.spread())
    shares = [top]
    note = "FLOPs of forward's and backward's matrix products alone, over the time of all of it"
    for hidden in plan.shapes:
        name = f"learn-{shape_of(hidden)}-{REFERENCE}"
        work = flops(Minibatch(hidden, CHECKED).policy)
        for each in found:
            if (each.name, each.threads) == (name, 1):
                share = each.spread.map(partial(operator.mul, work / 1e9)).over(top.spread)
                shares.append(
                    Result.measured(f"{name}-of-peak", each.impl, "", 1, share, "share", note)
                )
    return shares


def ratios(results: Sequence[Result]) -> list[Ratio]:
    """Native against torch, with all cores, at the reference batch."""
    figure = {(each.name, each.impl, each.threads): each for each in results if each.value}
    threads = available_cpus()
    lines = []
    for (name, impl, used), mine in figure.items():
        if impl != NATIVE or used != threads or not name.endswith(f"-{REFERENCE}"):
            continue
        for other in (EAGER, COMPILED):
            theirs = figure.get((name, other, used))
            if theirs is not None:
                what = f"forward + loss + backward, {name.split('-')[1]}, {REFERENCE} rows"
                lines.append((f"{what}: the speed of {other}", mine.over(theirs)))
    return lines


@dataclass(frozen=True)
class KernelFlags(RepeatFlags):
    """The flags of `headrace bench kernels`."""

    repeats: int = setting(5, "how often everything is measured", low=5, high=1000)


def report(flags: KernelFlags, announce: Announce) -> Report:
    """As the command line asks for it."""
    found = run(rounds=flags.repeats, quick=flags.quick, announce=announce)
    title = "The trainer's kernels (4 numbers in, 2 choices and a value out)"
    return Report(title, found, ratios(found))


BENCHMARK = Benchmark(
    "kernels",
    "Measures the trainer's kernels - policy forward, loss + backward, Adam, GAE and V-trace - "
    "against torch, eager and through torch.compile (whose time to compile is shown), at widths "
    "64 to 512 and batches of 256 to 65536 rows. Each is compared with float64 NumPy first.",
    KernelFlags,
    "headrace bench kernels --out bench/results/kernels.json",
    report,
)
