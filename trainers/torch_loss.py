"""The PPO loss in torch: the same, term by term, as csrc/arch/heads.c has it.

A row's loss is the clipped surrogate, times the row's weight where it has one,
+ value_coef * 0.5 (V - return)^2 - ent_coef * entropy; a minibatch's their mean.
Log-probabilities and entropies are sums over the action's elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .policy import Head

HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
FORBIDDEN = -1e30  # logit of a masked choice: its probability is exactly 0


@dataclass(frozen=True)
class LossOptions:
    """Clip ranges and weights of the loss's terms."""

    clip: float  # range of the probability ratio around 1
    vf_clip: float  # range of the value around the old one; 0: not clipped
    vf_coef: float
    weight_max: float = 1.0  # bound of the rows' weights, where they have a proximal policy


@dataclass(frozen=True)
class LossRows:
    """The rows of a minibatch, [R] each but for actions and mask."""

    actions: Tensor  # int32 [R, heads], floats by their bits
    mask: Tensor | None  # uint8 [R, mask_size]
    logp: Tensor  # of the behaviour policy
    value: Tensor  # of the behaviour policy
    advantage: Tensor  # as the loss uses it
    ret: Tensor  # value target
    # log-probabilities under the policy to which the ratio is taken; None: the behaviour policy
    proximal: Tensor | None = None


def logp_and_entropy(
    heads: Sequence[Head], outputs: Tensor, log_std: Tensor | None, actions: Tensor,
    mask: Tensor | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Of the actions under the policy with these outputs, [R] each, in nats."""
    logp, entropy = torch.zeros_like(outputs[:, 0]), torch.zeros_like(outputs[:, 0])
    column, number, masked = 0, 0, 0
    for k, head in enumerate(heads):
        if head.size:
            logits = outputs[:, column : column + head.size]
            if mask is not None:
                forbidden = mask[:, masked : masked + head.size] == 0
                logits = logits.masked_fill(forbidden, FORBIDDEN)
            own = torch.log_softmax(logits, dim=1)
            logp = logp + own.gather(1, actions[:, k : k + 1].long()).squeeze(1)
            entropy = entropy - (own.exp() * own).sum(1)
            masked += head.size
        else:
            assert log_std is not None
            spread = log_std[number]
            z = (actions[:, k].view(torch.float32) - outputs[:, column]) * torch.exp(-spread)
            logp = logp - 0.5 * z * z - (spread + HALF_LOG_2PI)
            entropy = entropy + (spread + HALF_LOG_2PI + 0.5)
            number += 1
        column += head.outputs
    return logp, entropy


def ppo_loss(
    options: LossOptions,
    rows: LossRows,
    logp: Tensor,
    entropy: Tensor,
    value: Tensor,
    ent_coef: float | Tensor,
) -> tuple[Tensor, Tensor]:
    """The mean loss, and detached sums over the rows [5]: policy loss, value loss, entropy, KL
    divergence ((ratio - 1) - log ratio), rows whose ratio left the clip range."""
    log_ratio = logp - (rows.logp if rows.proximal is None else rows.proximal)
    ratio = torch.exp(log_ratio)
    bounded = ratio.clamp(1.0 - options.clip, 1.0 + options.clip)
    policy = torch.maximum(-ratio * rows.advantage, -bounded * rows.advantage)
    if rows.proximal is not None:
        policy = policy * torch.exp(rows.proximal - rows.logp).clamp(max=options.weight_max)
    error = value - rows.ret
    squared = error * error
    if options.vf_clip > 0:
        step = (value - rows.value).clamp(-options.vf_clip, options.vf_clip)
        other = rows.value + step - rows.ret
        squared = torch.maximum(squared, other * other)
    value_loss = 0.5 * squared
    loss = (policy + options.vf_coef * value_loss - ent_coef * entropy).mean()
    with torch.no_grad():
        outside = (ratio > 1.0 + options.clip) | (ratio < 1.0 - options.clip)
        columns = (policy, value_loss, entropy, (ratio - 1.0) - log_ratio, outside.float())
        sums = torch.stack([column.sum(dtype=torch.float64) for column in columns])
    return loss, sums
