"""PufferLib (pufferlib-core): its trainer PuffeRL, and its Multiprocessing of Gymnasium's CartPole.

The wheel holds no environments, so that PuffeRL gets a PufferEnv of ours: CartPole in NumPy, all
rows at once, in float32. It takes a few per cent of the training's time.
"""

from __future__ import annotations

import functools
import sys
import tempfile
from typing import Any

import gymnasium
import numpy as np
import pufferlib
import pufferlib.emulation
import pufferlib.models
import pufferlib.pufferl
import pufferlib.vector
import torch

from ...batches import ACTION_BATCHES, Array, Batch, stepper, transitions_per_row
from .protocol import RECORDED_ENVS, STEP, TRAIN_128, VEC, VEC_ENVS, Case, Running, serve

PUFFERLIB = "PufferLib"
X_LIMIT, THETA_LIMIT, MAX_STEPS = 2.4, 12 * 2 * np.pi / 360, 500
GRAVITY, FORCE, TAU, LENGTH = 9.8, 10.0, 0.02, 0.5
POLE_MASS, TOTAL_MASS = 0.1, 1.1


class NumpyCartPole(pufferlib.PufferEnv):
    """`num_envs` CartPoles; rows that ended begin anew within the step."""

    def __init__(self, num_envs: int, buf: Any = None, seed: int | None = 0) -> None:
        high = np.array([4.8, np.inf, 0.42, np.inf], np.float32)
        self.single_observation_space = gymnasium.spaces.Box(-high, high)
        self.single_action_space = gymnasium.spaces.Discrete(2)
        self.num_agents = num_envs
        super().__init__(buf)
        self._rng = np.random.default_rng(seed)
        self._state = np.zeros((4, num_envs), np.float32)
        self._steps = np.zeros(num_envs, np.int32)
        self.ended = np.zeros(2)  # sum of the lengths of episodes that ended, how many

    def reset(self, seed: int | None = None) -> Any:
        """See PufferEnv."""
        self._rng = np.random.default_rng(seed)
        self._begin(np.ones(self.num_agents, bool))
        self.observations[:] = self._state.T
        return self.observations, []

    def step(self, actions: Array) -> Any:
        """See PufferEnv."""
        x, x_dot, theta, theta_dot = self._state
        force = np.where(actions.reshape(-1) == 1, np.float32(FORCE), np.float32(-FORCE))
        sin, cos = np.sin(theta), np.cos(theta)
        push = (force + POLE_MASS * LENGTH * theta_dot**2 * sin) / TOTAL_MASS
        turn = (GRAVITY * sin - cos * push) / (
            LENGTH * (4.0 / 3.0 - POLE_MASS * cos**2 / TOTAL_MASS)
        )
        pull = push - POLE_MASS * LENGTH * turn * cos / TOTAL_MASS
        self._state[:] = (
            x + TAU * x_dot, x_dot + TAU * pull, theta + TAU * theta_dot, theta_dot + TAU * turn
        )  # fmt: skip
        self._steps += 1
        self.rewards[:] = 1.0
        self.terminals[:] = (abs(self._state[0]) > X_LIMIT) | (abs(self._state[2]) > THETA_LIMIT)
        self.truncations[:] = (self._steps >= MAX_STEPS) & ~self.terminals
        over = self.terminals | self.truncations
        if over.any():
            self.ended += self._steps[over].sum(), over.sum()
            self._begin(over)
        self.observations[:] = self._state.T
        return self.observations, self.rewards, self.terminals, self.truncations, []

    def _begin(self, rows: Array) -> None:
        self._state[:, rows] = self._rng.uniform(-0.05, 0.05, (4, int(rows.sum())))
        self._steps[rows] = 0

    def close(self) -> None:
        """Nothing to close."""


class Quiet(pufferlib.pufferl.PuffeRL):
    """PuffeRL without its dashboard and its checkpoints."""

    def print_dashboard(self, *_: Any, **__: Any) -> None:
        """Draws nothing."""

    def save_checkpoint(self) -> str:
        """Saves nothing."""
        return ""


def _config(num_envs: int, horizon: int, minibatches: int, epochs: int) -> dict[str, Any]:
    """PufferLib's usual settings, but Adam, and a rate at which CartPole is learnt."""
    batch = num_envs * horizon
    return {
        "seed": 0, "torch_deterministic": False, "cpu_offload": False, "device": "cpu",
        "precision": "float32", "compile": False, "compile_mode": "default",
        "compile_fullgraph": True, "use_rnn": False, "optimizer": "adam", "anneal_lr": False,
        "total_timesteps": 10**12, "learning_rate": 1e-2, "gamma": 0.99, "gae_lambda": 0.95,
        "update_epochs": epochs, "clip_coef": 0.2, "vf_coef": 0.5, "vf_clip_coef": 0.2,
        "max_grad_norm": 0.5, "ent_coef": 0.005, "adam_beta1": 0.9, "adam_beta2": 0.999,
        "adam_eps": 1e-8, "data_dir": tempfile.gettempdir(), "checkpoint_interval": 10**9,
        "batch_size": batch, "minibatch_size": batch // minibatches,
        "max_minibatch_size": batch // minibatches, "bptt_horizon": horizon,
        "vtrace_rho_clip": 1.0, "vtrace_c_clip": 1.0, "prio_alpha": 0.8, "prio_beta0": 0.2,
        "env": "cartpole",
    }  # fmt: skip


def training(num_envs: int, horizon: int, minibatches: int, threads: int) -> Case:
    """PuffeRL with its default policy, 1×128."""

    def make() -> Running:
        env = NumpyCartPole(num_envs)
        policy = pufferlib.models.Default(env, hidden_size=128)
        trainer = Quiet(_config(num_envs, horizon, minibatches, 1), env, policy)

        def run(count: int) -> None:
            env.ended[:] = 0
            torch.set_num_threads(threads)
            for _ in range(count):
                trainer.evaluate()
                trainer.train()

        def score() -> tuple[float | None, int]:
            length, episodes = env.ended
            return (float(length / episodes) if episodes else None), int(trainer.global_step)

        return Running(num_envs * horizon, run, score, trainer.utilization.stop)

    text = (
        f"128, {num_envs} environments × {horizon} steps, {minibatches} minibatches, 1 epochs, "
        f"{threads} threads"
    )
    name = f"train-128-{num_envs}-{horizon}-{minibatches}-{threads}"
    return Case(name, TRAIN_128, PUFFERLIB, text, threads, make)


def stepping(num_envs: int) -> Case:
    """Gymnasium's CartPole as PufferLib wraps and batches it in one process."""

    def make() -> Running:
        creator = functools.partial(
            pufferlib.emulation.GymnasiumPufferEnv,
            env_creator=functools.partial(gymnasium.make, "CartPole-v1"),
        )
        vec = pufferlib.vector.make(creator, num_envs=num_envs, backend=pufferlib.vector.Serial)
        vec.async_reset(0)
        rng = np.random.default_rng(1)
        actions = [rng.integers(0, 2, num_envs).astype(np.int32) for _ in range(ACTION_BATCHES)]

        def run(count: int) -> None:
            for index in range(count):
                vec.recv()
                vec.send(actions[index % ACTION_BATCHES])

        # a reset takes a row of its own, after about 22 steps of random actions
        return Running(num_envs * 22 / 23, run, close=vec.close)

    text = f"Gymnasium's CartPole in its Serial, {num_envs} environments"
    return Case(f"step-{num_envs}", STEP, PUFFERLIB, text, 1, make)


def vectorised(workers: int) -> Case:
    """Gymnasium's CartPole in PufferLib's Multiprocessing, on `workers` processes."""

    def make_vec() -> Any:
        return pufferlib.vector.make(
            _python_cartpole,
            num_envs=VEC_ENVS,
            num_workers=workers,
            batch_size=VEC_ENVS,
            backend=pufferlib.vector.Multiprocessing,
        )

    batch = Batch("step", PUFFERLIB, VEC_ENVS, workers, make_vec)

    def make() -> Running:
        env = make_vec()
        env.reset(seed=0)
        share = transitions_per_row(env, batch, steps=100)
        return Running(share * VEC_ENVS, stepper(env, batch), close=env.close)

    text = f"{VEC_ENVS} environments, {workers} processes"
    return Case(VEC, VEC, f"{PUFFERLIB} Multiprocessing", text, workers, make, recorded=batch)


def _python_cartpole(buf: Any = None, seed: int = 0) -> Any:
    """Of Gymnasium, without its checker of the first step, which slows every later one."""
    creator = functools.partial(gymnasium.make, "CartPole-v1", disable_env_checker=True)
    return pufferlib.emulation.GymnasiumPufferEnv(env_creator=creator, buf=buf, seed=seed)


def cases(cores: int) -> list[Case]:
    """Trainings by size, and stepping."""
    sizes = ((1024, 4), (2048, 4), (4096, 4), (8192, 8))
    trains = [training(num_envs, 32, minibatches, cores) for num_envs, minibatches in sizes]
    return [stepping(64), vectorised(cores), *trains]


if __name__ == "__main__":
    BATCH = Batch(
        "recorded", "PufferLib", RECORDED_ENVS, 1, functools.partial(NumpyCartPole, RECORDED_ENVS),
        next_step=False,
    )  # fmt: skip
    serve(("pufferlib-core", "torch", "gymnasium", "numpy"), BATCH, cases(int(sys.argv[1])))
