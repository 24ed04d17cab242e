"""Parameters as parts of one vector: what Adam does to them is what it does to each by itself."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from headrace.trainers.torch_optim import FlatAdam, flattened, make_optimizers  # noqa: E402


class Mixed(nn.Module):
    """A parameter that is used twice, one that is not trained, and perhaps one of another dtype."""

    def __init__(self, dtype):
        super().__init__()
        torch.manual_seed(1)
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 3, bias=False)
        self.second.weight = nn.Parameter(self.first.weight.detach().t().clone())
        self.wide = nn.Linear(4, 2).to(dtype)
        self.tied, self.fixed = self.first, nn.Parameter(torch.ones(2), requires_grad=False)


def gradients(module, step):
    draw = torch.Generator().manual_seed(step)
    trained = [p for p in module.parameters() if p.requires_grad]
    return [torch.randn(p.shape, generator=draw, dtype=p.dtype) for p in trained]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_adam_over_a_vector_is_adam_over_each(dtype):
    flat, plain = Mixed(dtype), Mixed(dtype)
    vectors = flattened(p for p in flat.parameters() if p.requires_grad)
    sizes = {torch.float32: [38], torch.float64: [28, 10]}[dtype]  # 16 + 12, and 10
    assert [len(v.whole) for v in vectors] == sizes
    named = dict(flat.named_parameters())
    (own,) = make_optimizers(named, vectors, "adam", (0.9, 0.99), 1e-5)
    assert isinstance(own, FlatAdam) == (dtype == torch.float32)
    other = torch.optim.Adam(plain.parameters(), lr=0.1, betas=(0.9, 0.99), eps=1e-5)
    own.param_groups[0]["lr"] = 0.1
    for step in range(5):
        for vector in vectors:
            vector.take(gradients(flat, step))
        trained = (p for p in plain.parameters() if p.requires_grad)
        for parameter, gradient in zip(trained, gradients(plain, step), strict=True):
            parameter.grad = gradient
        if step == 3:  # and goes on from what was saved
            saved = own.state_dict()
            (own,) = make_optimizers(named, vectors, "adam", (0.9, 0.99), 1e-5)
            own.load_state_dict({**saved, "param_groups": own.state_dict()["param_groups"]})
            own.param_groups[0]["lr"] = 0.1
        own.step()
        other.step()
    pairs = list(zip(flat.parameters(), plain.parameters(), strict=True))
    for mine, wanted in pairs:
        torch.testing.assert_close(mine, wanted)
        if wanted.requires_grad:
            assert torch.equal(mine.grad, wanted.grad)
    assert torch.equal(flat.fixed, torch.ones(2))
    for mine, _ in pairs:  # which the vectors hold, until somebody changes a parameter in place
        with torch.no_grad():
            mine.zero_()
    assert all(not vector.whole.any() for vector in vectors)


def test_muon_takes_matrices_by_themselves():
    if not hasattr(torch.optim, "Muon"):
        pytest.skip("a torch without Muon")
    module = nn.Sequential(nn.Linear(3, 8), nn.Linear(8, 8), nn.Linear(8, 2))
    named = dict(module.named_parameters())
    vectors = flattened(named.values())
    adam, muon = make_optimizers(named, vectors, "muon", (0.9, 0.99), 1e-5)
    assert {id(p) for p in muon.param_groups[0]["params"]} == {
        id(named[n]) for n in ("1.weight", "2.weight")
    }
    assert len(adam.param_groups[0]["params"]) == 4


def test_muon_takes_matrices_of_the_module_itself():
    if not hasattr(torch.optim, "Muon"):
        pytest.skip("a torch without Muon")
    module = nn.Module()
    for name in ("first", "mixing"):
        module.register_parameter(name, nn.Parameter(torch.ones(4, 4)))
    module.policy = nn.Linear(4, 2)
    named = dict(module.named_parameters())
    _, muon = make_optimizers(named, flattened(named.values()), "muon", (0.9, 0.99), 1e-5)
    assert [id(p) for p in muon.param_groups[0]["params"]] == [id(module.mixing)]
