"""What is compared with what: the plans of the benchmarks and the ratios that they print."""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.bench import matmul, stepping, training
from headrace.bench.batches import Batch, NotInstalled, gymnasium_numpy
from headrace.bench.results import Result
from headrace.bench.spread import Spread
from headrace.bench.timing import measure


def figure(name: str, impl: str, threads: int, value: float) -> Result:
    spread = Spread.of([value] * 5)
    return Result.measured(name, impl, "cartpole", threads, spread, "steps/s")


def test_ratios_of_stepping() -> None:
    found = [
        figure("kernel-4096", stepping.KERNEL, 1, 200e6),
        figure("kernel-4096", stepping.KERNEL, 2, 300e6),
        figure("kernel-65536", stepping.KERNEL, 1, 150e6),
        figure("kernel-65536", stepping.KERNEL, 2, 285e6),
        figure("vecenv-4096", "headrace VecEnv (copy=False)", 1, 100e6),
        figure("vecenv-65536", "headrace VecEnv (copy=False)", 1, 80e6),
        figure("vecenv-65536", "headrace VecEnv (copy=False)", 2, 160e6),
        figure("vecenv-copy-4096", "headrace VecEnv (copy=True)", 1, 50e6),
        figure("vecenv-1024", stepping.YARDSTICK, 1, 5e6),
        Result.missing("vecenv", "EnvPool", "cartpole", "steps/s", "not installed"),
    ]
    factors = [ratio.median for _, ratio in stepping.ratios(found)]
    assert factors == pytest.approx([40.0, 20.0, 10.0, 1.9, 2.0])


def test_ratios_of_training() -> None:
    found = [figure(f"train-{width}", "headrace", 2, 1e6 * width) for width in training.WIDTHS]
    found.append(figure("vecenv-1024", "Gymnasium CartPoleVectorEnv", 1, 8e6))
    assert [ratio.median for _, ratio in training.ratios(found)] == pytest.approx([4.0, 8.0, 16.0])


def test_seconds_to_solve_are_medians_of_each_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first training of a seed is slow; seed 2 never solves it."""
    asked: list[tuple[int, Any]] = []

    def train(_: str, seed: int, **settings: Any) -> Any:
        asked.append((seed, settings.get("hidden")))
        slow = 5.0 if asked.count(asked[-1]) == 1 else 0.0
        seconds = None if seed == 2 else seed + slow
        return SimpleNamespace(solved_seconds=seconds, return_target=475.0)

    monkeypatch.setattr(training, "trained", train)
    found = training._time_to_solve(3, 2, lambda _: None)
    assert [each.name for each in found] == ["solve-preset", "solve-32", "solve-64", "solve-128"]
    assert {each.samples for each in found} == {(1.0, 3.0)}
    assert found[0].note == "return 475, 2 of 3 seeds solved (the other counts as longer)"
    assert (found[0].median, found[0].missed) == (3.0, 1)
    assert len(asked) == 3 * 3 * 4
    assert asked[:4] == [(1, None), (1, (32,)), (1, (64,)), (1, (128,))]


def planned(make: Any) -> stepping.Plan:
    plan = stepping.Plan()
    with ExitStack() as stack:
        stepping._plan_batch(plan, stack, make)
    return plan


def test_a_peer_that_is_not_there_is_said_once() -> None:
    def absent() -> Batch:
        raise NotInstalled("EnvPool", "not installed")

    plan = stepping.Plan()
    with ExitStack() as stack:
        stepping._plan_batch(plan, stack, absent)
        stepping._plan_batch(plan, stack, absent)
    (missing,) = plan.missing
    assert (missing.impl, missing.value, missing.note) == ("EnvPool", None, "not installed")
    assert plan.cases == []


def test_a_peer_with_other_dynamics_is_not_timed() -> None:
    import gymnasium

    def heavier() -> Any:
        env = gymnasium.make_vec("CartPole-v1", 20, vectorization_mode="vector_entry_point")
        env.unwrapped.gravity = 20.0
        return env

    plan = planned(lambda: Batch("vecenv-20", "Heavier", 20, 1, heavier))
    assert plan.cases == []
    assert "off Gymnasium's CartPole" in plan.missing[0].note


def test_a_peer_counts_transitions() -> None:
    plan = planned(lambda: gymnasium_numpy(20))
    assert 0.93 * 20 < plan.cases[0].work < 0.98 * 20


@pytest.mark.parametrize("threads", [1, 2])
def test_kernel_counts_every_row(threads: int) -> None:
    plan = stepping.Plan()
    with ExitStack() as stack:
        stepping._plan_kernel(plan, stack, 256, threads)
        rates = measure(plan.cases, rounds=1, seconds=0.001)
    assert plan.cases[0].work == 256
    assert rates[plan.cases[0].name].median > 0


def test_blas_is_at_its_best(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings for the sake of old libraries do not slow the yardstick down."""
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    asked: dict[str, str] = {}
    real = subprocess.run

    def run(command: list[str], **options: Any) -> Any:
        asked.update(options["env"])
        return real(command, **options)

    monkeypatch.setattr(matmul.subprocess, "run", run)
    assert matmul.sgemm_peak(1, seconds=0.05) > 1e8
    assert "OPENBLAS_CORETYPE" not in asked
    assert asked["OPENBLAS_NUM_THREADS"] == "1"
    assert os.environ["OPENBLAS_CORETYPE"] == "Haswell"
