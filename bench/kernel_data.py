"""The rows that `bench kernels` gives to every implementation: one random minibatch, in NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..engine.resolve import resolve
from ..trainers.policy import PolicySpec

Floats = NDArray[np.float32]

ENV = "cartpole"  # whose spaces the policy has: 4 numbers in, 2 choices and a value out
CLIP, VALUE_COEF, ENTROPY_COEF = 0.2, 0.5, 0.01
GAMMA, LAMBDA = 0.99, 0.95
BETAS, EPS, LR = (0.9, 0.999), 1e-5, 1e-3
TILE = 64  # rows that the native kernels take at once
MAX_STEPS = 32  # of a rollout


def shape_of(hidden: tuple[int, ...]) -> str:
    """A policy's hidden layers for people: 2x64."""
    return f"{len(hidden)}x{hidden[0]}"


@dataclass(frozen=True)
class Minibatch:
    """A policy and `batch` rows that it learns from; every array is the same for a given seed."""

    hidden: tuple[int, ...]
    batch: int

    @cached_property
    def policy(self) -> PolicySpec:
        return PolicySpec.from_env(resolve(ENV).spec, hidden=self.hidden)

    @cached_property
    def params(self) -> Floats:
        """Those that a run starts from, moved a little, so that no head is near zero."""
        params = self.policy.init(1)
        noise = np.random.default_rng(2).standard_normal(len(params))
        return params + (0.05 * noise).astype(np.float32)

    @cached_property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng(3)

    def _normal(self, *shape: int) -> Floats:
        return self.rng.standard_normal(shape, np.float32)

    @cached_property
    def obs(self) -> Floats:
        """[batch, features]"""
        return self._normal(self.batch, self.policy.features)

    @cached_property
    def actions(self) -> NDArray[np.int32]:
        """[batch]"""
        return self.rng.integers(0, self.policy.heads[0].size, self.batch, np.int32)

    @cached_property
    def columns(self) -> dict[str, Floats]:
        """logp (of the policy that acted, near uniform), value, advantage, ret: [batch] each."""
        logp = np.float32(-np.log(self.policy.heads[0].size)) + 0.1 * self._normal(self.batch)
        named = {name: self._normal(self.batch) for name in ("value", "advantage", "ret")}
        return {"logp": logp, **named}


@dataclass(frozen=True)
class Trajectories:
    """A rollout of `batch` steps for the advantages: arrays [steps, rows]."""

    batch: int

    @property
    def steps(self) -> int:
        return min(MAX_STEPS, self.batch // TILE)

    @cached_property
    def columns(self) -> dict[str, Floats]:
        """reward, value, done (1 in 20), bootstrap, logp and current (of V-trace)."""
        rng = np.random.default_rng(4)
        shape = (self.steps, self.batch // self.steps)
        names = ("reward", "value", "bootstrap", "logp")
        found = {name: rng.standard_normal(shape, np.float32) for name in names}
        found["current"] = found["logp"] + 0.3 * rng.standard_normal(shape, np.float32)
        found["done"] = (rng.random(shape) < 0.05).astype(np.float32)
        return found

    @cached_property
    def last(self) -> Floats:
        """Value after the last step, [rows]."""
        return np.random.default_rng(5).standard_normal(self.batch // self.steps, np.float32)
