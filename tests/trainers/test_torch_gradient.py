"""The gradient of a module: by the native kernel, by torch's loss, and recorded."""

import naive
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from headrace.engine.make import make_vec  # noqa: E402
from headrace.trainers import nn  # noqa: E402
from headrace.trainers.policy import PolicySpec  # noqa: E402
from headrace.trainers.torch_device import (  # noqa: E402
    MOST_GRAPHS,
    RECORD_AFTER,
    Recorded,
    called,
    recorder,
    torch_device,
)
from headrace.trainers.torch_gradient import LossGradient  # noqa: E402
from headrace.trainers.torch_loss import LossOptions, LossRows  # noqa: E402
from headrace.trainers.torch_policy import TorchPolicy  # noqa: E402

OPTIONS = LossOptions(clip=0.1, vf_clip=0.2, vf_coef=0.7, weight_max=1.5)


def replayed(function, sample):
    """A stand-in for a CUDA graph: works in tensors of its own, which each call overwrites."""
    own = tuple(t.clone() for t in sample)
    kept = [t.clone() for t in function(*own)]

    def replay(*given):
        for mine, theirs in zip(own, given, strict=True):
            mine.copy_(theirs)
        for mine, fresh in zip(kept, function(*own), strict=True):
            mine.copy_(fresh)
        return tuple(kept)

    return replay


def policy_of(env):
    with_ = make_vec(env, 64)
    spec = with_.spec_
    with_.close()
    torch.manual_seed(0)
    module = nn.MLP(spec.single_observation_space, spec.single_action_space, (16,))
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    return TorchPolicy(spec, module)


def rows_of(policy, count, seed=0, proximal=False):
    rng = np.random.default_rng(seed)
    columns = [
        rng.integers(0, head.size, count).astype(np.int32) if head.size
        else rng.normal(size=count).astype(np.float32).view(np.int32)
        for head in policy.heads
    ]  # fmt: skip
    mask = None
    if policy.env.mask_size:
        mask = torch.from_numpy(rng.integers(0, 2, (count, policy.env.mask_size)).astype(np.uint8))
        at = 0
        for head, column in zip(policy.heads, columns, strict=True):
            mask[torch.arange(count), at + torch.from_numpy(column).long()] = 1
            at += head.size
    floats = (torch.from_numpy(rng.normal(size=count).astype(np.float32)) for _ in range(4))
    logp, *rest = floats
    logp = logp.abs().neg()
    if proximal:
        rest.append(logp + torch.from_numpy(0.5 * rng.normal(size=count).astype(np.float32)))
    return LossRows(torch.from_numpy(np.stack(columns, 1)), mask, logp, *rest)


def gradient_of(policy, record=None, *, native, limit=0.5):
    def forward(x):
        return policy.forward(policy.module, x, x[:0])[:2]

    made = LossGradient(policy, forward, OPTIONS, limit, record)
    made._native = native
    return made


def taken(policy, gradient, count, seed, proximal=False):
    x = torch.randn(count, policy.features, generator=torch.Generator().manual_seed(seed))
    found = gradient((x,), rows_of(policy, count, seed, proximal), 0.01)
    return found, [p.grad.clone() for p in policy.module.parameters()]


@pytest.mark.parametrize("env", ["cartpole", "pendulum", "tetris", "lander"])
@pytest.mark.parametrize("limit", [0.0, 0.5])
@pytest.mark.parametrize("proximal", [False, True])
def test_kernel_and_torch_agree(env, limit, proximal):
    policy = policy_of(env)
    for count in (1, 64, 150):
        (one, grads), (other, wanted) = (
            taken(policy, gradient_of(policy, native=native, limit=limit), count, count, proximal)
            for native in (True, False)
        )
        assert np.allclose(one.sums, other.sums, rtol=1e-4, atol=1e-4)
        assert one.norm == pytest.approx(other.norm, rel=1e-3)
        for g, w in zip(grads, wanted, strict=True):
            assert torch.allclose(g, w, rtol=1e-3, atol=1e-5)
    if limit:
        length = torch.cat([g.reshape(-1) for g in grads]).norm()
        assert float(length) <= limit * 1.001


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("proximal", [False, True])
def test_sums_are_those_of_the_twin(native, proximal):
    """Of rows whose ratio is taken to a proximal policy, and weighed; and of others."""
    policy = policy_of("cartpole")
    same = PolicySpec.from_env(policy.env, (16,))
    tensors = {name: tensor.numpy() for name, tensor in policy.module.state_dict().items()}
    params = same.from_tensors(tensors).params
    x = torch.randn(150, 4, generator=torch.Generator().manual_seed(3))
    rows = rows_of(policy, 150, 3, proximal)
    columns = {n: None if c is None else c.numpy() for n, c in vars(rows).items()}
    found = gradient_of(policy, native=native)((x,), rows, 0.01)
    wanted = naive.loss_sums(
        same, params, {**columns, "obs": x.numpy(), "valid": np.ones(150)},
        clip=OPTIONS.clip, vf_clip=OPTIONS.vf_clip, weight_max=OPTIONS.weight_max,
    )  # fmt: skip
    np.testing.assert_allclose(found.sums, wanted, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("env", ["cartpole", "pendulum", "tetris"])
def test_a_recorded_minibatch_gives_what_the_function_gives(env):
    policy = policy_of(env)
    plain, recorded = (gradient_of(policy, r, native=False) for r in (None, replayed))
    for seed in range(RECORD_AFTER + 3):
        for count in (64, 128):
            proximal = bool(seed % 2)  # one recording serves both
            one, grads = taken(policy, plain, count, seed, proximal)
            other, wanted = taken(policy, recorded, count, seed, proximal)
            assert np.array_equal(one.sums, other.sums)
            assert one.norm == other.norm
            assert all(torch.equal(g, w) for g, w in zip(grads, wanted, strict=True))
    assert len(recorded._whole._recordings) == 2


def test_only_shapes_that_come_often_are_recorded():
    made = []

    def record(function, sample):
        made.append(sample[0].shape)
        return function

    work = Recorded(lambda x: (x + 1,), record)
    for _ in range(RECORD_AFTER + 2):
        assert work(torch.zeros(2))[0].tolist() == [1, 1]
    work(torch.zeros(3))
    assert made == [(2,)]
    for size in range(3, 3 + 2 * MOST_GRAPHS):
        for _ in range(RECORD_AFTER + 2):
            work(torch.zeros(size))
    assert len(made) == MOST_GRAPHS


def test_what_is_done_on_which_device():
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    assert recorder(cpu, compiled=False, graphs=True) is None
    assert recorder(cuda, compiled=False, graphs=True) is not None
    assert recorder(cuda, compiled=False, graphs=False) is None
    assert recorder(cuda, compiled=True, graphs=True) is None, "torch.compile records by itself"
    module = torch.nn.Linear(2, 2)
    assert called(module, cuda, compiled=False, graphs=True) is module


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_graphs_give_what_eager_gives():
    policy = policy_of("cartpole")
    on_gpu = TorchPolicy(policy.env, policy.module, device="cuda")
    device = torch_device("cuda")
    record = recorder(device, compiled=False, graphs=True)
    plain, recorded = (gradient_of(on_gpu, r, native=False) for r in (None, record))
    for seed in range(RECORD_AFTER + 3):
        x = torch.randn(64, 4).to(device)
        rows = LossRows(*(None if c is None else c.to(device)
                          for c in vars(rows_of(policy, 64, seed, seed % 2)).values()))  # fmt: skip
        one, other = (g((x,), rows, 0.01) for g in (plain, recorded))
        assert np.allclose(one.sums, other.sums, rtol=1e-4)
