"""`headrace bench kernels`: what is compared, and that nothing wrong is timed."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from headrace.bench import kernels, native_kernels
from headrace.bench.check import CheckFailed
from headrace.bench.kernel_check import Oracle
from headrace.bench.kernel_data import Minibatch, Trajectories
from headrace.bench.spread import Spread
from headrace.cli import main


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The smallest run there is; the names of the cases that were timed."""
    timed: list[str] = []

    def measure(groups: Any, **_: Any) -> list[dict[str, Spread]]:
        found = []
        for group in groups:
            with group() as cases:
                for case in cases:
                    case.run(1)
                    timed.append(case.name)
                found.append({case.name: Spread.of([1e6, 2e6, 3e6]) for case in cases})
        return found

    monkeypatch.setattr(kernels, "measure_anew", measure)
    monkeypatch.setattr(kernels, "sgemm_peak", lambda _: 1e11)
    monkeypatch.setattr(kernels, "WIDTHS", (8,))
    monkeypatch.setattr(kernels, "DEPTHS", (1, 2))
    monkeypatch.setattr(kernels, "BATCHES", (256,))
    monkeypatch.setattr(kernels, "CHECKED", 256)
    return timed


def test_every_kernel_is_compared(small: list[str]) -> None:
    pytest.importorskip("torch")
    found = kernels.run(rounds=5, quick=False, announce=lambda *_: None)
    names = {(each.name, each.impl) for each in found}
    for impl in (kernels.NATIVE, kernels.EAGER):
        for what in ("forward-1x8-256", "learn-2x8-256", "adam-2x8", "gae-256", "vtrace-256"):
            assert (what, impl) in names
    assert ("sgemm-peak", "NumPy") in names
    assert {each.unit for each in found} == {"rows/s", "us/call", "GFLOP/s"}
    assert all(each.min is not None for each in found)


def test_without_torch_it_says_so(small: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_torch_side", lambda: None)
    found = kernels.run(rounds=5, quick=False, announce=lambda *_: None)
    (missing,) = [each for each in found if each.value is None]
    assert (missing.impl, missing.note) == (kernels.EAGER, "not installed")
    assert {each.impl for each in found} == {kernels.NATIVE, kernels.EAGER, "NumPy"}


def negated(values: Any) -> Any:
    return -values


def one_bias(gradient: Any) -> Any:
    """The sign of one element's gradient, the value's bias."""
    gradient = gradient.copy()
    gradient[-1] *= -1
    return gradient


def swapped(pair: Any) -> Any:
    return pair[0], -pair[1]


@pytest.mark.parametrize(
    ("side", "kernel", "fault", "complaint"),
    [
        ("native", "NativeKernels.forward", negated, "outputs of the forward pass"),
        ("native", "NativeKernels.learn", one_bias, "gradient of 'value.bias'"),
        ("native", "NativeAdam.step", negated, "what Adam does"),
        ("native", "advantages", swapped, "value targets of generalised"),
        ("torch", "TorchKernels.forward", negated, "outputs of the forward pass"),
        ("torch", "TorchKernels.learn", one_bias, "gradient of 'value.bias'"),
        ("torch", "TorchAdam.step", negated, "what Adam does"),
        ("torch", "advantages", swapped, "value targets of generalised"),
    ],
)
def test_a_wrong_sign_is_not_timed(
    side: str,
    kernel: str,
    fault: Any,
    complaint: str,
    small: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    module: Any = native_kernels
    if side == "torch":
        pytest.importorskip("torch")
        from headrace.bench import torch_kernels as module
    owner, _, method = kernel.rpartition(".")
    target = getattr(module, owner) if owner else module
    real = getattr(target, method)

    def broken(*args: Any, **options: Any) -> Any:
        found = real(*args, **options)
        return (lambda: fault(found())) if callable(found) else fault(found)

    monkeypatch.setattr(target, method, broken)
    assert main(["bench", "kernels", "--json"]) == 1
    captured = capsys.readouterr()
    assert complaint in captured.err
    assert "not timed" in captured.err
    assert list(json.loads(captured.out)) == ["error"]
    assert not [name for name in small if name.startswith(method)]


def test_vtrace_of_another_bound_is_found() -> None:
    from headrace.bench.kernel_check import check_advantages

    data = Trajectories(256)
    check_advantages("native", data, True, native_kernels.advantages(data, True)())
    with pytest.raises(CheckFailed, match="advantages of V-trace"):
        check_advantages("native", data, True, native_kernels.advantages(data, False)())


def test_the_oracle_is_the_losss_gradient() -> None:
    """By finite differences of the loss, written out once more."""
    data = Minibatch((3,), 64)
    oracle = Oracle(data)
    found = oracle._gradient()

    def loss(tensors: dict[str, np.ndarray]) -> float:
        t, c = tensors, data.columns
        h = np.tanh(data.obs.astype(float) @ t["trunk.0.weight"].T + t["trunk.0.bias"])
        logits = h @ t["policy.weight"].T + t["policy.bias"]
        value = (h @ t["value.weight"].T + t["value.bias"])[:, 0]
        own = logits - np.log(np.exp(logits).sum(1, keepdims=True))
        ratio = np.exp(own[np.arange(64), data.actions] - c["logp"])
        gain = np.minimum(ratio * c["advantage"], ratio.clip(0.8, 1.2) * c["advantage"])
        entropy = -(np.exp(own) * own).sum(1)
        return float((-gain + 0.25 * (value - c["ret"]) ** 2 - 0.01 * entropy).mean())

    for name, tensor in oracle.tensors.items():
        for index in np.ndindex(tensor.shape):
            ends = []
            for step in (1e-6, -1e-6):
                moved = {**oracle.tensors, name: tensor.copy()}
                moved[name][index] += step
                ends.append(loss(moved))
            slope = (ends[0] - ends[1]) / 2e-6
            assert found[name][index] == pytest.approx(slope, abs=1e-7)
