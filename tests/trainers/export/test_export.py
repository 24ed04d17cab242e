"""Exported policies act as the policy itself does, whatever the environment's spaces."""

from contextlib import closing
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from export.exported import Header, Model, available, by_member, by_space
from gymnasium import spaces

import headrace
from headrace.engine.errors import ArgumentError, HeadraceError
from headrace.trainers.actor import NativeActor
from headrace.trainers.codec import Codec
from headrace.trainers.export import rendered
from headrace.trainers.player import Player
from headrace.trainers.policies import Acting
from headrace.trainers.policy import PolicySpec
from headrace.trainers.settings import ConfigError
from headrace.trainers.tiles import from_tiles

WORLDS = Path(__file__).parents[1] / "worlds"
ROWS = 128
FORMATS = {"c": "policy.h", "onnx": "policy.onnx"}


class Spaces(gymnasium.Env):
    """Every kind of space, with choices that do not begin at 0."""

    observation_space = spaces.Dict(
        {
            "float": spaces.Box(-2, 2, (2, 3), np.float64),
            "where": spaces.Tuple((spaces.Discrete(7, start=-3), spaces.MultiDiscrete([3, 4]))),
            "image": spaces.Box(0, 255, (2, 2), np.uint8),
            "grid": spaces.Box(0, 3, (2, 2), np.uint8),
            "height": spaces.Box(-9, 5, (2,), np.int64),
            "flags": spaces.MultiBinary(3),
            "level": spaces.Box(-1, 1, ()),
        }
    )
    action_space = spaces.Dict(
        {
            "gear": spaces.Discrete(3, start=-1),
            "wheel": spaces.Box(-0.5, 0.25, (2,), np.float64),
            "keys": spaces.MultiDiscrete([2, 3], start=[5, 0]),
        }
    )

    def reset(self, seed=None, options=None):
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        return self.observation_space.sample(), float(action["gear"]), False, False, {}


class Picture(Spaces):
    """Small pictures, channels last."""

    observation_space = spaces.Box(0, 255, (12, 9, 3), np.uint8)
    action_space = spaces.Box(-1, 1, (2,))

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, False, {}


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def native(vec, hidden=(16, 16), *, normalized=True, **shape):
    """A native policy with random weights, ready to play."""
    policy = PolicySpec.from_env(Codec.of(vec).spec, hidden, **shape)
    rng = np.random.default_rng(3)
    tensors = policy.to_tensors(policy.weights(rng.normal(0, 0.7, policy.num_params)))
    for name, tensor in tensors.items():
        tensor *= 0.01 if name.endswith("bias") else 1.0
    if normalized:
        tensors["obs.mean"], tensors["obs.scale"] = moments(vec, policy)
    actor = NativeActor(policy, normalize_obs=normalized)
    return Player(vec, Acting(actor, policy, policy.from_tensors(tensors)))


def moments(vec, policy):
    """Mean and 1 / deviation of encoded observations, so that choices differ."""
    vec.reset(seed=7)
    x = from_tiles(policy.net.encode(Codec.of(vec).pack(vec.buffers.obs)), vec.num_envs)
    return x.mean(0), 1.0 / (x.std(0) + np.float32(0.01))


def of_torch(vec, make, noise=0.3):
    """A torch policy with random weights, ready to play."""
    torch = pytest.importorskip("torch")
    from headrace.trainers.torch_policy import TorchActor, TorchPolicy

    torch.manual_seed(1)
    spec = Codec.of(vec).spec
    module = make(spec.single_observation_space, spec.single_action_space)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += noise * torch.randn_like(parameter)
    policy = TorchPolicy(spec, module)
    mean, scale = moments(vec, PolicySpec.from_env(spec, ()))
    actor = TorchActor(policy, normalize_obs=True)
    return Player(vec, Acting(actor, policy, policy.weights(obs_mean=mean, obs_scale=scale)))


def runner(player, vec, form):
    """The policy as a file of this format, to be run."""
    codec = Codec.of(vec)
    file = Path(FORMATS[form])
    file.write_bytes(rendered(codec, player.policy, player.weights, form, "policy"))
    if form == "onnx":
        pytest.importorskip("onnxruntime")
        return Model(file)
    if not available("c"):
        pytest.skip("no C compiler")
    state_size = getattr(player.policy, "state_size", 0)
    return Header(file, "policy", codec, codec.spec.mask_size, state_size)


def agree(player, vec, form, steps=5):
    """Plays some steps with a policy and with its file: equal choices, near numbers."""
    codec, run = Codec.of(vec), runner(player, vec, form)
    state = np.zeros((vec.num_envs, getattr(player.policy, "state_size", 0)), np.float32)
    masks, chosen = vec.buffers.arrays.get("mask"), []
    vec.reset(seed=5)
    for step in range(steps):
        obs = vec.buffers.obs
        mask = None if masks is None else masks.view(np.uint8).copy()
        given = by_member(codec, obs) if form == "c" else by_space(codec, obs)
        found = run(given, mask, state)
        wanted = player.act(obs, mask)
        flat = by_space(codec, wanted)
        if form == "c" and codec.parts is None and not isinstance(wanted, dict):
            found = [np.concatenate([f.reshape(len(f), -1) for f in found], 1)]
        for one, other in zip(found, flat, strict=True):
            one = one.reshape(len(one), -1)
            other = np.asarray(other).reshape(len(one), -1)
            if other.dtype.kind == "f":
                assert np.allclose(one, other, atol=2e-5)
            else:
                assert np.array_equal(one, other)
        assert np.allclose(state, player._state, atol=2e-5)
        chosen.append(np.asarray(flat[0]).copy())
        _, _, terminated, truncated, _ = vec.step(wanted)
        done = terminated | truncated
        done[: step + 1] = True  # as if more episodes had ended
        player.ended(done)
        state[done] = 0.0
    assert len(np.unique(chosen)) > 1, "a policy that always does the same shows nothing"


@pytest.fixture(params=FORMATS)
def form(request):
    return request.param


def made(env, rows=ROWS):
    options = {"workers": 1} if isinstance(env, type) else {}
    return closing(headrace.make_vec(env, rows, autoreset_mode="SameStep", **options))


@pytest.mark.parametrize(
    ("env", "shape"),
    [
        ("cartpole", {}),
        ("cartpole", {"separate": True, "activation": "relu", "hidden": (8, 12)}),
        ("cartpole", {"normalized": False, "hidden": ()}),
        ("pendulum", {}),
        ("breakout", {"hidden": (9, 12), "memory": "mingru"}),
        ("tetris", {}),  # masked
        ("connect4", {}),  # two agents, masked
        ("breakout", {}),
        (str(WORLDS / "pick.c"), {}),  # a Dict, masked
    ],
)
def test_native_policies(form, env, shape):
    with made(env) as vec:
        agree(native(vec, **shape), vec, form)


def test_nested_python_spaces_with_values_that_do_not_start_at_0(form):
    with made(Spaces, 8) as vec:
        agree(native(vec), vec, form)


@pytest.mark.parametrize("core", ["lstm", "gru", "mingru"])
def test_torch_policies_with_memory(form, core):
    nn = pytest.importorskip("headrace.trainers.nn")
    with made("cartpole") as vec:
        agree(of_torch(vec, lambda *s: nn.Recurrent(*s, core, 12, (9,))), vec, form)


@pytest.mark.parametrize("separate", [False, True])
def test_a_torch_mlp(form, separate):
    nn = pytest.importorskip("headrace.trainers.nn")
    with made("pendulum") as vec:
        agree(of_torch(vec, lambda *s: nn.MLP(*s, (8, 8), separate=separate)), vec, form)


@pytest.mark.parametrize("separate", [False, True])
def test_convolutions_with_channels_last(form, separate):
    nn = pytest.importorskip("headrace.trainers.nn")

    def make(seen, actions):
        return nn.CNN(seen, actions, value_encoder=nn.Convolutions(seen) if separate else None)

    with made(Picture, 8) as vec:
        agree(of_torch(vec, make, noise=0.02), vec, form)


def own_module():
    """A module that only torch's exporter can take."""
    torch = pytest.importorskip("torch")
    from headrace.trainers import nn

    class Net(torch.nn.Module):
        state_size = 5

        def __init__(self, observation_space, action_space):
            super().__init__()
            self.hidden = torch.nn.Linear(4 + 5, 8)
            self.own = torch.nn.Linear(8, 5)
            self.heads = nn.Heads(8, action_space)

        def forward(self, obs, state):
            x = torch.nn.functional.silu(self.hidden(torch.cat((obs, state), dim=1)))
            outputs, value = self.heads(x)
            return outputs, value.unsqueeze(-1), torch.tanh(self.own(x))

    return Net


def test_a_module_of_ones_own_has_onnx_and_no_c():
    pytest.importorskip("onnxscript")
    with made("cartpole") as vec:
        player = of_torch(vec, own_module())
        agree(player, vec, "onnx")
        with pytest.raises(HeadraceError, match="policy Net cannot be written in C: only native"):
            runner(player, vec, "c")


def test_what_torch_cannot_export_is_named():
    pytest.importorskip("onnxscript")
    net = own_module()
    plain = net.forward
    net.forward = lambda self, obs, state: plain(self, obs if obs.sum() > 0 else -obs, state)
    with made("cartpole", 64) as vec:
        player = of_torch(vec, net)
        with pytest.raises(HeadraceError, match="policy Net cannot be exported to ONNX: torch's"):
            runner(player, vec, "onnx")


def test_weights_that_are_not_finite_are_refused(form):
    with made("cartpole", 64) as vec:
        player = native(vec)
        tensors = player.policy.to_tensors(player.weights)
        tensors["trunk.1.weight"][3, 4] = np.inf
        player.weights = player.policy.from_tensors(tensors)
        with pytest.raises(HeadraceError, match="weights that are not finite"):
            runner(player, vec, form)


@pytest.mark.skipif(not available("c++"), reason="no C++ compiler")
@pytest.mark.parametrize("env", ["tetris", str(WORLDS / "pick.c")])
def test_the_header_is_cpp_too(env):
    with made(env, 64) as vec:
        player, codec = native(vec), Codec.of(vec)
        Path("policy.h").write_bytes(rendered(codec, player.policy, player.weights, "c", "policy"))
        Header(Path("policy.h"), "policy", codec, codec.spec.mask_size, 0, "c++")


def test_the_reference_evaluator_agrees_with_the_runtime():
    pytest.importorskip("onnxruntime")
    with made(str(WORLDS / "pick.c")) as vec:
        player, codec = native(vec), Codec.of(vec)
        runner(player, vec, "onnx")
        mask = vec.buffers.arrays["mask"].view(np.uint8)
        arrays, none = by_space(codec, vec.buffers.obs), np.zeros((ROWS, 0), np.float32)
        models = [Model(Path("policy.onnx"), reference=r) for r in (True, False)]
        one, other = (model(arrays, mask, none) for model in models)
        assert all(np.allclose(a, b, atol=1e-5) for a, b in zip(one, other, strict=True))
        assert models[0].inputs[:2] == ["obs.place", "obs.cube"]
        assert models[0].outputs == ["action.turn", "action.fingers", "action.push", "outputs",
                                     "value"]  # fmt: skip


def test_names_that_c_keeps_for_itself():
    from headrace.trainers.export.c_header import _unique, identifier

    assert [identifier(t) for t in ("for", "class", "a.b", "0", "ä")] == [
        "for_", "class_", "a_b", "_0", "_"]  # fmt: skip
    assert _unique(["a.b", "a_b", "a b"]) == ["a_b", "a_b_2", "a_b_3"]


# ---- of a run --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "r"
    headrace.train("cartpole", steps=1, target=None, run_dir=str(folder))
    return str(folder)


def test_a_run_is_written_where_it_is_asked_for(run):
    result = headrace.export_policy(run, format="c", out="mine.h", name="mine")
    assert (result.env, result.format, result.name) == ("cartpole", "c", "mine")
    assert (result.state_size, result.mask_size) == (0, 0)
    text = Path("mine.h").read_bytes()
    assert b"static inline void mine_act(" in text
    assert result.bytes == len(text)
    again = headrace.export_policy(run, format="c", name="mine")
    assert again.file == f"{run}/mine.h"
    assert Path(again.file).read_bytes() == text
    assert headrace.export_policy(run, format="c").name == "cartpole_policy"


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"name": "for"}, ConfigError, "name is 'for': expected a name that C accepts"),
        ({"format": "pickle"}, ConfigError, "format must be onnx or c, not 'pickle'"),
        ({"out": "no/x.h"}, ArgumentError, r"out no/x\.h cannot be written: No such file"),
        ({"policy": "net.py:Net"}, ConfigError, "policy net.py:Net is not this run's"),
    ],
)
def test_what_cannot_be_is_one_sentence(run, given, error, said):
    with pytest.raises(error, match=said):
        headrace.export_policy(run, **{"format": "c", **given})


def test_onnx_that_is_not_installed_is_named(run, monkeypatch):
    from headrace.trainers import export

    monkeypatch.setattr(export, "find_spec", lambda name: None)
    with pytest.raises(
        HeadraceError, match=r"needs the package onnx: pip install headrace\[onnx\]"
    ):
        headrace.export_policy(run, format="onnx")


def test_a_policy_of_code_must_be_named_again():
    pytest.importorskip("onnxscript")
    module = own_module()
    headrace.train("cartpole", policy=module, steps=1, horizon=2, target=None, run_dir="r")
    with pytest.raises(ConfigError, match="name it again"):
        headrace.export_policy("r")
    pytest.importorskip("onnx")
    own = module(spaces.Box(-1.0, 1.0, (4,)), spaces.Discrete(2))
    assert headrace.export_policy("r", policy=own).state_size == 5
    assert all(layer.training for layer in own.modules())  # as it was given


def test_an_environment_that_was_an_object_is_given_again():
    settings = {"num_envs": 4, "threads": 1, "steps": 1, "horizon": 2, "run_dir": "r"}
    headrace.train(Picture, **settings)
    with pytest.raises(ConfigError, match=r"no command line .* in Python, give it again, as env="):
        headrace.export_policy("r", format="c")
    result = headrace.export_policy("r", format="c", env=Picture)
    assert "uint8_t observation[12][9][3];" in Path(result.file).read_text()
