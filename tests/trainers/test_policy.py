"""Policies: shapes, initialisation, encoding, forward, sampling, each against its NumPy twin."""

import dataclasses
import math

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rollouts import mask_tiles

from headrace.engine.errors import ArgumentError
from headrace.trainers import _native, encoding
from headrace.trainers.policy import PolicySpec, TensorError, seed_key
from headrace.trainers.tiles import from_tiles, to_tiles

LEVELS = ["base", "v3", "v4"]


def at_level(policy, level):
    """The policy with kernels of one instruction-set level; skips where the CPU lacks it."""
    policy = dataclasses.replace(policy, isa=level)
    try:
        policy.net  # noqa: B018
    except ValueError:
        pytest.skip(f"no {level} on this machine")
    return policy


def random_params(policy, rng, scale=0.5):
    return (scale * rng.standard_normal(policy.num_params)).astype(np.float32)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("hidden", [(), (1,), (3,), (16,), (65,), (128,), (64, 64), (7, 5, 9)])
def test_forward_agrees_with_numpy(hidden, separate, activation, level):
    rng = np.random.default_rng([len(hidden), *hidden, separate])
    for features in (1, 2, 5, 70):
        policy = naive.make_policy(
            features, [3, 0, 2], hidden, activation=activation, separate=separate
        )
        policy = at_level(policy, level)
        params = random_params(policy, rng)
        x = rng.standard_normal((100, features)).astype(np.float32)
        heads, value = policy.forward(params, x)
        expected = naive.forward(policy, params, x)
        scale = np.abs(expected).max()
        np.testing.assert_allclose(heads, expected[:, :-1], atol=3e-6 * scale)
        np.testing.assert_allclose(value, expected[:, -1], atol=3e-6 * scale)


@settings(max_examples=40, deadline=None)
@given(
    features=st.integers(1, 70),
    hidden=st.lists(st.integers(1, 130), max_size=3),
    heads=st.lists(st.sampled_from([0, 1, 2, 3, 7, 18]), min_size=1, max_size=4),
    rows=st.integers(1, 130),
    separate=st.booleans(),
)
def test_forward_of_any_shape(features, hidden, heads, rows, separate):
    rng = np.random.default_rng(features)
    policy = naive.make_policy(features, heads, tuple(hidden), separate=separate)
    params = random_params(policy, rng)
    x = rng.standard_normal((rows, features)).astype(np.float32)
    logits, value = policy.forward(params, x)
    expected = naive.forward(policy, params, x)
    assert logits.shape == (rows, policy.outputs - 1)
    got = np.concatenate([logits, value[:, None]], 1)
    np.testing.assert_allclose(got, expected, atol=1e-5 * max(1.0, np.abs(expected).max()))


def test_tanh_is_accurate_everywhere():
    policy = naive.make_policy(1, [2], (1,))
    params = np.zeros(policy.num_params, np.float32)
    t = naive.named(policy, params)
    t["trunk.0.weight"][:] = t["value.weight"][:] = 1.0
    x = np.concatenate([np.linspace(-12, 12, 5000), np.geomspace(1e-30, 1, 500), [-1e30, 1e30]])
    x = x.astype(np.float32)[:, None]
    for level in LEVELS:
        _, value = at_level(policy, level).forward(params, x)
        np.testing.assert_allclose(value, np.tanh(x[:, 0].astype(np.float64)), rtol=1e-6, atol=5e-7)
    _, value = policy.forward(params, np.full((1, 1), np.nan, np.float32))
    assert np.isnan(value[0])


# ---- parameters --------------------------------------------------------------------------


def test_tensors_cover_the_parameters_once():
    for separate in (False, True):
        policy = naive.make_policy(5, [3, 0, 0], (7, 4), separate=separate)
        at = 0
        for _, offset, shape in policy.tensors:
            assert offset == at
            at += math.prod(shape)
        assert at == policy.num_params
    names = [name for name, _, _ in naive.make_policy(5, [3, 0], (7,)).tensors]
    assert names == [
        "trunk.0.weight", "trunk.0.bias", "policy.weight", "value.weight", "policy.bias",
        "value.bias", "log_std",
    ]  # fmt: skip


def test_initial_weights_are_orthogonal_and_seeded():
    policy = naive.make_policy(4, [2], (64, 32))
    t = naive.named(policy, policy.init(3))
    np.testing.assert_allclose(
        t["trunk.0.weight"].T @ t["trunk.0.weight"], 2 * np.eye(4), atol=1e-5
    )
    np.testing.assert_allclose(
        t["trunk.1.weight"] @ t["trunk.1.weight"].T, 2 * np.eye(32), atol=1e-5
    )
    np.testing.assert_allclose(
        t["policy.weight"] @ t["policy.weight"].T, 1e-4 * np.eye(2), atol=1e-8
    )
    assert np.linalg.norm(t["value.weight"]) == pytest.approx(1.0, abs=1e-6)
    assert not t["trunk.0.bias"].any()
    np.testing.assert_array_equal(policy.init(3), policy.init(3))
    assert np.abs(policy.init(3) - policy.init(4)).max() > 0.1


def test_weights_survive_being_saved():
    policy = naive.make_policy(3, [2, 0], (8,))
    rng = np.random.default_rng(0)
    params = random_params(policy, rng)
    mean, scale = rng.standard_normal((2, 3)).astype(np.float32)
    weights = _native.Weights(params, mean, scale, version=5)
    again = policy.from_tensors(policy.to_tensors(weights))
    np.testing.assert_array_equal(again.params, params)
    np.testing.assert_array_equal(again.obs_mean, mean)
    np.testing.assert_array_equal(again.obs_scale, scale)
    plain = policy.to_tensors(policy.weights(params))
    assert "obs.mean" not in plain
    del plain["value.bias"]
    with pytest.raises(ArgumentError, match=r"'value.bias' is missing, expected float32 \[1\]"):
        policy.from_tensors(plain)


def test_weights_cannot_be_changed():
    policy = naive.make_policy(3, [2], (8,))
    weights = policy.weights(policy.init(0))
    with pytest.raises(ValueError, match="read-only"):
        weights.params[0] = 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hidden": (64, 0)}, "hidden is"),
        ({"hidden": (2,) * 16}, "at most 15"),
        ({"activation": "gelu"}, "activation is 'gelu': expected 'tanh' or 'relu'"),
    ],
)
def test_impossible_policies_are_refused(options, message):
    spec = naive.make_spec([naive.field("x")], [naive.field("a", "int32", choices=2)])
    with pytest.raises(ArgumentError, match=message):
        PolicySpec.from_env(spec, **options)


# ---- observations ------------------------------------------------------------------------

FIELDS = [
    naive.field("image", "uint8", (2, 3), low=0, high=255),
    naive.field("room", "int32", choices=5),
    naive.field("speed", "float32", (3,)),
    naive.field("height", "int16", (2,), low=-300, high=20),
    naive.field("signed", "int8", (4,), low=-128, high=127),
    naive.field("cards", "uint8", (2,), choices=4),
    naive.field("count", "int32", low=0, high=1e6),
    naive.field("grid", "uint8", (2,), low=0, high=3),
    naive.field("flag", "uint8", (2,), low=0, high=1),
]


def random_structs(spec, rng, rows):
    structs = np.zeros(rows, spec.obs_dtype)
    for f in spec.obs_fields:
        shape = (rows, *f.shape)
        if f.kind == "discrete":
            structs[f.name] = rng.integers(f.choices, size=shape)
        elif f.dtype == "float32":
            structs[f.name] = rng.standard_normal(shape)
        else:
            limits = np.iinfo(f.dtype)
            structs[f.name] = rng.integers(limits.min, limits.max, size=shape)
    return structs


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 200])
def test_encoding_of_every_dtype(rows):
    rng = np.random.default_rng(rows)
    action = [naive.field("a", "int32", choices=2)]
    for fields in (FIELDS, FIELDS[2:3], [naive.field(n) for n in "abcd"], FIELDS[1:2]):
        spec = naive.make_spec(fields, action)
        policy = PolicySpec.from_env(spec)
        structs = random_structs(spec, rng, rows)
        tiles = policy.net.encode(structs)
        expected = naive.encode(spec, structs)
        assert policy.features == expected.shape[1]
        np.testing.assert_allclose(from_tiles(tiles, rows), expected, rtol=1e-6)
        padding = from_tiles(tiles, len(tiles) * 64)[rows:]
        assert not padding.any()
        view = spec.view_observations(structs)
        np.testing.assert_array_equal(policy.net.encode(policy.obs_structs(view)), tiles)


def test_integers_go_to_one_where_they_are_greatest():
    spec = naive.make_spec(FIELDS, [naive.field("a", "int32", choices=2)])
    structs = np.zeros(1, spec.obs_dtype)
    for name, value in [("image", 255), ("height", -300), ("signed", -128), ("grid", 3)]:
        structs[name] = value
    structs["count"], structs["flag"], structs["speed"] = 7, 1, 0.25
    policy = PolicySpec.from_env(spec)
    assert policy.divisors == (255.0, 1.0, 1.0, 300.0, 128.0, 1.0, 1.0, 3.0, 1.0)
    x = from_tiles(policy.net.encode(structs), 1)[0]
    found = dict(zip(map(policy.feature_name, range(policy.features)), x.tolist(), strict=True))
    assert found["image[0, 0]"] == found["grid[1]"] == found["flag[0]"] == 1.0
    assert found["height[0]"] == found["signed[3]"] == -1.0
    assert (found["count"], found["speed[2]"]) == (7.0, 0.25)


def test_policies_read_on_what_they_were_trained_with():
    """Weights from before grids were divided by their bounds, and those whose bounds have changed
    since, read numbers as they did."""
    spec, action = naive.make_spec, [naive.field("a", "int32", choices=2)]
    grid = spec([naive.field("grid", "uint8", (4,), low=0, high=3)], action)
    picture = spec([naive.field("grid", "uint8", (4,), low=0, high=255)], action)
    new, plain = PolicySpec.from_env(grid), PolicySpec.from_env(picture)
    tensors = new.to_tensors(new.weights(new.init(1)))
    np.testing.assert_array_equal(tensors["obs.divisor"], np.float32([3]))
    assert encoding.saved_divisors(tensors, grid) == encoding.saved_divisors(tensors, picture)
    old = plain.to_tensors(plain.weights(plain.init(1)))
    assert "obs.divisor" not in old  # as the weights of before had none
    assert encoding.saved_divisors(old, grid) == (255.0,)
    structs = np.zeros(1, grid.obs_dtype)
    structs["grid"] = 3
    for saved, number in ((tensors, 1.0), (old, 3 / 255)):
        policy = PolicySpec.from_env(grid, divisors=encoding.saved_divisors(saved, grid))
        policy.from_tensors(saved)
        np.testing.assert_allclose(from_tiles(policy.net.encode(structs), 1), number, rtol=1e-6)
    fields = [naive.field(name, "uint8", (4,), low=0, high=3) for name in ("grid", "other")]
    two = spec(fields, action)
    with pytest.raises(TensorError, match=r"'obs.divisor' is \[1\]: expected \[2\], a number for"):
        encoding.saved_divisors(tensors, two)
    with pytest.raises(ArgumentError, match=r"trained on observations divided by \[255.0\]"):
        new.from_tensors(old)


def test_features_are_named():
    policy = PolicySpec.from_env(naive.make_spec(FIELDS, [naive.field("a", "int32", choices=2)]))
    names = [policy.feature_name(k) for k in range(policy.features)]
    assert names[:3] == ["image[0, 0]", "image[0, 1]", "image[0, 2]"]
    assert names[6:11] == ["room"] * 5
    assert names[11:14] == ["speed[0]", "speed[1]", "speed[2]"]
    assert names[20:28] == ["cards[0]"] * 4 + ["cards[1]"] * 4
    assert names[28:] == ["count", "grid[0]", "grid[1]", "flag[0]", "flag[1]"]


def test_tiles_and_rows_are_inverse():
    x = np.arange(150, dtype=np.float32).reshape(75, 2)
    tiles = to_tiles(x)
    assert tiles.shape == (2, 2, 64)
    assert tiles[1, 1, 3] == x[67, 1]
    np.testing.assert_array_equal(from_tiles(tiles, 75), x)


# ---- actions -----------------------------------------------------------------------------


def sampled(policy, params, out, mask, key, step, greedy=False):
    """Actions as numbers [rows, heads] and their log-probabilities, from outputs [rows, ...]."""
    rows = len(out)
    tiles = None if mask is None else mask_tiles(mask)
    actions, logp = policy.net.sample(params, to_tiles(out), tiles, key, step, greedy)
    bits = from_tiles(actions, rows)
    numbers = bits.astype(np.float64)
    for k, head in enumerate(policy.heads):
        if not head.size:
            numbers[:, k] = np.ascontiguousarray(bits[:, k]).view(np.float32)
    return numbers, logp.reshape(-1)[:rows]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("masked", [False, True])
def test_sampling_agrees_with_numpy(masked, level):
    rng = np.random.default_rng(7)
    policy = at_level(naive.make_policy(3, [2, 0, 5, 0, 0, 1, 3], masked=masked), level)
    params = random_params(policy, rng)
    rows, step, key = 300, 2**33 + 11, seed_key(9)
    out = (2 * rng.standard_normal((rows, policy.outputs))).astype(np.float32)
    mask = (rng.random((rows, policy.env.mask_size)) < 0.5).astype(np.uint8) if masked else None
    if masked:
        mask[:, [1, 4, 7, 8]] = 1  # something is allowed in every head
    actions, logp = sampled(policy, params, out, mask, key, step)
    expected, _ = naive.logp_and_entropy(policy, params, out.astype(np.float64), actions, mask)
    np.testing.assert_allclose(logp, expected, atol=2e-5)
    log_std = naive.named(policy, params)["log_std"]
    at = column = choices = numbers = 0
    for k, head in enumerate(policy.heads):
        if head.size:
            own = mask[:, column : column + head.size] if masked else np.True_
            p = np.exp(naive.log_softmax(out[:, at : at + head.size].astype(np.float64), own))
            u = naive.unit(naive.words(key, rows, step, choices // 2)[choices % 2])
            chosen = actions[:, k].astype(int)
            upper = np.cumsum(p, 1)[np.arange(rows), chosen]
            assert np.all(u <= upper + 1e-6)
            assert np.all(u >= upper - p[np.arange(rows), chosen] - 1e-6)
            assert np.all(p[np.arange(rows), chosen] > 0)
            column, choices = column + head.size, choices + 1
        else:
            w = naive.words(key, rows, step, 0x8000 + numbers // 2)
            radius = np.sqrt(-2 * np.log(naive.unit(w[0]) + 2.0**-24))
            turn = 2 * np.pi * naive.unit(w[1])
            noise = radius * (np.sin(turn) if numbers % 2 else np.cos(turn))
            wanted = out[:, at] + np.exp(log_std[numbers]) * noise
            np.testing.assert_allclose(actions[:, k], wanted, atol=1e-5)
            numbers += 1
        at += head.outputs


def test_threefry_gives_the_known_answers():
    """Of the reference implementation (Random123, kat_vectors)."""
    zero = np.zeros(1, np.uint32)
    full = np.full(1, 0xFFFFFFFF, np.uint32)
    pi = np.array([0x03707344], np.uint32)
    for key, counter, answer in [
        ((0, zero), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, full), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, pi), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ]:
        a, b = naive.threefry(key, *counter)
        assert (int(a[0]), int(b[0])) == answer


def test_samples_follow_the_probabilities():
    policy = naive.make_policy(1, [4, 0])
    params = np.zeros(policy.num_params, np.float32)
    naive.named(policy, params)["log_std"][:] = np.log(2.0)
    rows = 200_000
    logits = np.log(np.array([0.1, 0.2, 0.3, 0.4]))
    out = np.tile(np.array([*logits, 1.5, 0.0], np.float32), (rows, 1))
    actions, _ = sampled(policy, params, out, None, seed_key(1), 0)
    share = np.bincount(actions[:, 0].astype(int), minlength=4) / rows
    np.testing.assert_allclose(share, [0.1, 0.2, 0.3, 0.4], atol=5e-3)
    assert actions[:, 1].mean() == pytest.approx(1.5, abs=0.02)
    assert actions[:, 1].std() == pytest.approx(2.0, abs=0.02)
    assert abs(np.corrcoef(actions.T)[0, 1]) < 0.01


def test_samples_depend_on_row_and_step_and_seed():
    policy = naive.make_policy(1, [1000])
    params = np.zeros(policy.num_params, np.float32)
    out = np.zeros((128, policy.outputs), np.float32)
    first, _ = sampled(policy, params, out, None, seed_key(1), 5)
    again, _ = sampled(policy, params, out[:70], None, seed_key(1), 5)
    np.testing.assert_array_equal(first[:70], again)
    assert len(np.unique(first)) > 100
    for key, step in ((seed_key(2), 5), (seed_key(1), 6), (seed_key(1), 5 + 2**32)):
        other, _ = sampled(policy, params, out, None, key, step)
        assert np.mean(first == other) < 0.05


def test_extreme_logits_stay_finite():
    policy = naive.make_policy(1, [3], masked=True)
    params = np.zeros(policy.num_params, np.float32)
    out = np.zeros((64, 4), np.float32)
    out[:, :3] = [[1e4, -1e4, 1e30]]
    mask = np.ones((64, 3), np.uint8)
    mask[:, 2] = 0
    actions, logp = sampled(policy, params, out, mask, seed_key(0), 0)
    assert np.all(actions == 0)
    np.testing.assert_allclose(logp, 0.0, atol=1e-6)


def test_greedy_takes_the_likeliest_allowed():
    policy = naive.make_policy(1, [3, 0], masked=True)
    params = np.zeros(policy.num_params, np.float32)
    out = np.tile(np.array([1, 3, 2, 0.25, 9], np.float32), (3, 1))
    mask = np.array([[1, 1, 1], [1, 0, 1], [1, 0, 0]], np.uint8)
    actions, _ = sampled(policy, params, out, mask, 1, 1, greedy=True)
    np.testing.assert_array_equal(actions, [[1, 0.25], [2, 0.25], [0, 0.25]])
