"""PufferLib's CartPole in C, which only its source distribution has."""

from __future__ import annotations

import sys

from ...batches import pufferlib, stepper
from .protocol import RECORDED_ENVS, STEP, Case, Running, serve


def stepping(num_envs: int) -> Case:
    """One process, as PufferLib steps it natively."""

    def make() -> Running:
        batch = pufferlib(num_envs)
        env = batch.make()
        env.reset()
        return Running(num_envs, stepper(env, batch), close=env.close)

    return Case(f"step-{num_envs}", STEP, "PufferLib C env", f"{num_envs} environments", 1, make)


if __name__ == "__main__":
    serve(("pufferlib",), pufferlib(RECORDED_ENVS), [stepping(n) for n in (1024, 4096, 16384)])
    sys.exit(0)
