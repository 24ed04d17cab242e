"""Optimisers of torch policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import nn

from ..engine.errors import ArgumentError

OPTIMIZERS = ("adam", "muon")


def make_optimizers(
    parameters: Mapping[str, nn.Parameter], name: str, betas: tuple[float, float], eps: float
) -> list[torch.optim.Optimizer]:
    """Adam for all; or Muon for the matrices between the first and the last layers.

    Raises:
        ArgumentError: an unknown name, or a torch without Muon.
    """
    if name not in OPTIMIZERS:
        raise ArgumentError(f"optimizer is {name!r}: expected {' or '.join(OPTIMIZERS)}")
    hidden: Sequence[str] = []
    if name == "muon":
        if not hasattr(torch.optim, "Muon"):
            raise ArgumentError(
                f"optimizer is 'muon', which torch {torch.__version__} has not: use torch 2.9 or "
                "newer, or 'adam'"
            )
        matrices = [n for n, p in parameters.items() if p.dim() == 2]
        hidden = [n for n in matrices[1:] if n.split(".")[-2] not in ("policy", "value")]
    rest = [p for n, p in parameters.items() if n not in hidden]
    fused = all(p.device.type in ("cpu", "cuda") for p in rest)
    found: list[torch.optim.Optimizer] = [torch.optim.Adam(rest, betas=betas, eps=eps, fused=fused)]
    if hidden:
        chosen = [parameters[n] for n in hidden]
        found.append(torch.optim.Muon(chosen, weight_decay=0.0, adjust_lr_fn="match_rms_adamw"))
    return found
