"""Policies that act by themselves: as evaluation has them act, on whatever they are given."""

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import gymnasium
import naive
import numpy as np
import pytest
import safetensors.numpy
from gymnasium import spaces

import headrace
from headrace.engine.errors import ArgumentError
from headrace.engine.processes.leaves import leaves_of
from headrace.trainers import interface
from headrace.trainers.actor import NativeActor
from headrace.trainers.agent import AgentConfig, load_agent
from headrace.trainers.codec import Codec
from headrace.trainers.inference import LoadedPolicy, load_policy
from headrace.trainers.policies import Acting
from headrace.trainers.policy import PolicySpec, TensorError
from headrace.trainers.rollout import MaskError
from headrace.trainers.run import Run, RunError
from headrace.trainers.settings import ConfigError
from headrace.trainers.spaces import leaf_arrays

STRUCTURED = spaces.Dict(
    {
        "where": spaces.Tuple((spaces.Discrete(7, start=-3), spaces.MultiDiscrete([3, 4]))),
        "lamp": spaces.MultiBinary(5),
        "picture": spaces.Box(0, 255, (4, 3), np.uint8),
        "speed": spaces.Box(-1.0, 1.0, (), np.float64),
    }
)


class Structured(gymnasium.Env):
    """Observes and is told values of every kind of space; what it observes follows from both."""

    observation_space = action_space = STRUCTURED

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        assert action in self.action_space
        seen = self.observation_space.sample()
        return {**seen, "lamp": action["lamp"]}, 0.0, bool(seen["lamp"][0]), False, {}


FEW = {"steps": 1, "horizon": 4, "target": None}


@pytest.fixture(autouse=True)
def _own_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADRACE_DATA_DIR", str(tmp_path / "data"))


def trained(env, **settings):
    """The folder of a run that has learned nothing much."""
    return headrace.train(env, run_dir="r", **{**FEW, **settings}).run


# ---- as evaluation has it -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "settings"),
    [
        ("cartpole", {"lr": 0.1}),
        ("pendulum", {}),
        ("game_2048", {}),  # with action masks
        ("squared", {"separate": True}),
        ("memory", {"memory": "mingru", "hidden": (8, 8)}),
        ("foraging", {"memory": "mingru"}),  # several agents
        ("cartpole", {"policy": "torch", "normalize_obs": True}),
        ("game_2048", {"policy": "torch"}),
        ("memory", {"policy": "torch", "memory": "lstm"}),
        (Structured, {"num_envs": 4}),  # a Dict with a Tuple in it, in Python
        (Structured, {"num_envs": 4, "policy": "torch", "memory": "gru"}),
    ],
)
def test_it_acts_as_evaluation_has_it_act(env, settings):
    if settings.get("policy") == "torch":
        pytest.importorskip("torch")
    run = trained(env, **settings)
    source = None if isinstance(env, str) else env
    agent = load_agent(AgentConfig(run), 66 if source is None else 3, seed=5, source=source)
    policy = load_policy(run)
    assert policy.steps == agent.checkpoint
    assert policy.observation_space == agent.vec.single_observation_space
    assert policy.action_space == agent.vec.single_action_space
    with closing(agent.vec) as vec:
        state, done = policy.initial_state(vec.num_envs), None
        for _ in range(30):
            mask = vec.buffers.arrays.get("mask")
            acted = policy.act(vec.buffers.obs, state, episode_start=done, mask=mask)
            own = agent.player.act_in(vec)
            assert_equal(acted, own)
            _, _, terminated, truncated, _ = vec.step(own)
            done = terminated | truncated
            agent.player.ended(done)
    assert (policy.state_size > 0) == ("memory" in settings)


def assert_equal(one, other):
    """The same nested arrays."""
    if isinstance(one, (dict, tuple)):
        keys = one if isinstance(one, dict) else range(len(one))
        assert type(one) is type(other)
        assert len(one) == len(other)
        for key in keys:
            assert_equal(one[key], other[key])
    else:
        np.testing.assert_array_equal(one, other)


# ---- what it is given -------------------------------------------------------------------------


def made(obs, actions, hidden=(8,), *, noise=1.0, masked=False, **shape):
    """A LoadedPolicy with random weights over fields (see naive.field)."""
    spec = naive.make_spec(obs, actions, masked=masked)
    policy = PolicySpec.from_env(spec, hidden, **shape)
    params = np.float32(np.random.default_rng(0).normal(0, noise, policy.num_params))
    acting = Acting(NativeActor(policy), policy, policy.weights(params))
    return LoadedPolicy(Codec(spec), acting, 0, seed=1), policy, params


PICK = [naive.field("a", "int32", choices=3)]


@pytest.mark.parametrize("memory", ["none", "mingru"])
def test_batches_of_any_size_and_single_observations(memory):
    policy, _, _ = made([naive.field("x", shape=(4,))], PICK, memory=memory)
    obs = np.random.default_rng(1).normal(size=(130, 4)).astype(np.float32)
    whole = policy.initial_state(130)
    alone = [policy.initial_state() for _ in range(3)]
    part = policy.initial_state(70)
    for _ in range(3):
        acted = policy.act(obs, whole)
        assert acted.shape == (130,)
        np.testing.assert_array_equal(policy.act(obs[:70], part), acted[:70])
        for row, state in enumerate(alone):
            action = policy.act(obs[row], state)
            assert action == acted[row]
            assert action in policy.action_space
            np.testing.assert_array_equal(state, whole[row])
    assert policy.act(obs[:0], policy.initial_state(0)).shape == (0,)
    assert (np.abs(whole).sum() > 0) == (memory == "mingru")


def test_what_is_remembered_goes_on_and_is_forgotten():
    policy, spec, params = made([naive.field("x", shape=(2,))], PICK, (8, 6), memory="mingru")
    rng = np.random.default_rng(0)
    state, own = policy.initial_state(70), np.zeros((70, 6), np.float32)
    over = np.zeros(70, np.bool_)
    for _ in range(6):
        obs = rng.standard_normal((70, 2)).astype(np.float32)
        own[over] = 0.0
        logits, _ = spec.forward(params, obs, own)
        acted = policy.act(obs, state, episode_start=over)
        np.testing.assert_array_equal(acted, logits.argmax(1))
        np.testing.assert_array_equal(state, own)
        over = rng.random(70) < 0.3
    assert np.abs(own).max() > 0.1


def test_numbers_are_clipped_to_their_bounds_and_members_are_found_by_name():
    actions = [naive.field("gear", "int32", choices=4), naive.field("gas", shape=(2,), high=0.5)]
    obs = [naive.field("where", "int32", choices=5), naive.field("x", shape=(3,))]
    policy, spec, params = made(obs, actions, ())
    naive.named(spec, params)["policy.weight"][:] = 0.0
    naive.named(spec, params)["policy.bias"][:] = [0, 0, 5, 0, 0.75, -0.25]
    policy._weights = spec.weights(params)
    given = {"x": np.zeros((70, 3)), "where": np.arange(70) % 5}  # in another order, as float64
    acted = policy.act(given)
    assert np.all(acted["gear"] == 2)
    np.testing.assert_array_equal(acted["gas"], np.tile(np.float32([0.5, -0.25]), (70, 1)))
    drawn = policy.act(given, deterministic=False)
    assert len(np.unique(drawn["gas"][:, 1])) > 25
    assert drawn["gas"].max() <= 0.5
    one = policy.act({"x": [0, 0, 0], "where": 3})
    assert one["gear"] == 2
    np.testing.assert_array_equal(one["gas"], np.float32([0.5, -0.25]))


def test_draws_are_the_policys_and_belong_to_the_generator():
    policy, spec, params = made([naive.field("x", shape=(2,))], PICK)
    obs = np.tile(np.float32([0.3, -1.0]), (20_000, 1))
    logits, _ = spec.forward(params, obs[:1])
    wanted = np.exp(naive.log_softmax(logits.astype(float), np.True_))[0]
    drawn = policy.act(obs, deterministic=False, rng=np.random.default_rng(4))
    np.testing.assert_allclose(np.bincount(drawn, minlength=3) / len(drawn), wanted, atol=0.015)
    again = policy.act(obs, deterministic=False, rng=np.random.default_rng(4))
    np.testing.assert_array_equal(again, drawn)
    generator = np.random.default_rng(4)
    first, second = (policy.act(obs, deterministic=False, rng=generator) for _ in range(2))
    np.testing.assert_array_equal(first, drawn)
    assert (second != drawn).mean() > 0.1
    own = [made([naive.field("x", shape=(2,))], PICK)[0] for _ in range(2)]  # of the same seed
    for _ in range(2):
        one, other = (each.act(obs, deterministic=False) for each in own)
        np.testing.assert_array_equal(one, other)


def test_masks_are_kept_to():
    policy, _, _ = made([naive.field("x", shape=(2,))], PICK, masked=True)
    obs = np.random.default_rng(1).normal(size=(90, 2)).astype(np.float32)
    mask = np.zeros((90, 3), np.int8)
    mask[np.arange(90), np.arange(90) % 3] = 1
    for deterministic in (True, False):
        acted = policy.act(obs, mask=mask, deterministic=deterministic)
        np.testing.assert_array_equal(acted, np.arange(90) % 3)
    assert policy.act(obs[0], mask=[False, False, True]) == 2
    mask[7] = 0
    with pytest.raises(MaskError, match="mask of row 7 allows no action; allow one"):
        policy.act(obs, mask=mask)
    there = np.arange(90) != 7
    acted = policy.act(obs, mask=mask, there=there)
    np.testing.assert_array_equal(acted[there], np.arange(90)[there] % 3)
    with pytest.raises(ArgumentError, match=r"there has shape \(\): expected \(90,\)"):
        policy.act(obs, mask=mask, there=True)


def test_who_is_away_remembers_what_it_did():
    policy, _, _ = made([naive.field("x", shape=(2,))], PICK, (8, 6), memory="mingru")
    obs, there = np.ones((70, 2)), np.arange(70) % 3 > 0
    state = policy.initial_state(70)
    policy.act(obs, state)
    before = state.copy()
    policy.act(obs, state, there=there)
    np.testing.assert_array_equal(state[~there], before[~there])
    assert (state[there] != before[there]).any(1).all()


def test_it_plays_by_the_infos_of_a_vector_environment():
    policy = load_policy(trained("game_2048"))
    with closing(headrace.make_vec("game_2048", 64)) as vec:
        obs, info = vec.reset(seed=1)
        ended = 0
        for _ in range(400):
            mask, there = info["action_mask"], info["_action_mask"]
            acted = policy.act(obs, mask=mask, there=there, deterministic=False)
            assert (mask[np.arange(64), acted] == 1)[there].all()
            ended += int((~there).sum())
            obs, _, _, _, info = vec.step(acted)
    assert ended > 20  # whose next step only begins anew


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"observations": np.zeros(3)}, r"observations has shape \(3,\) and dtype float64: "
         r"expected numbers of shape \(2,\), or \(rows, 2\) for a batch"),
        ({"observations": ["a", "b"]}, "observations has shape .* expected numbers"),
        ({"observations": np.zeros((5, 2))}, r"state is missing: .* policy.initial_state\(5\)"),
        ({"observations": np.zeros(2)}, r"state is missing: .* policy.initial_state\(\)"),
        ({"observations": np.zeros((5, 2)), "state": np.zeros((4, 6), np.float32)},
         r"state is float32 \(4, 6\): expected float32 \(5, 6\)"),
        ({"observations": np.zeros((5, 2)), "state": [[0.0] * 6] * 5}, "state is list"),
        ({"observations": np.zeros((5, 2)), "state": np.zeros((5, 6), np.float32),
          "episode_start": [True]}, r"episode_start has shape \(1,\): expected \(5,\)"),
        ({"observations": np.zeros((5, 2)), "state": np.zeros((5, 6), np.float32),
          "mask": np.ones((5, 3))}, "mask is given, but 'made' has no action masks"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(given, message):
    policy, _, _ = made([naive.field("x", shape=(2,))], PICK, (8, 6), memory="mingru")
    with pytest.raises(ArgumentError, match=message):
        policy.act(**given)


def test_members_that_do_not_fit_are_named():
    obs = [naive.field("where", "int32", choices=5), naive.field("x", shape=(3,))]
    policy, _, _ = made(obs, PICK, masked=True)
    good = {"where": np.zeros(4, np.int64), "x": np.zeros((4, 3))}
    assert policy.act(good).shape == (4,)
    for given, message in [
        ({"x": good["x"]}, "observations has 'x': expected a dict of 'where', 'x'"),
        (good["x"], "observations is ndarray: expected a dict of 'where', 'x'"),
        ({**good, "x": np.zeros((3, 3))}, r"observations\['x'\] has shape \(3, 3\)"),
        (
            {**good, "where": np.full(4, 0.5)},
            r"observations\['where'\]\[0\] is 0.5: expected a value of Discrete\(5",
        ),
        ({**good, "x": [[0.0] * 3, [0.0] * 2]}, r"observations\['x'\] is no array: .* shape"),
    ]:
        with pytest.raises(ArgumentError, match=message):
            policy.act(given)
    with pytest.raises(ArgumentError, match=r"mask has shape \(4, 2\): expected \(4, 3\)"):
        policy.act(good, mask=np.ones((4, 2)))


NUMBERS = spaces.Dict(
    {
        "bytes": spaces.Box(0, 255, (2,), np.uint8),
        "gear": spaces.Discrete(5, start=-1),
        "lamps": spaces.MultiBinary(2),
        "rooms": spaces.MultiDiscrete([3, 4], start=[0, 1]),
        "speed": spaces.Box(-1.0, 1.0, (2,)),
    }
)


def free(observation, action):
    """A LoadedPolicy of an environment in Python, with random weights."""
    codec = Codec.of_spaces("free", observation, action, agents=1)
    policy = PolicySpec.from_env(codec.spec, (8,))
    params = np.float32(np.random.default_rng(0).normal(size=policy.num_params))
    return LoadedPolicy(
        codec, Acting(NativeActor(policy), policy, policy.weights(params)), 0, seed=1
    )


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("bytes", np.uint16([3, 300]), r"\['bytes'\]%s[1\] is 300: expected uint8, as its env"),
        ("bytes", np.int8([-1, 3]), r"\['bytes'\]%s[0\] is -1: expected uint8"),
        ("bytes", [3.0, np.nan], r"\['bytes'\]%s[1\] is nan: expected uint8"),
        ("gear", 4, r"\['gear'\]%s is 4: expected a value of Discrete\(5, start=-1"),
        ("gear", -2, r"\['gear'\]%s is -2: expected a value of Discrete"),
        ("gear", np.nan, r"\['gear'\]%s is nan: expected a value of Discrete"),
        ("gear", 2**40, r"\['gear'\]%s is 1099511627776: expected a value of Discrete"),
        ("lamps", [1, 2], r"\['lamps'\]%s[1\] is 2: expected a value of MultiBinary"),
        ("rooms", [0, 0], r"\['rooms'\]%s[1\] is 0: expected a value of MultiDiscrete"),
        ("rooms", [3, 1], r"\['rooms'\]%s[0\] is 3: expected a value of MultiDiscrete"),
        ("speed", [np.nan, 0], r"\['speed'\]%s[0\] is nan: expected a number"),
    ],
)
def test_numbers_that_the_space_cannot_hold_are_named(name, value, message):
    policy = free(NUMBERS, spaces.Discrete(3))
    good = NUMBERS.sample()
    assert policy.act({**good, "bytes": good["bytes"].astype(np.int64)}) == policy.act(good)
    batch = {key: np.stack([np.asarray(part)] * 3) for key, part in good.items()}
    wrong = dict(batch)
    wrong[name] = np.stack([batch[name][0], batch[name][0], value])
    alone = message.replace("%s[", r"\[").replace("%s", "")
    row = message.replace("%s[", r"\[2, ").replace("%s", r"\[2\]")
    for deterministic in (True, False):
        with pytest.raises(ArgumentError, match=alone):
            policy.act({**good, name: value}, deterministic=deterministic)
        with pytest.raises(ArgumentError, match=row):
            policy.act(wrong, deterministic=deterministic)
    there = np.array([True, True, False])  # nobody asks what the last one does
    np.testing.assert_array_equal(policy.act(wrong, there=there)[:2], policy.act(batch)[:2])


@pytest.mark.parametrize(
    "action",
    [
        spaces.Box(-1.0, 1.0, (2, 3)),
        spaces.Box(-1.0, 1.0, ()),
        spaces.Discrete(4, start=2),
        spaces.MultiDiscrete([3, 4]),
        STRUCTURED,
    ],
    ids=str,
)
def test_actions_of_nobody_are_none(action):
    none = free(spaces.Box(-1.0, 1.0, (4,)), action).act(np.zeros((0, 4)))
    leaves = leaves_of(action, "action")
    arrays = leaf_arrays(none)
    assert [each.shape for each in arrays] == [(0, *leaf.shape) for leaf in leaves]
    assert [each.dtype for each in arrays] == [leaf.dtype for leaf in leaves]


def test_keys_whose_fields_would_share_a_name_stay_apart():
    keys = {"a": spaces.Dict(b=spaces.Discrete(3)), "a.b": spaces.Discrete(4)}
    space = spaces.Dict({**keys, "a.b.2": spaces.MultiDiscrete([2, 5])})
    codec = Codec.of_spaces("any", space, space, agents=1)
    names = ["a.b", "a.b.2", "a.b.2.2.0", "a.b.2.2.1"]
    assert [field.name for field in codec.spec.obs_fields] == names
    assert [name for name, _, _ in codec.parts[1].leaf_fields()] == ["a.b", "a.b.2", "a.b.2.2"]
    value = {"a": {"b": np.array([2, 1])}, "a.b": np.array([3, 0]), "a.b.2": np.array([[1, 4]] * 2)}
    assert_equal(codec.parts[0].unpack(codec.pack(value).view(codec.parts[0].dtype)[:, 0]), value)
    assert free(space, space).act(value)["a.b"].shape == (2,)
    read = interface.from_json(interface.to_json(codec))
    assert read.spec.obs_fields == codec.spec.obs_fields


# ---- what is loaded ------------------------------------------------------------------------


ALONE = """
import sys
import numpy as np
import headrace
policy = headrace.load_policy("r")
print(int(policy.act(np.float32([0.5, 0.0]))))
loaded = {name.removeprefix("headrace.") for name in sys.modules if name.startswith("headrace.")}
parts = "session ppo learner collector pipeline stepped torch_learner environments evaluate"
print(sorted(loaded & {f"trainers.{part}" for part in parts.split()}), "torch" in sys.modules)
"""


def test_neither_trainer_nor_environment_is_loaded(point, tmp_path):
    file = tmp_path / "own.c"
    file.write_text(point.read_text())
    run = trained(str(file))
    expected = int(load_policy(run).act(np.float32([0.5, 0.0])))
    file.unlink()  # it cannot be made any more
    done = subprocess.run(
        [sys.executable, "-c", ALONE], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.split("\n") == [str(expected), "[] False", ""]


def test_code_of_ones_own_is_named_again(tmp_path):
    torch = pytest.importorskip("torch")
    (tmp_path / "net.py").write_text("from headrace import nn\nNet = nn.MLP\n")
    run = trained("cartpole", policy="net.py:Net")
    with pytest.raises(ConfigError, match=r"name it again, with --policy .*net.py:Net, or in Pyth"):
        load_policy(run)
    obs = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
    acted = load_policy(run, policy="net.py:Net").act(obs)
    from headrace import nn

    np.testing.assert_array_equal(load_policy(run, policy=nn.MLP).act(obs), acted)
    space = spaces.Box(-np.inf, np.inf, (4,))
    module = nn.MLP(space, spaces.Discrete(2))
    np.testing.assert_array_equal(load_policy(run, policy=module).act(obs), acted)
    assert isinstance(module, torch.nn.Module)
    with pytest.raises(RunError, match=r"policy.safetensors does not fit this run: tensor 'trunk"):
        load_policy(run, policy=nn.MLP(space, spaces.Discrete(2), (5,)))


@pytest.mark.parametrize("policy", ["native", "torch"])
def test_a_module_for_a_run_that_needs_none_is_refused(policy):
    nn = pytest.importorskip("torch").nn
    run, message = (
        trained("cartpole", policy=policy),
        f"policy is a Linear, but this run's is {policy}",
    )
    with pytest.raises(ConfigError, match=message):
        load_policy(run, policy=nn.Linear(4, 2))
    with pytest.raises(ConfigError, match=message):
        headrace.evaluate(run, policy=nn.Linear(4, 2))


def test_torch_stays_as_the_caller_has_it(monkeypatch):
    """Its threads, and the generators of CUDA whether it has been used or not."""
    torch = pytest.importorskip("torch")
    run = trained("cartpole", policy="torch")
    state = torch.zeros(2, dtype=torch.int64)  # seeds of two devices
    cuda = {
        "device_count": lambda: 2,
        "get_rng_state": lambda device: state[device].clone(),
        "set_rng_state": lambda new, device: state[device].copy_(new),
        "manual_seed_all": lambda seed: state.fill_(seed),
        "manual_seed": None,
        "is_available": lambda: True,
    }
    for name, stub in cuda.items():
        monkeypatch.setattr(torch.cuda, name, stub)
    for used in (False, True):
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda used=used: used)
        state[:] = torch.tensor([71, 72])
        before = torch.get_rng_state()
        policy = load_policy(run)
        assert state.tolist() == [71, 72]
        assert torch.equal(torch.get_rng_state(), before)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        policy.act(np.zeros(4))
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(threads)


def test_checkpoints_by_name():
    run = headrace.train("cartpole", run_dir="r", steps=20_000, checkpoint_seconds=1e-9).run
    first, *_, last = sorted(int(path.name) for path in Path(run, "checkpoints").glob("[0-9]*"))
    assert load_policy(run).steps == last
    assert load_policy(run, checkpoint=first).steps == first < last
    with pytest.raises(RunError, match="has no checkpoint 7; there are"):
        load_policy(run, checkpoint=7)
    with pytest.raises(ConfigError, match="device cuda needs a torch policy"):
        load_policy(run, device="cuda")


def test_older_runs_say_how_to_go_on():
    run = trained("cartpole")
    Path(run, "environment.json").unlink()
    with pytest.raises(RunError, match="kept no spaces; headrace train --resume r writes it"):
        load_policy(run)
    headrace.train(resume=run)
    assert load_policy(run).act(np.zeros(4)) in (0, 1)


class Cells(gymnasium.Env):
    """A grid of whole numbers from 0 to 3, held in some dtype."""

    observation_space = spaces.Box(0, 3, (6,), np.uint8)
    action_space = spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), float(action), False, True, {}


class Wide(Cells):
    observation_space = spaces.Box(0, 3, (6,), np.int64)


def value_of(policy):
    """What a LoadedPolicy expects of a grid of 1 to 3."""
    seen = np.array([[1, 2, 3, 1, 2, 3]], policy.observation_space.dtype)
    return policy._actor.value(policy._weights, policy._codec.pack(seen), np.zeros((1, 0)))[0]


@pytest.mark.parametrize("policy", ["native", "torch"])
@pytest.mark.parametrize("env", [Cells, Wide])
def test_runs_from_before_grids_were_divided_read_on_what_they_learned_from(env, policy):
    if policy == "torch":
        pytest.importorskip("torch")
    run = trained(env, policy=policy, num_envs=4, normalize_obs=False, lr=0.1)
    file = Run.open(run).checkpoint_path(Run.open(run).latest()) / "policy.safetensors"
    tensors = safetensors.numpy.load_file(file)
    assert tensors["obs.divisor"].tolist() == [3.0]
    now = load_policy(run)
    tensors.pop("obs.divisor")  # as those runs are
    safetensors.numpy.save_file(tensors, file)
    file.with_name("SHA256SUMS").unlink()
    old = load_policy(run)
    plain = 255 if env is Cells else 1
    assert old._policy.divisors == (plain,)
    assert value_of(now) != value_of(old)
    with pytest.raises(TensorError, match=r"trained on observations divided by"):
        now._policy.from_tensors(tensors)
    resumed = headrace.train(resume=run, env=env, steps=40, target=None)
    assert "obs.divisor" not in Run.open(run).load_policy(Run.open(run).latest())
    assert load_policy(resumed.run)._policy.divisors == (plain,)
