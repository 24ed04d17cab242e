"""PufferLib over our batches: its vectorisation and its trainer. Its wheel pins a torch of its own:
run this in a virtual environment that has headrace[pufferlib] and pytest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace
from headrace.engine.adapters import to_puffer

pytest.importorskip("pufferlib", reason="pufferlib-core is not installed")

HORIZON, ROWS, UPDATES = 32, 64, 25
SETTINGS = {
    "seed": 1, "torch_deterministic": True, "batch_size": "auto", "bptt_horizon": HORIZON,
    "device": "cpu", "cpu_offload": False, "use_rnn": False, "minibatch_size": HORIZON * ROWS,
    "max_minibatch_size": HORIZON * ROWS, "update_epochs": 4, "compile": False,
    "optimizer": "adam", "learning_rate": 1e-2, "adam_beta1": 0.9, "adam_beta2": 0.999,
    "adam_eps": 1e-5, "total_timesteps": UPDATES * HORIZON * ROWS, "precision": "float32",
    "anneal_lr": True, "gamma": 0.98, "gae_lambda": 0.9, "vtrace_rho_clip": 1.0,
    "vtrace_c_clip": 1.0, "prio_alpha": 0.0, "prio_beta0": 1.0, "clip_coef": 0.2,
    "vf_clip_coef": 0.2, "vf_coef": 0.5, "max_grad_norm": 0.5, "ent_coef": 0.0, "env": "headrace",
    "checkpoint_interval": 10**6, "norm_adv": True, "use_p3o": False, "dashboard": False,
    "name": "test", "project": "test", "group": "test",
}  # fmt: skip


def make(buf: Any = None, seed: int = 0) -> Any:
    vec = headrace.make_vec("cartpole", ROWS, autoreset_mode="SameStep", copy=False, seed=seed)
    return to_puffer(vec, buf)


def test_its_vectorisation_steps_ours() -> None:
    import pufferlib.vector

    vec = pufferlib.vector.make(make, num_envs=2, backend=pufferlib.vector.Serial)
    obs, _ = vec.reset(seed=1)
    reference = headrace.make_vec("cartpole", ROWS, autoreset_mode="SameStep")
    expected, _ = reference.reset(seed=1)
    for _ in range(60):
        assert np.array_equal(obs[:ROWS], expected)
        actions = vec.action_space.sample()
        obs, rewards, terminals, _, infos = vec.step(actions)
        expected, _, terminated, _, _ = reference.step(actions[:ROWS].astype(np.int64))
        assert np.array_equal(terminals[:ROWS], terminated)
        assert (rewards == 1).all()
    assert any("episode_return" in info for info in infos) or not terminals.any()
    vec.close()
    reference.close()


def test_its_trainer_trains_on_ours(tmp_path: Path) -> None:
    import pufferlib.models
    import pufferlib.pufferl
    import pufferlib.vector

    vec = pufferlib.vector.make(make, num_envs=1, backend=pufferlib.vector.Serial)
    policy = pufferlib.models.Default(vec.driver_env, hidden_size=64)
    trainer = pufferlib.pufferl.PuffeRL({**SETTINGS, "data_dir": str(tmp_path)}, vec, policy)
    means = []
    for _ in range(UPDATES):
        trainer.evaluate()
        if trainer.stats["episode_return"]:
            means.append(float(np.mean(trainer.stats["episode_return"])))
        trainer.train()
    assert means[-1] > 2 * means[0]
    vec.close()
