"""Optimisers of torch policies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..engine.errors import ArgumentError
from ._native import adam

OPTIMIZERS = ("adam", "muon")


class Flat:
    """Parameters of one dtype as parts of one vector, their gradients as parts of another, so that
    norm, clipping and Adam are one operation each, however many layers there are.

    Attributes: whole: the vector, a parameter; gradient: its `grad`.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], places: Sequence[int]) -> None:
        """Moves the parameters' numbers into the vector; places: theirs in what `take` gets."""
        self._parameters, self._places = parameters, places
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

    def take(self, gradients: Sequence[Tensor]) -> None:
        """Puts the gradients where the parameters and the optimiser find them."""
        torch.cat([gradients[k].reshape(-1) for k in self._places], out=self.gradient)
        for parameter, part in zip(self._parameters, self._gradients, strict=True):
            if parameter.grad is not part:
                parameter.grad = part


def flattened(parameters: Iterable[nn.Parameter]) -> list[Flat]:
    """One vector for each dtype among the parameters, whose gradients are given in this order."""
    by_type: dict[torch.dtype, list[tuple[nn.Parameter, int]]] = {}
    for place, parameter in enumerate(parameters):
        by_type.setdefault(parameter.dtype, []).append((parameter, place))
    return [Flat(*zip(*group, strict=True)) for group in by_type.values()]


class FlatAdam:
    """torch.optim.Adam of vectors, float32 on the CPU, by the native kernel: what torch does around
    a step takes longer than the step of a small network. Its state is kept as torch keeps it."""

    def __init__(self, flats: Sequence[Flat], betas: tuple[float, float], eps: float) -> None:
        self.param_groups: list[dict[str, Any]] = [{"lr": 0.0, "betas": betas, "eps": eps}]
        self._flats = flats
        self._state: dict[int, dict[str, Any]] = {
            at: {
                "step": 0.0,
                "exp_avg": torch.zeros_like(flat.gradient),
                "exp_avg_sq": torch.zeros_like(flat.gradient),
            }
            for at, flat in enumerate(flats)
        }

    def step(self) -> None:
        """One step by the vectors' gradients."""
        group = self.param_groups[0]
        for flat, state in zip(self._flats, self._state.values(), strict=True):
            state["step"] += 1.0
            adam(
                flat.whole.detach().numpy(),
                flat.gradient.numpy(),
                state["exp_avg"].numpy(),
                state["exp_avg_sq"].numpy(),
                state["step"],
                group["lr"],
                group["betas"],
                group["eps"],
            )

    def state_dict(self) -> dict[str, Any]:
        """As torch.optim.Adam's."""
        return {"state": self._state, "param_groups": self.param_groups}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues where `state_dict` was taken; from the beginning where that is empty."""
        for at, own in self._state.items():
            saved = state["state"].get(at, {})
            own["step"] = float(saved.get("step", 0.0))
            for name in ("exp_avg", "exp_avg_sq"):
                own[name] = torch.zeros_like(own[name])
                if name in saved:
                    own[name].copy_(saved[name])


def make_optimizers(
    parameters: Mapping[str, nn.Parameter],
    flats: Sequence[Flat],
    name: str,
    betas: tuple[float, float],
    eps: float,
) -> list[Any]:
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
        owners = {n: n.rpartition(".")[0].rpartition(".")[2] for n in matrices}
        hidden = [n for n in matrices[1:] if owners[n] not in ("policy", "value")]
    wholes = [flat.whole for flat in flats]
    if not hidden and all(w.device.type == "cpu" and w.dtype == torch.float32 for w in wholes):
        return [FlatAdam(flats, betas, eps)]
    rest = [p for n, p in parameters.items() if n not in hidden] if hidden else wholes
    fused = all(p.device.type in ("cpu", "cuda") for p in rest)
    found: list[Any] = [torch.optim.Adam(rest, betas=betas, eps=eps, fused=fused)]
    if hidden:
        chosen = [parameters[n] for n in hidden]
        found.append(torch.optim.Muon(chosen, weight_decay=0.0, adjust_lr_fn="match_rms_adamw"))
    return found
