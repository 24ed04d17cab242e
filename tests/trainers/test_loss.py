"""The PPO loss and its gradient: against NumPy, and against torch's autograd in float64."""

import dataclasses

import naive
import numpy as np
import pytest
from rollouts import random_rollout

from headrace.trainers import _native

OPTIONS = {"clip": 0.2, "vf_clip": 0.0, "vf_coef": 0.5, "ent_coef": 0.01}

POLICIES = [
    # features, heads, hidden, options
    (4, [2], (64,), {}),
    (4, [2], (128,), {"activation": "relu"}),
    (1, [3], (1,), {}),
    (70, [2, 5, 3], (16, 3), {}),
    (6, [0, 0], (65,), {}),
    (5, [4, 0, 2, 0], (16, 16, 16), {"separate": True}),
    (3, [18, 2], (64, 64), {"masked": True}),
    (7, [3, 0], (9,), {"masked": True, "separate": True, "activation": "relu"}),
    (5, [2, 0], (), {}),
]
IDS = [f"{f}-{h}-{w}-{'-'.join(o)}" for f, h, w, o in POLICIES]


def make_learner(
    policy, params, *, workers=None, clip=0.2, vf_clip=0.0, vf_coef=0.5, weight_max=5.0, **_
):
    return _native.Learner(
        policy.net,
        workers or _native.Workers(),
        params,
        key=1,
        epochs=1,
        minibatches=1,
        normalize_advantage=False,
        clip=clip,
        value_clip=vf_clip,
        value_coef=vf_coef,
        max_grad_norm=0.0,
        betas=(0.9, 0.999),
        eps=1e-5,
        weight_max=weight_max,
    )


def case(number, seed=0, **options):
    """A policy of POLICIES, its parameters, a rollout and its rows."""
    features, heads, hidden, shape = POLICIES[number]
    rng = np.random.default_rng([number, seed])
    policy = naive.make_policy(features, heads, hidden, **shape)
    params = policy.init(number)
    params += (0.2 * rng.standard_normal(len(params))).astype(np.float32)
    ro, rows = random_rollout(policy, params, rng, **options)
    return policy, params, ro, rows


def torch_gradient(
    torch, policy, params, rows, *, clip, vf_clip, vf_coef, ent_coef, weight_max=5.0
):
    """Autograd's gradient of the loss, float64."""
    p = torch.tensor(np.asarray(params, np.float64), requires_grad=True)
    t = {name: p[o : o + int(np.prod(s))].reshape(s) for name, o, s in policy.tensors}
    live = torch.tensor(rows["valid"] > 0)
    r = {
        k: torch.tensor(np.asarray(v, np.float64))[live]
        for k, v in rows.items()
        if v is not None and k not in ("valid", "done", "states", "horizon")
    }
    act = torch.tanh if policy.activation == "tanh" else torch.relu

    def tower(trunk, head):
        h = r["obs"]
        for k in range(len(policy.hidden)):
            h = act(h @ t[f"{trunk}.{k}.weight"].T + t[f"{trunk}.{k}.bias"])
        return h @ t[f"{head}.weight"].T + t[f"{head}.bias"]

    names = ("policy_trunk", "value_trunk") if policy.separate else ("trunk", "trunk")
    out, value = tower(names[0], "policy"), tower(names[1], "value")[:, 0]
    options = {"clip": clip, "vf_clip": vf_clip, "vf_coef": vf_coef, "ent_coef": ent_coef}
    torch_loss(torch, policy, t.get("log_std"), out, value, r, weight_max, **options).backward()
    return p.grad.numpy()


def torch_loss(
    torch, policy, log_std, out, value, r, weight_max=5.0, *, clip, vf_clip, vf_coef, ent_coef
):
    """The mean loss of outputs and values, given the other columns of valid rows, float64."""
    logp = entropy = torch.zeros(len(value), dtype=torch.float64)
    at = column = number = 0
    for k, head in enumerate(policy.heads):
        if head.size:
            logits = out[:, at : at + head.size]
            if "mask" in r:
                allowed = r["mask"][:, column : column + head.size] > 0
                logits = logits.masked_fill(~allowed, -1e30)
            d = torch.distributions.Categorical(logits=logits)
            column += head.size
        else:
            d = torch.distributions.Normal(out[:, at], log_std[number].exp())
            number += 1
        logp = logp + d.log_prob(r["actions"][:, k])
        entropy = entropy + d.entropy()
        at += head.outputs
    ratio = (logp - r.get("proximal", r["logp"])).exp()
    surrogate = torch.max(
        -r["advantage"] * ratio, -r["advantage"] * ratio.clamp(1 - clip, 1 + clip)
    )
    if "proximal" in r:
        surrogate = surrogate * (r["proximal"] - r["logp"]).exp().clamp(max=weight_max)
    error = (value - r["ret"]) ** 2
    if vf_clip > 0:
        bounded = r["value"] + (value - r["value"]).clamp(-vf_clip, vf_clip)
        error = torch.max(error, (bounded - r["ret"]) ** 2)
    return surrogate.mean() + vf_coef * 0.5 * error.mean() - ent_coef * entropy.mean()


@pytest.mark.parametrize("number", range(len(POLICIES)), ids=IDS)
@pytest.mark.parametrize("vf_clip", [0.0, 0.5])
def test_gradient_agrees_with_torch(number, vf_clip):
    torch = pytest.importorskip("torch")
    options = {**OPTIONS, "vf_clip": vf_clip}
    policy, params, ro, rows = case(number)
    got, _ = make_learner(policy, params, **options).gradient(ro, options["ent_coef"])
    expected = torch_gradient(torch, policy, params, rows, **options)
    layers: dict[str, list[int]] = {}  # a layer's weight and bias count as one
    for name, offset, shape in policy.tensors:
        indices = range(offset, offset + int(np.prod(shape)))
        layers.setdefault(name.rpartition(".")[0] or name, []).extend(indices)
    for name, part in layers.items():
        error = np.linalg.norm(got[part] - expected[part]) / np.linalg.norm(expected[part])
        assert error <= 1e-5, name


@pytest.mark.parametrize("number", range(len(POLICIES)), ids=IDS)
@pytest.mark.parametrize("level", ["base", "v3", "v4"])
def test_sums_and_gradient_agree_with_numpy(number, level):
    policy, params, ro, rows = case(number, seed=1)
    policy = dataclasses.replace(policy, isa=level)
    try:
        learner = make_learner(policy, params)
    except ValueError:
        pytest.skip(f"no {level} on this machine")
    got, sums = learner.gradient(ro, 0.01, advantage_mean=0.25, advantage_scale=2.0)
    scaled = {"clip": 0.2, "vf_clip": 0.0, "advantage_mean": 0.25, "advantage_scale": 2.0}
    expected = naive.loss_sums(policy, params, rows, **scaled)
    np.testing.assert_allclose(sums, expected, rtol=1e-4, atol=1e-3)
    indices = np.random.default_rng(0).choice(len(params), min(len(params), 6), replace=False)
    options = {**scaled, "vf_coef": 0.5, "ent_coef": 0.01}
    slow = naive.gradient(policy, params, rows, indices, **options)
    np.testing.assert_allclose(got[indices], slow, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("number", [0, 3, 5, 6])
def test_rows_that_are_not_valid_change_nothing(number):
    policy, params, ro, _ = case(number)
    learner = make_learner(policy, params)
    before, sums = learner.gradient(ro, 0.01)
    gone = ro.valid == 0
    assert 0.05 < gone.mean() < 0.2
    for name in ("logp", "value", "advantage", "ret"):
        getattr(ro, name)[gone] = np.nan
    ro.obs.transpose(0, 2, 1)[gone] = 1e3
    after, sums_after = learner.gradient(ro, 0.01)
    np.testing.assert_array_equal(before, after)
    np.testing.assert_array_equal(sums, sums_after)


def test_padding_changes_nothing():
    """8 rows in a tile of 64: the mean is over the 8."""
    policy, params, ro, rows = case(0, worlds=8, horizon=1)
    ro.valid[:] = 0
    ro.valid[0, :8] = 1
    ro.count_rows()
    rows["valid"] = ro.valid.reshape(-1)
    assert ro.steps == 8
    got, _ = make_learner(policy, params).gradient(ro, 0.01)
    indices = np.arange(0, len(params), 37)
    slow = naive.gradient(policy, params, rows, indices, **OPTIONS)
    np.testing.assert_allclose(got[indices], slow, rtol=1e-3, atol=1e-6)


def test_entropy_alone_pushes_towards_uniform():
    policy, params, ro, _ = case(0)
    ro.advantage[:] = 0
    got, _ = make_learner(policy, params, vf_coef=0.0).gradient(ro, 0.5)
    none, _ = make_learner(policy, params, vf_coef=0.0).gradient(ro, 0.0)
    assert np.abs(none).max() == 0.0
    assert np.abs(got).max() > 1e-4
