"""Adam against torch.optim.Adam and NumPy, and the clipping of the gradient."""

import naive
import numpy as np
import pytest

from headrace.trainers import _native


def run(sizes, update, steps=100):
    """Parameters after `steps` gradients of a fixed random sequence."""
    rng = np.random.default_rng(sizes)
    params = rng.standard_normal(sizes).astype(np.float32)
    m, v = np.zeros((2, sizes), np.float32)
    for step in range(1, steps + 1):
        grad = (rng.standard_normal(sizes) * 10.0 ** rng.integers(-6, 2)).astype(np.float32)
        update(params, grad, m, v, step)
    return params


def ours(params, grad, m, v, step):
    _native.adam(params, grad, m, v, step, 3e-3, (0.9, 0.999), 1e-5)


@pytest.mark.parametrize("size", [1, 3, 15, 16, 17, 515, 5000])
def test_hundred_steps_agree_with_torch(size):
    torch = pytest.importorskip("torch")
    p = torch.zeros(size, requires_grad=True)
    optimizer = torch.optim.Adam([p], lr=3e-3, betas=(0.9, 0.999), eps=1e-5)

    def theirs(params, grad, m, v, step):
        if step == 1:
            p.data[:] = torch.from_numpy(params)
        p.grad = torch.from_numpy(grad)
        optimizer.step()
        params[:] = p.detach().numpy()

    np.testing.assert_allclose(run(size, ours), run(size, theirs), rtol=2e-6, atol=1e-6)


def test_hundred_steps_agree_with_numpy():
    state = {}

    def slow(params, grad, m, v, step):
        p, a, b = state.get("wide", (params.astype(np.float64), m * 1.0, v * 1.0))
        state["wide"] = naive.adam(p, grad.astype(np.float64), a, b, step, 3e-3, (0.9, 0.999), 1e-5)
        params[:] = state["wide"][0]

    np.testing.assert_allclose(run(37, ours), run(37, slow), rtol=2e-6, atol=1e-6)
