"""Policies with a memory: kernels against NumPy, gradients through time against autograd's."""

import naive
import numpy as np
import pytest
from rollouts import random_rollout
from test_loss import OPTIONS, make_learner, torch_loss
from test_policy import LEVELS, at_level

from headrace.engine import _core
from headrace.engine._core import pool_api
from headrace.engine.errors import ArgumentError
from headrace.trainers import _native
from headrace.trainers.policy import PolicySpec

POLICIES = [
    # features, heads, hidden, options
    (4, [2], (64, 64), {}),
    (1, [3], (1,), {}),
    (6, [0, 0], (9, 65), {"activation": "relu"}),
    (3, [18, 2, 0], (16, 7, 20), {"masked": True}),
]
IDS = [f"{f}-{h}-{w}-{'-'.join(o)}" for f, h, w, o in POLICIES]


def case(number, seed=0, *, horizon=11, worlds=100):
    """A policy of POLICIES, its parameters, a rollout and its rows."""
    features, heads, hidden, shape = POLICIES[number]
    rng = np.random.default_rng([number, seed])
    policy = naive.make_policy(features, heads, hidden, memory="mingru", **shape)
    params = policy.init(number)
    params += (0.2 * rng.standard_normal(len(params))).astype(np.float32)
    ro, rows = random_rollout(policy, params, rng, horizon=horizon, worlds=worlds)
    return policy, params, ro, rows


# ---- kernels -----------------------------------------------------------------------------


def tile(rng, *shape):
    array = _native.aligned((*shape, 64), np.float32)
    array[:] = 3 * rng.standard_normal(array.shape)
    return array


def flags(rng, share):
    column = _native.aligned((64,), np.float32)
    column[:] = rng.random(64) < share
    return column


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("size", [1, 5, 64])
@pytest.mark.parametrize("flagged", [False, True])
def test_a_step_agrees_with_numpy(size, flagged, level):
    rng = np.random.default_rng(size)
    net = at_level(naive.make_policy(2, [2], (4,), memory="mingru"), level).net
    before, given = tile(rng, size), tile(rng, 2 * size)
    given[0, :4] = [-200.0, 200.0, 0.0, -0.0]
    given[size, :4] = [-200.0, 200.0, 0.0, -0.0]
    began, live = (flags(rng, 0.3), flags(rng, 0.7)) if flagged else (None, None)
    _, after = net.mingru(before, began, live, given)
    no, yes = np.zeros(64, bool), np.ones(64, bool)
    expected = naive.mingru(
        before.T.astype(np.float64),
        began > 0 if flagged else no,
        live > 0 if flagged else yes,
        *np.split(given.T.astype(np.float64), 2, axis=1),
    )
    np.testing.assert_allclose(after.T, expected, rtol=1e-6, atol=3e-6)


@pytest.mark.parametrize("level", LEVELS)
def test_the_way_back_agrees_with_differences(level):
    rng = np.random.default_rng(3)
    size = 6
    net = at_level(naive.make_policy(2, [2], (4,), memory="mingru"), level).net
    before, given, began, live = (
        tile(rng, size),
        tile(rng, 2 * size),
        flags(rng, 0.3),
        flags(rng, 0.7),
    )
    dafter, carry = tile(rng, size), tile(rng, size)
    dafter[:, live == 0] = 0.0  # of a row that was no step, the heads give none
    left, _ = net.mingru(before, began, live, given)
    dgiven, dbefore = net.mingru_back(before, began, live, left, dafter, carry)

    def total(before, given):
        after = naive.mingru(before.T, began > 0, live > 0, *np.split(given.T, 2, axis=1))
        return ((dafter + carry).T * after).sum(1)  # each row by itself

    exact, step = (before.astype(np.float64), given.astype(np.float64)), 1e-6
    for at, got in ((0, dbefore), (1, dgiven)):
        for u in range(len(got)):
            up, down = ([a.copy() for a in exact] for _ in range(2))
            up[at][u] += step
            down[at][u] -= step
            slow = (total(*up) - total(*down)) / (2 * step)
            np.testing.assert_allclose(got[u], slow, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("number", range(len(POLICIES)), ids=IDS)
def test_forward_agrees_with_numpy(number, level):
    policy, params, _, rows = case(number)
    policy = at_level(policy, level)
    obs = naive.by_step(rows, "obs")
    state = rows["states"].copy()
    no, yes = np.zeros((len(obs), len(state)), bool), np.ones((len(obs), len(state)), bool)
    expected, last = naive.unroll(policy, params, obs, state.astype(np.float64), no, yes)
    for t in range(len(obs)):
        heads, value = policy.forward(params, np.ascontiguousarray(obs[t]), state)
        np.testing.assert_allclose(heads, expected[t][:, :-1], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(value, expected[t][:, -1], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(state, last, rtol=1e-5, atol=1e-5)


# ---- loss and gradient -------------------------------------------------------------------


def torch_gradient(torch, policy, params, rows, **options):
    """Autograd's gradient of the loss, float64, through the torch module of the same shape; by
    the names of its parameters."""
    from headrace import nn

    spaces = policy.env.single_observation_space, policy.env.single_action_space
    module = nn.Recurrent(
        *spaces, "mingru", policy.state_size, policy.trunk, activation=policy.activation
    )
    tensors = policy.to_tensors(policy.weights(params))
    module.load_state_dict({name: torch.from_numpy(t) for name, t in tensors.items()})
    module.double()

    def steps(name):
        return torch.from_numpy(naive.by_step(rows, name)).double()

    live, states = steps("valid") > 0, torch.from_numpy(rows["states"]).double()
    began = torch.from_numpy(naive.began(rows))
    outputs, value = nn.unroll(module, steps("obs"), states, began, live)
    names = ("logp", "value", "advantage", "ret", "actions", "mask")
    columns = {name: steps(name)[live] for name in names if rows[name] is not None}
    log_std = getattr(module.heads, "log_std", None)
    args = log_std, outputs[live], value[live], columns
    torch_loss(torch, policy, *args, **options).backward()
    return {name: p.grad.numpy() for name, p in module.named_parameters()}


@pytest.mark.parametrize("horizon", [1, 8, 20])
@pytest.mark.parametrize("number", range(len(POLICIES)), ids=IDS)
def test_gradient_agrees_with_torch(number, horizon):
    torch = pytest.importorskip("torch")
    options = {**OPTIONS, "vf_clip": 0.5}
    policy, params, ro, rows = case(number, horizon=horizon)
    got, _ = make_learner(policy, params, **options).gradient(ro, options["ent_coef"])
    expected = torch_gradient(torch, policy, params, rows, **options)
    parts: dict[str, list[np.ndarray]] = {}  # a layer's weight and bias count as one
    for name, own in naive.named(policy, got).items():
        parts.setdefault(name.rpartition(".")[0], []).append((own, expected[name]))
    for name, pairs in parts.items():
        own, theirs = (np.concatenate([p[k].ravel() for p in pairs]) for k in (0, 1))
        assert np.linalg.norm(own - theirs) <= 1e-5 * np.linalg.norm(theirs), name


@pytest.mark.parametrize("number", range(len(POLICIES)), ids=IDS)
@pytest.mark.parametrize("level", LEVELS)
def test_sums_and_gradient_agree_with_numpy(number, level):
    policy, params, ro, rows = case(number, seed=1)
    policy = at_level(policy, level)
    got, sums = make_learner(policy, params).gradient(ro, 0.01)
    expected = naive.loss_sums(policy, params, rows, clip=0.2, vf_clip=0.0)
    np.testing.assert_allclose(sums, expected, rtol=1e-4, atol=1e-3)
    indices = np.random.default_rng(0).choice(len(params), min(len(params), 6), replace=False)
    slow = naive.gradient(policy, params, rows, indices, **OPTIONS)
    np.testing.assert_allclose(got[indices], slow, rtol=1e-3, atol=1e-5)


def test_what_is_no_step_and_what_has_ended_change_nothing():
    """Observations of rows that were no step, and of what came before an episode, are not felt by
    later steps."""
    policy, params, ro, _ = case(0)
    learner = make_learner(policy, params)
    before, _ = learner.current_logp(ro)
    gone, horizon = ro.valid == 0, ro.horizon
    ro.obs.transpose(0, 2, 1)[gone] = 1e3
    np.testing.assert_array_equal(learner.current_logp(ro)[0][~gone], before[~gone])
    ro.done[:] = 0.0
    ro.done[0::horizon] = 1.0  # every episode begins at step 1
    before, _ = learner.current_logp(ro)
    ro.obs[0::horizon] += 1.0
    ro.states[:] = 7.0
    after, _ = learner.current_logp(ro)
    later = np.arange(len(after)) % horizon > 0
    np.testing.assert_array_equal(after[later], before[later])
    assert not np.array_equal(after[~later], before[~later])


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_gradients_do_not_depend_on_threads(workers):
    policy, params, ro, _ = case(0, worlds=700)
    alone, sums = make_learner(policy, params).gradient(ro, 0.01)
    pool = _core.Pool(workers)
    many = _native.Workers(pool_api, pool.capsule)
    got, own = make_learner(policy, params, workers=many).gradient(ro, 0.01)
    np.testing.assert_array_equal(got, alone)
    np.testing.assert_array_equal(own, sums)
    pool.close()


def test_sequences_too_long_for_the_memory_are_refused(monkeypatch):
    policy, params, ro, _ = case(0)
    monkeypatch.setattr(_native, "available_memory", lambda: 1000)
    with pytest.raises(ArgumentError, match="learning from 11 steps would need"):
        make_learner(policy, params).gradient(ro, 0.01)


# ---- parameters --------------------------------------------------------------------------


def test_tensors_are_those_of_the_torch_module():
    torch = pytest.importorskip("torch")
    from headrace import nn

    policy = naive.make_policy(5, [3, 0], (16, 8), memory="mingru")
    spaces = policy.env.single_observation_space, policy.env.single_action_space
    module = nn.Recurrent(*spaces, "mingru", 8, (16,))
    shapes = {name: tuple(t.shape) for name, t in module.state_dict().items()}
    assert {name: shape for name, _, shape in policy.tensors} == shapes
    ours = naive.named(policy, policy.init(0))
    bias = module.core.input.bias.detach().numpy()
    np.testing.assert_allclose(ours["core.input.bias"], bias, atol=1e-6)
    for name in ("encoder.layers.0.weight", "core.input.weight", "heads.policy.weight"):
        own, theirs = ours[name], module.state_dict()[name].numpy()
        assert np.linalg.norm(own) == pytest.approx(np.linalg.norm(theirs), rel=1e-5)
    assert torch.equal(module.heads.log_std.detach(), torch.zeros(1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory": "lstm"}, "memory is 'lstm': expected 'none' or 'mingru'"),
        ({"memory": "mingru", "separate": True}, "policy and value share"),
        ({"memory": "mingru", "hidden": ()}, "policy and value share"),
    ],
)
def test_impossible_memories_are_refused(options, message):
    spec = naive.make_spec([naive.field("x")], [naive.field("a", "int32", choices=2)])
    with pytest.raises(ArgumentError, match=message):
        PolicySpec.from_env(spec, **options)
