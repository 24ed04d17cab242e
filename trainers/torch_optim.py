"""Optimisers of torch policies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn

from ..engine.errors import ArgumentError

OPTIMIZERS = ("adam", "muon")


class Flat:
    """Parameters of one dtype as parts of one vector, their gradients as parts of another, so that
    norm, clipping and Adam are one operation each, however many layers there are.

    Attributes: whole: the vector, a parameter; gradient: its `grad`.
    """

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        """Moves the parameters' numbers into the vector."""
        self._parameters = parameters
        with torch.no_grad():
            self.whole = nn.Parameter(torch.cat([p.detach().reshape(-1) for p in parameters]))
            self.gradient = torch.zeros_like(self.whole)
        self.whole.grad = self.gradient
        for parameter, part in zip(parameters, self._parts(self.whole.detach()), strict=True):
            parameter.data = part
        self._gradients = self._parts(self.gradient)

    def _parts(self, vector: Tensor) -> list[Tensor]:
        pieces = vector.split([p.numel() for p in self._parameters])
        return [v.view(p.shape) for v, p in zip(pieces, self._parameters, strict=True)]

    def take(self, gradients: Mapping[nn.Parameter, Tensor]) -> None:
        """Puts the gradients where the parameters and the optimiser find them."""
        own = [gradients[p].reshape(-1) for p in self._parameters]
        torch.cat(own, out=self.gradient)
        for parameter, part in zip(self._parameters, self._gradients, strict=True):
            parameter.grad = part


def flattened(parameters: Iterable[nn.Parameter]) -> list[Flat]:
    """One vector for each dtype among the parameters."""
    by_type: dict[torch.dtype, list[nn.Parameter]] = {}
    for parameter in parameters:
        by_type.setdefault(parameter.dtype, []).append(parameter)
    return [Flat(group) for group in by_type.values()]


def make_optimizers(
    parameters: Mapping[str, nn.Parameter],
    flats: Sequence[Flat],
    name: str,
    betas: tuple[float, float],
    eps: float,
) -> list[torch.optim.Optimizer]:
    """Adam for all; or Muon for the matrices between the first and the last layers.

    flats: of the parameters that are trained.

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
    rest: list[nn.Parameter] = [flat.whole for flat in flats]
    if hidden:
        rest = [p for n, p in parameters.items() if n not in hidden]
    fused = all(p.device.type in ("cpu", "cuda") for p in rest)
    found: list[torch.optim.Optimizer] = [torch.optim.Adam(rest, betas=betas, eps=eps, fused=fused)]
    if hidden:
        chosen = [parameters[n] for n in hidden]
        found.append(torch.optim.Muon(chosen, weight_decay=0.0, adjust_lr_fn="match_rms_adamw"))
    return found
