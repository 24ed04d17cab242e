"""Torch policies from end to end: training, files of a user's, resuming, evaluating."""

from pathlib import Path

import gymnasium
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import headrace  # noqa: E402
from headrace.trainers.config import TrainConfig  # noqa: E402
from headrace.trainers.evaluate import evaluate  # noqa: E402
from headrace.trainers.parts import torch_policy  # noqa: E402
from headrace.trainers.run import Run, RunError  # noqa: E402
from headrace.trainers.settings import ConfigError  # noqa: E402

WORLDS = Path(__file__).parent / "worlds"
NET = """
import torch
from headrace import nn

class Net(torch.nn.Module):
    def __init__(self, observation_space, action_space):
        super().__init__()
        self.hidden = nn.orthogonal(torch.nn.Linear(nn.input_size(observation_space), 24))
        self.heads = nn.Heads(24, action_space)

    def forward(self, obs):
        return self.heads(torch.tanh(self.hidden(obs.flatten(1))))
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def weights(run):
    run = Run.open(run)
    return run.load_policy(run.latest())


def test_cartpole_is_solved_and_played():
    result = headrace.train("cartpole", policy="torch", seed=1)
    assert result.solved
    played = evaluate(result.run, episodes=20)
    assert played.return_mean >= 475
    native = headrace.train("cartpole", seed=1, steps=result.solved_steps, run_dir="native")
    assert set(weights(native.run)) == set(weights(result.run))  # either could load the other


def test_a_resumed_run_equals_one_that_was_not():
    settings = {
        "policy": "torch",
        "seed": 2,
        "threads": 1,
        "lr_schedule": "constant",
        "target": None,
    }
    whole = headrace.train("cartpole", steps=40_000, run_dir="whole", **settings)
    part = headrace.train("cartpole", steps=16_000, run_dir="part", **settings)
    headrace.train(resume=part.run, steps=40_000)
    one, other = weights(whole.run), weights(part.run)
    assert all(np.array_equal(one[name], other[name]) for name in one)


def test_a_net_of_a_file_trains_and_must_be_named_again(tmp_path):
    Path("net.py").write_text(NET)
    result = headrace.train("cartpole", policy="net.py:Net", steps=20_000, run_dir="r")
    assert set(weights(result.run)) >= {"hidden.weight", "heads.policy.weight"}
    saved = f"{tmp_path.resolve() / 'net.py'}:Net"
    assert Run.open("r").read_config()[0].policy == saved
    with pytest.raises(ConfigError, match="opening a run executes none: name it again"):
        evaluate("r")
    with pytest.raises(ConfigError, match="name it again"):
        headrace.train(resume="r", steps=30_000)
    with pytest.raises(ConfigError, match="is not this run's"):
        evaluate("r", policy="native")
    assert evaluate("r", policy="net.py:Net", episodes=5).episodes == 5
    assert headrace.train(resume="r", policy="net.py:Net", steps=30_000).steps >= 30_000


def test_a_module_object_trains_and_must_be_given_again():
    module = torch.nn.Linear(4, 3)
    module.forward = lambda obs: (obs[:, :2] * module.weight[0, 0], obs[:, 0] + module.bias[0])
    headrace.train("cartpole", policy=module, steps=3_000, run_dir="r")
    with pytest.raises(ConfigError, match=r"name it again, with policy=\.\.\."):
        evaluate("r")
    assert evaluate("r", policy=module, episodes=3).episodes == 3


def test_the_encoder_is_of_pictures():
    def picture():
        return gymnasium.wrappers.TransformObservation(
            gymnasium.make("CartPole-v1"),
            lambda obs: np.full((3, 40, 36), abs(obs[0]) * 99, np.uint8),
            gymnasium.spaces.Box(0, 255, (3, 40, 36), np.uint8),
        )

    few = {"policy": "torch", "steps": 32, "num_envs": 2, "horizon": 8, "threads": 1}
    layers = {}
    for encoder in ("nature", "small", "resnet", "flat"):
        run = headrace.train(picture, encoder=encoder, run_dir=encoder, **few).run
        named = weights(run).items()
        layers[encoder] = sorted(len(array) for name, array in named if name.endswith("weight"))
        assert evaluate(run, env=picture, episodes=1).episodes == 1
    assert layers["nature"] == [1, 2, 32, 64, 64, 256]
    assert layers["small"] == [1, 2, 16, 32, 256]
    assert len(layers["resnet"]) == 3 * 5 + 3
    assert layers["flat"] == [1, 2, 64, 64]
    with pytest.raises(ConfigError, match=r"encoder small is of pictures, .* it is Box\(.*\(4,\)"):
        headrace.train("cartpole", policy="torch", encoder="small", run_dir="r")
    with pytest.raises(ConfigError, match="encoder small needs a torch policy"):
        headrace.train("cartpole", encoder="small", run_dir="r")


def test_the_actor_has_threads_of_its_own():
    """Asynchronously, the learner takes half of them."""
    spec = headrace.make_vec("cartpole", 1).spec_
    threads = []
    for given in ({"threads": 4}, {"threads": 4, "async_": True}, {"threads": 1, "async_": True}):
        policy = torch_policy(TrainConfig(env="cartpole", policy="torch", **given), spec)
        policy.use_threads(10**9)
        threads.append(torch.get_num_threads())
    assert threads == [4, 2, 1]


def test_tensors_of_another_policy_are_refused():
    headrace.train("cartpole", policy="torch", hidden=(8,), steps=3_000, run_dir="small")
    headrace.train("cartpole", policy="torch", hidden=(9,), steps=3_000, run_dir="large")
    small, large = (Run.open(name) for name in ("small", "large"))
    target = small.checkpoint_path(small.latest()) / "policy.safetensors"
    source = large.checkpoint_path(large.latest()) / "policy.safetensors"
    target.write_bytes(source.read_bytes())
    target.with_name("SHA256SUMS").unlink()
    with pytest.raises(RunError, match="does not fit this run: tensor"):
        evaluate("small")


def test_nothing_that_a_run_holds_is_executed(tmp_path):
    """A pickle in the place of a checkpoint's file is refused, not loaded."""
    import pickle

    class Trap:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "sprung",))

    headrace.train("cartpole", policy="torch", steps=3_000, run_dir="r")
    run = Run.open("r")
    for name in ("policy.safetensors", "state.safetensors"):
        (run.checkpoint_path(run.latest()) / name).write_bytes(pickle.dumps(Trap()))
    with pytest.raises(RunError, match="damaged"):
        evaluate("r")
    with pytest.raises(RunError, match="damaged"):
        headrace.train(resume="r", steps=9_000)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    ("world", "settings", "wanted"),
    [
        ("signal", {"hidden": (32,)}, 7.5),  # of 8; guessing gives 6
        ("spot", {}, 7.0),  # of 8; guessing gives 2.7
    ],
)
def test_dict_and_picture_observations_are_learned(world, settings, wanted):
    result = headrace.train(
        WORLDS / f"{world}.c", policy="torch", target=wanted, steps=150_000, num_envs=64,
        lr=3e-3, gamma=0.0, seed=1, **settings,
    )  # fmt: skip
    assert result.solved, result.return_mean
    assert evaluate(result.run, episodes=50).return_mean >= wanted


def test_memory_masks_and_several_agents_train():
    for env in ("connect4", "foraging"):
        result = headrace.train(
            env, policy="torch", memory="mingru", steps=6_000, num_envs=32, target=None
        )
        assert result.steps >= 6_000
        assert evaluate(result.run, episodes=4).episodes == 4


def test_settings_of_torch_policies_are_taken():
    base = {
        "policy": "torch", "steps": 6_000, "num_envs": 64, "target": None, "horizon": 16,
        "lr": 0.02, "epochs": 3,
    }  # fmt: skip
    plain = weights(headrace.train("cartpole", **base).run)
    for changed in ({"target_kl": 1e-9}, {"bf16": True}, {"optimizer": "muon"}, {"fill": 0.5}):
        if changed.get("optimizer") and not hasattr(torch.optim, "Muon"):
            continue
        batch = {"batch_size": 16} if "fill" in changed else {}
        other = weights(headrace.train("cartpole", **base, **changed, **batch).run)
        assert not all(np.array_equal(plain[name], other[name]) for name in plain), changed


@pytest.mark.parametrize("policy", ["native", "torch"])
def test_python_environments_train_resume_and_play(policy):
    settings = {"policy": policy, "num_envs": 8, "threads": 2, "horizon": 16}
    result = headrace.train("gymnasium:CartPole-v1", steps=1_000, run_dir="r", seed=1, **settings)
    assert result.steps >= 1_000
    assert headrace.train(resume="r", steps=1_500).steps >= 1_500
    assert evaluate("r", episodes=4, threads=2).return_mean > 5


@pytest.mark.parametrize("memory", ["gru", "mingru"])
def test_what_is_recalled_is_what_the_learning_weights_would_have_remembered(memory):
    settings = {"policy": "torch", "memory": memory, "num_envs": 64, "horizon": 4, "seed": 3}
    with headrace.PPO("cartpole", recall=True, steps=2_000, target=None, run_dir="r",
                      **settings) as ppo:  # fmt: skip
        learner = ppo._session.learner
        turns = iter(ppo)
        next(turns)
        past = {name: tensor.clone() for name, tensor in learner._past.items()}
        module = learner.module
        state, began = past["states"], torch.zeros(64, dtype=torch.bool)
        with torch.no_grad():
            for t in range(4):  # by hand, a step at a time
                state = module(past["obs"][t], torch.where(began[:, None], 0.0, state))[2]
                began = past["done"][t]
        wanted = torch.where(began[:, None], 0.0, state)
        next(turns)
        assert torch.allclose(learner._past["states"], wanted, atol=1e-6)
        assert wanted.abs().max() > 0


def test_a_resumed_run_recalls_what_one_that_was_not_would():
    settings = {"policy": "torch", "memory": "gru", "recall": True, "seed": 2, "threads": 1,
                "lr_schedule": "constant", "target": None, "num_envs": 64,
                "horizon": 8}  # fmt: skip
    whole = headrace.train("cartpole", steps=4_000, run_dir="whole", **settings)
    part = headrace.train("cartpole", steps=1_500, run_dir="part", **settings)
    headrace.train(resume=part.run, steps=4_000)
    one, other = weights(whole.run), weights(part.run)
    assert all(np.array_equal(one[name], other[name]) for name in one)
