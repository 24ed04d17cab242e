"""What is done about rows of older weights, for torch policies: as csrc/learn.c does it.

The *current* policy is that of the weights at the start of an update; hr_correction in
csrc/learn.h says what each correction makes of it, docs/async.md what that is good for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..engine.errors import ArgumentError
from ._native import CORRECTIONS, aligned
from .learner import C_MAX, RHO_MAX, WEIGHT_MAX
from .rollout import SteppedRollout
from .torch_data import RolloutData
from .torch_device import acting_mode
from .torch_loss import logp_and_entropy

SAMPLED = 8  # one unit of rows in so many tells the sample size that clip has (HR_SAMPLED)


class LagCorrection:
    """Makes of a rollout's rows what the loss is to take for them.

    Attributes:
        weight_max: bound of the rows' weights in the loss.
    """

    def __init__(
        self,
        policy: Any,
        forward: Callable[..., tuple[Tensor, Tensor]],
        correction: str,
        gamma: float,
        gae_lambda: float,
    ) -> None:
        """policy: a TorchPolicy; forward: see LossGradient; gamma, gae_lambda: of V-trace.

        Raises:
            ArgumentError: an unknown correction.
        """
        if correction not in CORRECTIONS:
            raise ArgumentError(
                f"correction is {correction!r}: expected one of {', '.join(CORRECTIONS)}"
            )
        self._policy, self._forward, self._correction = policy, forward, correction
        self._gamma, self._lambda = gamma, gae_lambda
        self.weight_max = RHO_MAX if correction == "vtrace" else WEIGHT_MAX

    def __call__(self, data: RolloutData, rollout: SteppedRollout, parts: int) -> float:
        """Corrects the data of a rollout in which rows lag; its effective sample size, a share.

        parts: in how many the rows go through the module.
        """
        clip = self._correction == "clip"
        current, places = self._current(data, rollout, parts, SAMPLED if clip else 1)
        if self._correction == "none":
            data.put("logp", current)
        elif not clip:
            data.put("proximal", current)
        if self._correction == "vtrace":
            rollout.estimate(
                self._gamma,
                self._lambda,
                current=current.reshape(rollout.logp.shape),
                rho_max=RHO_MAX,
                c_max=C_MAX,
            )
            data.put_advantages()
        return effective_share(current[places] - rollout.flat["logp"][places])

    def _current(
        self, data: RolloutData, rollout: SteppedRollout, parts: int, stride: int
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Log-probabilities under the current policy, float32 [places], and the places for which
        they were computed: all valid ones of one unit in `stride`."""
        current = aligned(len(rollout.raw), np.float32)
        current[:] = rollout.flat["logp"]
        found, module = [np.zeros(0, np.int64)], self._policy.module
        with torch.no_grad(), acting_mode(module):
            for inputs, actions, mask, places in data.survey(parts, stride):
                outputs, _ = self._forward(*inputs)
                log_std = self._policy.log_std
                logp, _ = logp_and_entropy(self._policy.heads, outputs, log_std, actions, mask)
                current[places] = logp.cpu().numpy()
                found.append(places)
        return current, np.concatenate(found)


def effective_share(log_weights: NDArray[np.float32]) -> float:
    """(sum of weights)^2 / (rows * sum of their squares)."""
    if not len(log_weights):
        return 1.0
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        weights = np.exp(log_weights.astype(np.float64))
        share = float(weights.sum() ** 2 / (len(weights) * (weights**2).sum()))
    return share if np.isfinite(share) else 0.0
