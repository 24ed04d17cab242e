"""The gradient of the PPO loss by a module's parameters.

On the CPU the native kernel takes the module's outputs and gives the loss and its gradient by them,
so that torch does the module's forward and backward and nothing else. Elsewhere the loss of
torch_loss.py stands behind the module. Tests hold both to each other.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.linalg import vector_norm

from ._native import loss_gradient
from .torch_device import Recorded, Recorder
from .torch_loss import LossOptions, LossRows, logp_and_entropy, ppo_loss
from .torch_optim import flattened

Forward = Callable[..., tuple[Tensor, Tensor]]  # of inputs: outputs [R, outputs], values [R]


class Gradient(NamedTuple):
    """What a minibatch came to; the gradient itself is in the parameters."""

    sums: NDArray[np.float64]  # [5], of LearnStats, over the rows
    norm: float  # of the gradient before it was clipped


class LossGradient:
    """Puts the clipped gradient of minibatches into the parameters of a policy's module."""

    def __init__(
        self,
        policy: Any,
        forward: Forward,
        options: LossOptions,
        max_grad_norm: float,
        record: Recorder | None = None,
    ) -> None:
        """Arguments:

        policy: a TorchPolicy.
        forward: the module's outputs and values from a minibatch's inputs.
        options: clip ranges and weights; the entropy's is given with each minibatch.
        max_grad_norm: 0: never clipped.
        record: see torch_device.
        """
        self._policy, self._forward, self._options = policy, forward, options
        self._limit = max_grad_norm if max_grad_norm > 0 else float("inf")
        named: Mapping[str, nn.Parameter] = dict(policy.module.named_parameters())
        self._parameters = [p for p in named.values() if p.requires_grad]
        self.flats = flattened(self._parameters)
        self._log_std = policy.log_std
        self._native = policy.device.type == "cpu"
        self._whole = Recorded(self._by_torch, record)

    def __call__(self, inputs: tuple[Tensor, ...], rows: LossRows, ent_coef: float) -> Gradient:
        """Of one minibatch: what `forward` takes, and the rows that come of it."""
        if self._native:
            sums, grads = self._by_kernel(inputs, rows, ent_coef)
            self._take(grads)
            norm = math.hypot(*(float(vector_norm(flat.gradient)) for flat in self.flats))
            if norm > self._limit:
                for flat in self.flats:
                    flat.gradient.mul_(self._limit / (norm + 1e-6))
        else:
            if rows.proximal is None:  # weights of 1, so that all are the same computation
                rows = dataclasses.replace(rows, proximal=rows.logp)
            columns = [c for c in vars(rows).values() if c is not None]
            weight = torch.tensor(ent_coef, device=self._policy.device)
            found, length, *grads = self._whole(*inputs, *columns, weight)
            sums, norm = found.cpu().numpy(), float(length)
            self._take(grads)
        return Gradient(sums, norm)

    def _take(self, grads: list[Tensor]) -> None:
        for flat in self.flats:
            flat.take(grads)

    def _by_kernel(
        self, inputs: tuple[Tensor, ...], rows: LossRows, ent_coef: float
    ) -> tuple[NDArray[np.float64], list[Tensor]]:
        outputs, value = self._forward(*inputs)
        found = loss_gradient(
            self._policy.net,
            self._numbers(),
            _array(outputs),
            _array(value),
            *(None if c is None else _array(c) for c in vars(rows).values()),
            clip=self._options.clip,
            value_clip=self._options.vf_clip,
            value_coef=self._options.vf_coef,
            entropy_coef=ent_coef,
            weight_max=self._options.weight_max,
        )
        by_outputs, by_value, by_log_std = (torch.from_numpy(array) for array in found[:3])
        grads = self._backward([(outputs, by_outputs), (value, by_value)])
        for k, parameter in enumerate(self._parameters):
            if parameter is self._log_std:
                grads[k] = grads[k] + by_log_std
        return found[3], grads

    def _backward(self, results: list[tuple[Tensor, Tensor]]) -> list[Tensor]:
        """Gradients by the parameters, given those by results."""
        live = [pair for pair in results if pair[0].requires_grad]
        if not live:
            return [torch.zeros_like(p) for p in self._parameters]
        tops, given = zip(*live, strict=True)
        found = torch.autograd.grad(tops, self._parameters, given, allow_unused=True)
        return [
            torch.zeros_like(p) if g is None else g
            for g, p in zip(found, self._parameters, strict=True)
        ]

    def _numbers(self) -> NDArray[np.float32]:
        """The log deviations, as the kernel reads them."""
        if self._log_std is None:
            return np.zeros(0, np.float32)
        return _array(self._log_std.float())

    def _by_torch(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """(sums, norm, clipped gradients) of inputs, columns of the rows and the entropy's
        weight."""
        masked = bool(self._policy.env.mask_size)
        count = len(dataclasses.fields(LossRows)) - (not masked)
        inputs, columns, weight = tensors[: -count - 1], tensors[-count - 1 : -1], tensors[-1]
        rows = LossRows(*columns) if masked else LossRows(columns[0], None, *columns[1:])
        outputs, value = self._forward(*inputs)
        heads = self._policy.heads
        logp, entropy = logp_and_entropy(heads, outputs, self._log_std, rows.actions, rows.mask)
        loss, sums = ppo_loss(self._options, rows, logp, entropy, value, weight)
        grads = self._backward([(loss, torch.ones_like(loss))])
        norm = vector_norm(torch.cat([g.reshape(-1) for g in grads]))
        scale = (self._limit / (norm + 1e-6)).clamp(max=1.0)
        return (sums, norm, *(g * scale for g in grads))


def _array(tensor: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = tensor.detach().contiguous().numpy()
    return array
