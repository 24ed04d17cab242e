"""Torch policies: encoding, initial weights, what a user's module must be, building blocks."""

import os
import subprocess
import sys
from pathlib import Path

import naive
import numpy as np
import pytest
from gymnasium import spaces

torch = pytest.importorskip("torch")

from test_collector import environments  # noqa: E402

from headrace import make_vec  # noqa: E402
from headrace.engine.errors import ArgumentError  # noqa: E402
from headrace.trainers import nn, policies  # noqa: E402
from headrace.trainers.config import TrainConfig  # noqa: E402
from headrace.trainers.policy import PolicySpec, TensorError  # noqa: E402
from headrace.trainers.settings import ConfigError  # noqa: E402
from headrace.trainers.tiles import from_tiles  # noqa: E402
from headrace.trainers.torch_policy import Encoder, TorchPolicy  # noqa: E402

WORLDS = Path(__file__).parent / "worlds"
SIGNAL, SPOT = str(WORLDS / "signal.c"), str(WORLDS / "spot.c")


def spec_of(env):
    vec = make_vec(env, 1)
    vec.close()
    return vec.spec_


# ---- the same as native --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cartpole", "walk", "pair", "slide", "kart", SIGNAL])
def test_observations_are_encoded_as_for_native_policies(name):
    vec = environments(name, 40)
    if name != SIGNAL:
        for _ in range(5):
            vec.step(vec.action_space.sample())
    structs = vec.buffers.arrays["obs"]
    policy = PolicySpec.from_env(vec.spec_, ())
    expected = from_tiles(policy.net.encode(structs), 40)
    raw = torch.from_numpy(structs.view(np.uint8).reshape(40, -1).copy())
    np.testing.assert_array_equal(Encoder(vec.spec_)(raw).flatten(1).numpy(), expected)
    assert nn.input_size(vec.single_observation_space) == policy.features
    vec.close()


def test_integers_are_divided_as_for_native_policies():
    fields = [
        naive.field("grid", "uint8", (4,), low=0, high=3),
        naive.field("height", "int16", (2,), low=-300, high=20),
        naive.field("count", "int32", low=0, high=1e6),
        naive.field("speed"),
    ]
    spec = naive.make_spec(fields, [naive.field("a", "int32", choices=2)])
    structs = np.zeros(9, spec.obs_dtype)
    for name, high in (("grid", 4), ("height", 21), ("count", 1000), ("speed", 5)):
        structs[name] = np.random.default_rng(1).integers(high, size=structs[name].shape)
    policy = PolicySpec.from_env(spec, ())
    expected = from_tiles(policy.net.encode(structs), 9)
    raw = torch.from_numpy(structs.view(np.uint8).reshape(9, -1).copy())
    np.testing.assert_array_equal(Encoder(spec)(raw).numpy(), expected)
    np.testing.assert_allclose(expected, naive.encode(spec, structs), rtol=1e-6)
    assert expected[:, :4].max() == 1.0


def test_pictures_keep_their_shape_and_scale():
    vec = make_vec(SPOT, 5)
    obs, _ = vec.reset(seed=1)
    raw = vec.buffers.arrays["obs"].view(np.uint8).reshape(5, -1).copy()
    x = Encoder(vec.spec_)(torch.from_numpy(raw)).numpy()
    np.testing.assert_array_equal(x, obs.astype(np.float32) * np.float32(1 / 255))
    assert x.max() == 1.0
    vec.close()


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("name", ["cartpole", "walk", "slide", "kart"])
def test_an_mlp_starts_from_the_weights_of_the_native_one(name, separate):
    vec = environments(name, 1)
    config = TrainConfig(env=name, policy="torch", hidden=(16, 8), separate=separate, seed=5)
    policy = policies.torch_policy(config, vec.spec_)
    native = PolicySpec.from_env(vec.spec_, (16, 8), separate=separate)
    params = native.init(5)
    named = policy.to_tensors(policy.weights())
    assert {k: v.tolist() for k, v in named.items()} == {
        k: v.tolist() for k, v in native.to_tensors(native.weights(params)).items()
    }
    x = np.random.default_rng(1).standard_normal((70, native.features)).astype(np.float32)
    shaped = torch.from_numpy(x).reshape(70, *(vec.single_observation_space.shape or (-1,)))
    with torch.no_grad():
        outputs, value = policy.module(shaped)
    expected = native.forward(params, x)
    np.testing.assert_allclose(outputs, expected[0], atol=1e-5)
    np.testing.assert_allclose(value, expected[1], atol=1e-5)
    vec.close()


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("env", ["cartpole", SPOT])  # numbers, and a picture
def test_trunks_are_shared_or_separate(env, separate):
    """The gradient of the value reaches layers of the policy where it shares them, and no other."""
    spec = spec_of(env)
    config = TrainConfig(env="x", policy="torch", hidden=(16, 8), separate=separate)
    module = policies.torch_policy(config, spec).module
    x = torch.rand(4, *spec.single_observation_space.shape)
    outputs, value = module(x)
    parameters = list(module.parameters())
    by_value, by_outputs = (
        torch.autograd.grad(result.sum(), parameters, retain_graph=True, allow_unused=True)
        for result in (value, outputs)
    )
    both = [v is not None and o is not None for v, o in zip(by_value, by_outputs, strict=True)]
    assert any(both) == (not separate)
    assert all(v is not None or o is not None for v, o in zip(by_value, by_outputs, strict=True))


@pytest.mark.parametrize("memory", ["none", "mingru"])
def test_a_flat_picture_starts_from_the_weights_of_the_native_policy(memory):
    spec = spec_of(SPOT)
    config = TrainConfig(
        env="x", policy="torch", encoder="flat", hidden=(16, 8), memory=memory, seed=5
    )
    policy = policies.torch_policy(config, spec)
    native = policies.native_policy(config, spec)
    tensors = native.to_tensors(native.weights(native.init(5)))
    assert policy.picture
    assert policy.to_tensors(policy.weights()).keys() == tensors.keys()
    for name, tensor in policy.to_tensors(policy.weights()).items():
        np.testing.assert_array_equal(tensor, tensors[name])


def test_seed_decides_the_first_weights_of_every_default():
    spec = spec_of(SPOT)
    for settings in ({}, {"memory": "lstm"}):
        made = [
            policies.torch_policy(TrainConfig(env="x", policy="torch", seed=s, **settings), spec)
            for s in (1, 1, 2)
        ]
        first, again, other = (
            torch.cat([p.flatten() for p in policy.module.parameters()]) for policy in made
        )
        assert torch.equal(first, again)
        assert not torch.equal(first, other)


def test_tensors_come_back():
    policy = policies.torch_policy(TrainConfig(env="x", policy="torch"), spec_of("cartpole"))
    weights = policy.weights(obs_mean=np.float32([1, 2, 3, 4]))
    tensors = policy.to_tensors(weights)
    back = policy.from_tensors(tensors)
    assert all(torch.equal(back.tensors[k], t) for k, t in weights.tensors.items())
    np.testing.assert_array_equal(back.obs_mean, [1, 2, 3, 4])
    with pytest.raises(TensorError, match=r"'value.bias' is missing"):
        policy.from_tensors({k: v for k, v in tensors.items() if k != "value.bias"})


# ---- modules of a user's ------------------------------------------------------------------------


class Net(torch.nn.Module):
    """Two layers."""

    def __init__(self, observation_space, action_space, outputs=None, width=1):
        super().__init__()
        self.out = torch.nn.Linear(4, outputs or nn.output_size(action_space))
        self.value = torch.nn.Linear(4, width)

    def forward(self, obs):
        return self.out(obs), self.value(obs)


def module_of(**options):
    space = spec_of("cartpole")
    return space, Net(space.single_observation_space, space.single_action_space, **options)


def test_a_module_of_any_kind_is_a_policy():
    spec, module = module_of()
    policy = TorchPolicy(spec, module)
    assert (policy.outputs, policy.state_size, policy.numbers) == (2, 0, 0)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"outputs": 3},
            r"policy Net gives outputs of shape \[2, 3\] for 2 rows: expected \[2, 2\]",
        ),
        ({"width": 2}, r"policy Net gives value of shape \[2, 2\] for 2 rows: expected \[2\]"),
    ],
)
def test_outputs_that_do_not_fit_are_named(options, sentence):
    spec, module = module_of(**options)
    with pytest.raises(ArgumentError, match=sentence):
        TorchPolicy(spec, module)


def test_memory_without_state_is_named():
    spec, module = module_of()
    module.state_size = 3
    module.forward = lambda obs, state: (module.out(obs), module.value(obs))
    with pytest.raises(ArgumentError, match=r"must return \(outputs, value, state\)"):
        TorchPolicy(spec, module)


def test_log_deviations_are_added_where_there_are_none():
    spec = spec_of("pendulum")
    module = torch.nn.Linear(3, 1)
    module.forward = lambda obs: (obs[:, :1], obs[:, 0])
    policy = TorchPolicy(spec, module)
    assert policy.log_std_name == "log_std"
    assert policy.to_tensors(policy.weights())["log_std"].tolist() == [0.0]
    module.log_std = torch.nn.Parameter(torch.zeros(2))
    with pytest.raises(ArgumentError, match=r"log_std has shape \[2\]: expected \[1\]"):
        TorchPolicy(spec, module)


def test_a_device_that_is_not_there_is_one_sentence():
    spec, module = module_of()
    with pytest.raises(ArgumentError, match="device 'fridge' cannot be used"):
        TorchPolicy(spec, module, device="fridge")
    if not torch.cuda.is_available():
        with pytest.raises(ArgumentError, match="device 'cuda' cannot be used"):
            TorchPolicy(spec, module, device="cuda")


def test_without_torch_there_is_one_sentence(monkeypatch):
    monkeypatch.setattr(policies.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"needs PyTorch.*pip install headrace\[torch\]"):
        policies.require_torch("torch")


def test_threads_of_torch_sleep_soon_where_nothing_is_said():
    shown = [
        "import headrace.trainers.policies as p",
        "p.require_torch('torch')",
        "import torch",
    ]
    environment = {k: v for k, v in os.environ.items() if k != "GOMP_SPINCOUNT"}
    for given, spins in (({}, policies.TORCH_SPINS), ({"GOMP_SPINCOUNT": "7"}, "7")):
        said = subprocess.run(
            [sys.executable, "-c", ";".join(shown)],
            env=environment | {"OMP_DISPLAY_ENV": "VERBOSE"} | given,
            stderr=subprocess.PIPE,
            check=True,
            text=True,
        ).stderr
        if "GOMP_SPINCOUNT" not in said:
            pytest.skip("torch's OpenMP is not GNU's")
        assert f"GOMP_SPINCOUNT = '{spins}'" in said


def test_building_blocks_are_loaded_when_asked_for(monkeypatch):
    import headrace

    assert headrace.nn is nn
    monkeypatch.delitem(vars(headrace), "nn", raising=False)
    monkeypatch.setattr(headrace, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"needs PyTorch: pip install headrace\[torch\]"):
        _ = headrace.nn


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Other", "net.py has no class Other: it has Net"),
        ("broken", r"net\.py:3: ZeroDivisionError"),
        ("nothing", "there is no file"),
    ],
)
def test_a_file_without_the_class_is_one_sentence(tmp_path, text, sentence):
    path = tmp_path / "net.py"
    if text != "nothing":
        path.write_text("class Net:\n    pass\n" + ("1 / 0\n" if text == "broken" else ""))
    with pytest.raises(ConfigError, match=sentence):
        policies.class_in(f"{path}:{text}")


def test_files_of_the_same_name_are_modules_of_their_own(tmp_path):
    found = []
    for folder, width in ("a", 8), ("b", 16):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"widths_{folder}.py").write_text(f"WIDTH = {width}\n")
        path = tmp_path / folder / "net.py"
        path.write_text(f"from widths_{folder} import WIDTH\nclass Net:\n    width = WIDTH\n")
        found.append(policies.class_in(f"{path}:Net"))
    assert [net.width for net in found] == [8, 16]
    assert all(sys.modules[net.__module__].Net is net for net in found)


def test_a_module_that_a_file_holds_is_made_for_each_run(tmp_path):
    path = tmp_path / "net.py"
    path.write_text("import torch\nnet = torch.nn.Linear(2, 2)\n")
    assert policies.class_in(f"{path}:net") is not policies.class_in(f"{path}:net")


def test_a_policy_file_that_fails_leaves_no_module(tmp_path):
    path = tmp_path / "failing.py"
    path.write_text("class Net:\n    pass\n1 / 0\n")
    before = set(sys.modules)
    with pytest.raises(ConfigError):
        policies.class_in(f"{path}:Net")
    assert set(sys.modules) == before


def test_what_makes_no_module_is_named():
    config = TrainConfig(env="x", policy="object:thing")
    with pytest.raises(ConfigError, match="made a int: expected a torch"):
        policies.torch_policy(config, spec_of("cartpole"), lambda obs, act: 3)
    with pytest.raises(ConfigError, match=r"object:thing is a class .* no torch.nn.Module"):
        policies.torch_policy(config, spec_of("cartpole"), dict)


def test_a_module_without_forward_is_named():
    with pytest.raises(ArgumentError, match="policy Module has no forward"):
        TorchPolicy(spec_of("cartpole"), torch.nn.Module())


# ---- building blocks --------------------------------------------------------------------------


def test_sizes_of_spaces():
    obs = spaces.Dict(
        {"b": spaces.Box(-1, 1, (2, 3)), "a": spaces.Discrete(4), "c": spaces.MultiBinary(5)}
    )
    assert nn.input_size(obs) == 6 + 4 + 5
    assert nn.output_size(spaces.MultiDiscrete([2, 3])) == 5
    assert nn.output_size(spaces.Box(-1, 1, (2,))) == nn.continuous_size(spaces.Box(-1, 1, (2,)))
    order = list(obs.spaces)  # Gymnasium sorts what is given as a plain dict
    x = torch.arange(15.0).repeat(2, 1)
    split = nn.split(x, obs)
    assert [*split] == order == ["a", "b", "c"]
    assert split["b"].shape == (2, 2, 3)
    assert split["b"][0].flatten().tolist() == [4, 5, 6, 7, 8, 9]


def test_split_takes_a_native_environment_s_observation_apart():
    vec = make_vec(SIGNAL, 3)
    obs, _ = vec.reset(seed=2)
    raw = vec.buffers.arrays["obs"].view(np.uint8).reshape(3, -1).copy()
    split = nn.split(Encoder(vec.spec_)(torch.from_numpy(raw)), vec.single_observation_space)
    np.testing.assert_array_equal(split["noise"], obs["noise"])
    np.testing.assert_array_equal(split["lamp"], obs["lamp"] / np.float32(255))
    np.testing.assert_array_equal(split["hint"].argmax(1), obs["hint"])
    vec.close()


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"),
    [
        ((84, 84, 4), np.uint8, (4, 84, 84)),
        ((4, 84, 84), np.uint8, (4, 84, 84)),
        ((9, 12), np.uint8, (1, 9, 12)),
        ((10, 7, 3), np.float32, (3, 10, 7)),
        ((9, 12), np.float32, None),
        ((3, 3, 2), np.uint8, None),
        ((8,), np.uint8, None),
    ],
)
def test_which_observations_are_pictures(shape, dtype, expected):
    space = spaces.Box(0, 1 if dtype is np.float32 else 255, shape, dtype)
    assert nn.image_shape(space) == expected
    if expected is not None:
        x = torch.rand(2, *shape)
        for encoder in (
            nn.Convolutions(space, 32),
            nn.Convolutions(space, 32, "small"),
            nn.ResNet(space, 32, (4, 8)),
        ):
            assert encoder(x).shape == (2, 32)
        outputs, value = nn.CNN(space, spaces.Discrete(3))(x)
        assert (outputs.shape, value.shape) == ((2, 3), (2,))


def test_small_convolutions_are_smaller_on_grids_too():
    space = spaces.Box(0, 255, (4, 25, 18), np.uint8)
    sizes = {
        layers: [
            tuple(m.weight.shape[:1]) + m.stride for m in made.modules() if hasattr(m, "stride")
        ]
        for layers in ("nature", "small")
        for made in (nn.Convolutions(space, 32, layers),)
    }
    assert sizes == {"nature": [(32, 1, 1), (32, 1, 1)], "small": [(16, 2, 2), (32, 2, 2)]}


def test_orthogonal_layers_and_small_heads():
    layer = nn.orthogonal(torch.nn.Linear(8, 5))
    product = (layer.weight @ layer.weight.T).detach()
    torch.testing.assert_close(product, 2.0 * torch.eye(5))
    heads = nn.Heads(16, spaces.Box(-1, 1, (3,)))
    assert heads.log_std.tolist() == [0.0] * 3
    assert heads.policy.weight.norm(dim=1).tolist() == pytest.approx([0.01] * 3)


def references(core, size):
    """The same cell by torch, with our weights."""
    kind = {"lstm": torch.nn.LSTMCell, "gru": torch.nn.GRUCell}[core]
    ours = (nn.LSTM if core == "lstm" else nn.GRU)(5, size)
    cell = kind(5, size)
    with torch.no_grad():
        cell.weight_ih.copy_(ours.input.weight)
        cell.bias_ih.copy_(ours.input.bias)
        cell.weight_hh.copy_(ours.recurrent.weight)
        bias = ours.recurrent.bias
        cell.bias_hh.copy_(torch.zeros_like(cell.bias_hh) if bias is None else bias)
    return ours, cell


@pytest.mark.parametrize("core", ["lstm", "gru"])
def test_cells_are_torchs_own(core):
    ours, cell = references(core, 6)
    x, state = torch.randn(4, 5), torch.randn(4, ours.state_size)
    out, after = ours.step(ours.input(x), state)
    if core == "lstm":
        h, c = cell(x, tuple(state.chunk(2, 1)))
        torch.testing.assert_close(after, torch.cat((h, c), 1))
    else:
        h = cell(x, state)
        torch.testing.assert_close(after, h)
    torch.testing.assert_close(out, h)


def test_mingru_follows_its_formula():
    core = nn.MinGRU(3, 4)
    x, state = torch.randn(5, 3), torch.randn(5, 4)
    out, after = core.step(core.input(x), state)
    gate, new = core.input(x).chunk(2, 1)
    z = 1 / (1 + torch.exp(-gate))
    candidate = torch.where(new >= 0, new + 0.5, 1 / (1 + torch.exp(-new)))
    torch.testing.assert_close(after, (1 - z) * state + z * candidate)
    assert out is after


@pytest.mark.parametrize("core", ["lstm", "gru", "mingru"])
def test_a_sequence_is_its_steps_and_no_state_crosses_an_episode(core):
    space = spaces.Box(-1, 1, (4,)), spaces.Discrete(3)
    module = nn.Recurrent(*space, core, 8, (6,))
    obs, state = torch.randn(7, 5, 4), torch.randn(5, module.state_size)
    began = torch.zeros(7, 5, dtype=torch.bool)
    began[3, 2] = began[0, 4] = True
    live = torch.ones(7, 5, dtype=torch.bool)
    live[5, 1] = False
    outputs, value = module.unroll(obs, state, began, live)

    class Plain(torch.nn.Module):
        def forward(self, x, before):
            return module(x, before)

    slow = nn.unroll(Plain(), obs, state, began, live)
    torch.testing.assert_close(outputs[live], slow[0][live])
    torch.testing.assert_close(value[live], slow[1][live])
    changed = obs.clone()
    changed[:3, 2] += 1.0  # the episode before the one that begins at step 3
    other = module.unroll(changed, state + 1.0, began, live)[0]
    assert torch.equal(other[3:, 2], outputs[3:, 2])
    assert torch.equal(other[:, 4], outputs[:, 4])
    assert not torch.allclose(other[2, 2], outputs[2, 2])
    lonely = live.clone()
    lonely[5, 1] = True
    after = module.unroll(obs, state, began, lonely)[0]
    assert not torch.allclose(after[6, 1], outputs[6, 1])  # a row that was no step leaves none


def test_unknown_memory_is_named():
    with pytest.raises(ArgumentError, match="core is 'elephant'"):
        nn.Recurrent(spaces.Box(-1, 1, (4,)), spaces.Discrete(3), "elephant")


def test_convolutions_need_a_picture():
    with pytest.raises(ArgumentError, match="convolutions need a Box of three axes"):
        nn.CNN(spaces.Box(-1, 1, (4,)), spaces.Discrete(3))
