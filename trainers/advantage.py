"""Advantages over arrays [steps, rows]: generalised advantage estimation and V-trace."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _native


def gae(
    reward: ArrayLike,
    value: ArrayLike,
    done: ArrayLike,
    last_value: ArrayLike,
    *,
    gamma: float,
    gae_lambda: float,
    bootstrap: ArrayLike | None = None,
    valid: ArrayLike | None = None,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Advantages and value targets, both float32 [steps, rows] (Schulman et al. 2016).

    Args:
        reward: of each step, [steps, rows]; likewise:
        value: V(observation) that the step started from.
        done: not 0 where the step ended an episode.
        last_value: V(observation) after the last step, [rows].
        gamma, gae_lambda: discount, and decay of the estimator.
        bootstrap: V(final observation) where an episode was cut, 0 where it ended by itself;
            read only where `done` is set. Default 0.
        valid: 0 for rows that were no transition: they get 0, and are stepped over. Default 1.
    """
    arrays = _Padded(reward, value, done, last_value, bootstrap, valid)
    return arrays.cut(_native.gae(*arrays.columns, gamma, gae_lambda))


def vtrace(
    reward: ArrayLike,
    value: ArrayLike,
    done: ArrayLike,
    last_value: ArrayLike,
    logp: ArrayLike,
    current: ArrayLike,
    *,
    gamma: float,
    gae_lambda: float,
    rho_max: float = 1.0,
    c_max: float = 1.0,
    bootstrap: ArrayLike | None = None,
    valid: ArrayLike | None = None,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Advantages and value targets by V-trace (Espeholt et al. 2018), weighted by lambda.

    With ratio = exp(current - logp), rho = min(rho_max, ratio), c = lambda min(c_max, ratio) and
    delta = reward + gamma V' - V, the target v is V + rho delta + gamma c (v' - V'), and the
    advantage is delta + gamma lambda (v' - V'): what `gae` gives where both policies agree.

    Args:
        logp, current: log-probabilities of the actions under the policy that acted and under
            the one that learns, [steps, rows].
        rho_max, c_max: bounds of the ratios.

    The other arguments are those of `gae`.
    """
    arrays = _Padded(reward, value, done, last_value, bootstrap, valid)
    found = _native.gae(
        *arrays.columns,
        gamma,
        gae_lambda,
        logp=arrays.padded(logp, arrays.shape, "logp"),
        current=arrays.padded(current, arrays.shape, "current"),
        rho_max=rho_max,
        c_max=c_max,
    )
    return arrays.cut(found)


class _Padded:
    """The arguments as the kernel takes them: float32, rows padded to whole tiles."""

    def __init__(
        self,
        reward: ArrayLike,
        value: ArrayLike,
        done: ArrayLike,
        last_value: ArrayLike,
        bootstrap: ArrayLike | None,
        valid: ArrayLike | None,
    ) -> None:
        reward = np.asarray(reward, np.float32)
        self.shape = reward.shape
        self.rows = reward.shape[1]
        self._width = -(-self.rows // _native.TILE) * _native.TILE
        self.columns = (
            self.padded(reward, self.shape, "reward"),
            self.padded(value, self.shape, "value"),
            self.padded(done, self.shape, "done"),
            self.padded(
                np.zeros(self.shape) if bootstrap is None else bootstrap, self.shape, "bootstrap"
            ),
            self.padded(np.ones(self.shape) if valid is None else valid, self.shape, "valid"),
            self.padded(last_value, (self.rows,), "last_value"),
        )

    def padded(self, array: ArrayLike, shape: tuple[int, ...], name: str) -> NDArray[np.float32]:
        """The array checked and padded; ValueError for another shape."""
        given = np.asarray(array, np.float32)
        if given.shape != shape:
            raise ValueError(f"{name} has shape {given.shape}: expected {shape}")
        block: NDArray[np.float32] = _native.aligned((*shape[:-1], self._width), np.float32)
        block[..., : self.rows] = given
        return block

    def cut(
        self, pair: tuple[NDArray[np.float32], NDArray[np.float32]]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Both results without the padding."""
        return pair[0][:, : self.rows], pair[1][:, : self.rows]
