"""Correctness before speed: the trainer's kernels against float64 NumPy, by the textbook."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .check import CheckFailed
from .kernel_data import (
    BETAS,
    CLIP,
    ENTROPY_COEF,
    EPS,
    GAMMA,
    LAMBDA,
    LR,
    VALUE_COEF,
    Floats,
    Minibatch,
    Trajectories,
)

Doubles = NDArray[np.float64]
TOLERANCE = 1e-3  # of a tensor, relative to its norm; float32 leaves about 1e-6


class Oracle:
    """What the kernels ought to give for a minibatch."""

    def __init__(self, data: Minibatch) -> None:
        self.data = data
        self.tensors = {
            name: np.asarray(data.params[at : at + int(np.prod(shape))], np.float64).reshape(shape)
            for name, at, shape in data.policy.tensors
        }
        x = np.asarray(data.obs, np.float64)
        self._layers = [x]  # inputs of each layer
        for k in range(len(data.hidden)):
            t = self.tensors
            x = np.tanh(x @ t[f"trunk.{k}.weight"].T + t[f"trunk.{k}.bias"])
            self._layers.append(x)
        heads = [x @ self.tensors[f"{h}.weight"].T for h in ("policy", "value")]
        self._logits = heads[0] + self.tensors["policy.bias"]
        self._value = heads[1] + self.tensors["value.bias"]

    def check_forward(self, impl: str, outputs: Floats) -> None:
        """CheckFailed unless `outputs` are logits and value."""
        expected = np.concatenate([self._logits, self._value], 1)
        _compare(f"{impl}: the outputs of the forward pass", outputs, expected)

    def check_gradient(self, impl: str, gradient: Floats) -> None:
        """CheckFailed unless every tensor's gradient is the loss's."""
        expected = self._gradient()
        for name, at, shape in self.data.policy.tensors:
            got = gradient[at : at + int(np.prod(shape))].reshape(shape)
            _compare(f"{impl}: the gradient of {name!r}", got, expected[name])

    def _gradient(self) -> dict[str, Doubles]:
        """Of the mean loss, by hand: softmax and clipped ratio, value, entropy, then back."""
        rows = self.data.batch
        dlogits, dvalue = self._head_gradients()
        found: dict[str, Doubles] = {}
        hidden = self._layers[-1]
        for name, d in (("policy", dlogits / rows), ("value", dvalue / rows)):
            found[f"{name}.weight"], found[f"{name}.bias"] = d.T @ hidden, d.sum(0)
        dx = (
            dlogits @ self.tensors["policy.weight"] + dvalue @ self.tensors["value.weight"]
        ) / rows
        for k in range(len(self.data.hidden) - 1, -1, -1):
            dx = dx * (1.0 - self._layers[k + 1] ** 2)
            found[f"trunk.{k}.weight"] = dx.T @ self._layers[k]
            found[f"trunk.{k}.bias"] = dx.sum(0)
            dx = dx @ self.tensors[f"trunk.{k}.weight"]
        return found

    def _head_gradients(self) -> tuple[Doubles, Doubles]:
        """Of each row's loss with respect to its logits and its value."""
        columns = {name: np.float64(column) for name, column in self.data.columns.items()}
        own = self._logits - self._logits.max(1, keepdims=True)
        own -= np.log(np.exp(own).sum(1, keepdims=True))
        chance = np.exp(own)
        chosen = np.arange(chance.shape[1]) == self.data.actions[:, None]
        ratio = np.exp(own[chosen] - columns["logp"])
        plain = ratio * columns["advantage"]
        bounded = ratio.clip(1 - CLIP, 1 + CLIP) * columns["advantage"]
        dlogp = np.where(plain <= bounded, -plain, 0.0)
        dlogits = dlogp[:, None] * (chosen - chance)
        entropy = -(chance * own).sum(1, keepdims=True)
        dlogits += ENTROPY_COEF * chance * (own + entropy)
        return dlogits, VALUE_COEF * (self._value - columns["ret"][:, None])


def check_adam(impl: str, data: Minibatch, gradient: Floats, got: Floats) -> None:
    """CheckFailed unless `got` are the parameters after Adam's first two steps."""
    g = np.float64(gradient)
    expected, m, v = np.float64(data.params), np.zeros_like(g), np.zeros_like(g)
    for step in (1, 2):
        m = BETAS[0] * m + (1 - BETAS[0]) * g
        v = BETAS[1] * v + (1 - BETAS[1]) * g * g
        mean, square = m / (1 - BETAS[0] ** step), v / (1 - BETAS[1] ** step)
        expected = expected - LR * mean / (np.sqrt(square) + EPS)
    moved = expected - data.params
    _compare(f"{impl}: what Adam does to the parameters", got - data.params, moved, 1e-2)


def check_advantages(
    impl: str, data: Trajectories, vtrace: bool, got: tuple[Floats, Floats]
) -> None:
    """CheckFailed unless `got` are the advantages and the value targets."""
    c = {name: np.float64(column) for name, column in data.columns.items()}
    ratio = np.minimum(1.0, np.exp(c["current"] - c["logp"])) if vtrace else np.ones(())
    rho = np.broadcast_to(ratio, c["reward"].shape)
    advantage, target = np.zeros_like(c["reward"]), np.zeros_like(c["reward"])
    following, correction = np.float64(data.last), np.zeros(len(data.last))
    for step in range(data.steps - 1, -1, -1):
        over = c["done"][step] > 0
        ahead = np.where(over, c["bootstrap"][step], following)
        flowing = np.where(over, 0.0, GAMMA * LAMBDA * correction)
        delta = c["reward"][step] + GAMMA * ahead - c["value"][step]
        advantage[step] = delta + flowing
        correction = rho[step] * advantage[step]
        target[step] = c["value"][step] + correction
        following = c["value"][step]
    kind = "V-trace" if vtrace else "generalised advantage estimation"
    _compare(f"{impl}: the advantages of {kind}", got[0], advantage)
    _compare(f"{impl}: the value targets of {kind}", got[1], target)


def _compare(
    what: str, got: NDArray[np.floating], expected: Doubles, tolerance: float = TOLERANCE
) -> None:
    """CheckFailed where `got` is further from `expected` than a share of its norm."""
    if got.shape != expected.shape:
        raise CheckFailed(f"{what}: of shape {got.shape}, not {expected.shape}")
    error = float(np.linalg.norm(got - expected) / max(float(np.linalg.norm(expected)), 1e-30))
    if not error <= tolerance:  # NaN too
        raise CheckFailed(f"{what} is {error:.2g} off NumPy's in float64: not timed")
