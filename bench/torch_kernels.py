"""The torch side of `bench kernels`: eager, and through torch.compile.

Written as one would for speed: inputs lie ready as contiguous tensors, the loss computes no
statistics, the optimiser is torch's fused Adam, memory is kept.
"""

from __future__ import annotations

import contextlib
import ctypes
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

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

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's mallopt


def keep_memory() -> None:
    """Makes glibc's malloc keep large blocks instead of handing each back to the system, which
    torch is up to twice as fast with. Does nothing where there is no glibc."""
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, 1 << 30)
        mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)


class Policy(nn.Module):
    """The same multi-layer perceptron, with the same weights."""

    def __init__(self, data: Minibatch) -> None:
        super().__init__()
        widths = [data.policy.features, *data.hidden]
        self.trunk = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.policy = nn.Linear(widths[-1], data.policy.outputs - 1)
        self.value = nn.Linear(widths[-1], 1)
        self.names = [name for name, _, _ in data.policy.tensors]
        own = dict(self.named_parameters())
        with torch.no_grad():
            for name, offset, shape in data.policy.tensors:
                part = data.params[offset : offset + int(np.prod(shape))]
                own[name].copy_(torch.from_numpy(part.reshape(shape)))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        for layer in self.trunk:
            x = torch.tanh(layer(x))
        return self.policy(x), self.value(x)

    def flat(self) -> list[Tensor]:
        """Parameters in the order of the native ones."""
        own = dict(self.named_parameters())
        return [own[name] for name in self.names]


def ppo_loss(
    policy: Policy, x: Tensor, actions: Tensor, logp: Tensor, advantage: Tensor, ret: Tensor
) -> Tensor:
    """The mean loss of a minibatch."""
    logits, value = policy(x)
    own = torch.log_softmax(logits, 1)
    ratio = torch.exp(own.gather(1, actions).squeeze(1) - logp)
    bounded = ratio.clamp(1.0 - CLIP, 1.0 + CLIP)
    surrogate = -torch.minimum(ratio * advantage, bounded * advantage).mean()
    value_loss = 0.5 * (value.squeeze(1) - ret).square().mean()
    entropy = -(own.exp() * own).sum(1).mean()
    return surrogate + VALUE_COEF * value_loss - ENTROPY_COEF * entropy


class TorchKernels:
    """Forward, and loss + backward, of one minibatch in torch."""

    def __init__(self, data: Minibatch, threads: int, *, compiled: bool = False) -> None:
        self.threads = threads
        self.module = Policy(data)
        self._x = torch.from_numpy(data.obs)
        columns = data.columns
        names = ("logp", "advantage", "ret")
        actions = torch.from_numpy(data.actions.astype(np.int64))[:, None]
        self._rows = (actions, *(torch.from_numpy(columns[name]) for name in names))
        self._call: Any = torch.compile(self.module, dynamic=False) if compiled else self.module
        self._loss: Any = torch.compile(ppo_loss, dynamic=False) if compiled else ppo_loss

    def close(self) -> None:
        """Nothing is held."""

    def forward(self) -> Floats:
        """Outputs [rows, outputs]."""
        torch.set_num_threads(self.threads)
        with torch.no_grad():
            found: Floats = torch.cat(self._call(self._x), 1).numpy()
        return found

    def learn(self) -> Floats:
        """Gradient of the loss, flat as the native parameters are."""
        self.learns(1)
        parts = [p.grad.reshape(-1) for p in self.module.flat() if p.grad is not None]
        found: Floats = torch.cat(parts).numpy()
        return found

    def forwards(self, count: int) -> None:
        """The forward pass count times."""
        torch.set_num_threads(self.threads)
        with torch.no_grad():
            for _ in range(count):
                self._call(self._x)

    def learns(self, count: int) -> None:
        """Forward, loss and backward count times."""
        torch.set_num_threads(self.threads)
        for _ in range(count):
            for parameter in self.module.parameters():
                parameter.grad = None
            self._loss(self.module, self._x, *self._rows).backward()


class TorchAdam:
    """torch's fused Adam over the same parameters."""

    def __init__(self, data: Minibatch, gradient: Floats) -> None:
        self._module = Policy(data)
        at = 0
        for parameter in self._module.flat():
            part = gradient[at : at + parameter.numel()]
            parameter.grad = torch.from_numpy(part.reshape(parameter.shape).copy())
            at += parameter.numel()
        self._adam = torch.optim.Adam(
            self._module.parameters(), lr=LR, betas=BETAS, eps=EPS, fused=True
        )

    def step(self) -> Floats:
        """The parameters after one more step."""
        self.steps(1)
        found: Floats = torch.cat([p.detach().reshape(-1) for p in self._module.flat()]).numpy()
        return found

    def steps(self, count: int) -> None:
        """`step` count times."""
        torch.set_num_threads(1)
        for _ in range(count):
            self._adam.step()


def gae(reward: Tensor, value: Tensor, done: Tensor, bootstrap: Tensor, last: Tensor) -> Any:
    """Advantages and value targets [steps, rows], one vector operation after the other."""
    following, flowing = last, torch.zeros_like(last)
    advantages = []
    for step in range(len(reward) - 1, -1, -1):
        going = 1.0 - done[step]
        ahead = going * following + done[step] * bootstrap[step]
        delta = reward[step] + GAMMA * ahead - value[step]
        flowing = delta + GAMMA * LAMBDA * going * flowing
        advantages.append(flowing)
        following = value[step]
    found = torch.stack(advantages[::-1])
    return found, found + value


def vtrace(
    reward: Tensor, value: Tensor, done: Tensor, bootstrap: Tensor, last: Tensor, log_ratio: Tensor
) -> Any:
    """The same by V-trace."""
    ratio = torch.exp(log_ratio).clamp(max=1.0)
    following, correction = last, torch.zeros_like(last)
    advantages, targets = [], []
    for step in range(len(reward) - 1, -1, -1):
        going = 1.0 - done[step]
        ahead = going * following + done[step] * bootstrap[step]
        delta = reward[step] + GAMMA * ahead - value[step]
        flowing = GAMMA * LAMBDA * going * correction
        advantages.append(delta + flowing)
        correction = ratio[step] * (delta + flowing)
        targets.append(correction + value[step])
        following = value[step]
    return torch.stack(advantages[::-1]), torch.stack(targets[::-1])


def advantages(
    data: Trajectories, with_vtrace: bool, *, compiled: bool = False
) -> Callable[[], tuple[Floats, Floats]]:
    """A function that gives advantages and value targets [steps, rows], in one thread."""
    named = {name: torch.from_numpy(column) for name, column in data.columns.items()}
    columns = [named[name] for name in ("reward", "value", "done", "bootstrap")]
    columns.append(torch.from_numpy(data.last))
    if with_vtrace:
        columns.append(named["current"] - named["logp"])
    plain: Any = vtrace if with_vtrace else gae
    call = torch.compile(plain, dynamic=False) if compiled else plain

    def run() -> tuple[Floats, Floats]:
        torch.set_num_threads(1)
        with torch.no_grad():
            found = call(*columns)
        return found[0].numpy(), found[1].numpy()

    return run


def seconds_to_compile(run: Callable[[], object]) -> float:
    """Of the first call after everything that was compiled before is forgotten."""
    import torch._inductor.config as inductor

    torch._dynamo.reset()
    before, inductor.force_disable_caches = inductor.force_disable_caches, True
    try:
        started = time.perf_counter()
        run()
        return time.perf_counter() - started
    finally:
        inductor.force_disable_caches = before
