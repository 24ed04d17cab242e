"""`headrace bench torch`: training a torch policy against what torch by itself would allow."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Any

from ..trainers.ppo import PPO
from .benchmark import Announce, Benchmark, RepeatFlags, Report
from .results import Result
from .rounds import repeated

ENV, HEADRACE = "cartpole", "headrace"
SHAPES = ((16, 16), (64, 64))  # the first is the preset's
NOTES = (  # name, unit, meaning of what a round comes to
    ("train", "steps/s", "steps a second, CartPole's preset otherwise"),
    ("of-own-times", "share", "time in forward and learning over the whole time"),
    ("of-eager", "share", "speed over that of eager torch's forward and learn step alone"),
)
CLIP, VF_COEF, ENT_COEF = 0.1, 0.5, 0.005


def run(*, rounds: int, steps: int, announce: Announce) -> list[Result]:
    """Trains and times torch alone, in turn.

    rounds: repeats; steps: of one training.
    """
    total = len(SHAPES) * rounds
    jobs = [partial(_round, hidden, steps) for hidden in SHAPES]
    taken = repeated(jobs, rounds, lambda done: announce(done, total))
    found = []
    for hidden, each in zip(SHAPES, taken, strict=True):
        name = "x".join(map(str, hidden))
        for at, (what, unit, note) in enumerate(NOTES):
            spread = each.spread(itemgetter(at))
            result = Result.measured(f"{what}-{name}", HEADRACE, ENV, 1, spread, unit, note)
            found.append(result)
    return found


def _round(hidden: tuple[int, ...], steps: int, seed: int) -> tuple[float, float, float]:
    """(steps/s, share of the time that is torch's, share of what eager torch alone allows)."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {"hidden": hidden, "steps": steps, "target": None, "seed": seed}
        run_dir = str(Path(folder) / "run")
        with PPO(ENV, policy="torch", run_dir=run_dir, **settings) as ppo:  # type: ignore[arg-type]
            for _ in ppo:
                pass
            result, session = ppo.result(), ppo._session
            own = session.collector.actor.profile()["forward"] + session.learner.profile()["learn"]
            rows = session.collector.batch.rows
            config = session.config
    size = rows * config.horizon
    forward, learn = _alone(session.policy, rows, size // config.minibatches)
    calls = config.horizon + 1  # the last for the value of where the rows stand
    allowed = size / (calls * forward + config.epochs * config.minibatches * learn)
    return result.sps, own / result.seconds, result.sps / allowed


def _alone(policy: Any, rows: int, batch: int) -> tuple[float, float]:
    """Seconds of eager torch's forward of `rows` rows, and of its learn step of `batch` rows:
    forward, loss, backward, clipping and Adam, everything being a tensor already."""
    import torch

    from ..trainers.torch_loss import LossOptions, LossRows, logp_and_entropy, ppo_loss

    module = policy.module
    seen, x = torch.randn(rows, policy.features), torch.randn(batch, policy.features)
    actions = torch.randint(0, 2, (batch, 1), dtype=torch.int32)
    floats = (torch.randn(batch) for _ in range(3))
    data = LossRows(actions, None, torch.full((batch,), -0.69), *floats)
    options = LossOptions(CLIP, 0.0, VF_COEF)
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-6, eps=1e-5, fused=True)

    def forward() -> Any:
        with torch.inference_mode():
            outputs, value = module(seen)
            return torch.cat((outputs, value.unsqueeze(1)), dim=1).numpy()

    def learn() -> None:
        outputs, value = module(x)
        logp, entropy = logp_and_entropy(policy.heads, outputs, None, actions, None)
        loss, _ = ppo_loss(options, data, logp, entropy, value, ENT_COEF)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        float(torch.nn.utils.clip_grad_norm_(module.parameters(), 0.5))
        optimizer.step()

    torch.set_num_threads(1)
    return _seconds(forward, 200), _seconds(learn, 40)


def _seconds(work: Callable[[], Any], count: int) -> float:
    """Of one call: the median of five times `count`."""
    for _ in range(10):
        work()
    taken = []
    for _ in range(5):
        started = time.perf_counter()
        for _ in range(count):
            work()
        taken.append((time.perf_counter() - started) / count)
    return median(taken)


def report(flags: RepeatFlags, announce: Announce) -> Report:
    """As the command line asks for it."""
    steps = 100_000 if flags.quick else 1_000_000
    found = run(rounds=flags.repeats, steps=steps, announce=announce)
    return Report("Training a torch policy on CartPole", found)


BENCHMARK = Benchmark(
    "torch",
    "Measures how fast a torch policy trains on CartPole: steps/s, the share of the time that is "
    "torch's forward and learning, and the share of the speed that eager torch's forward and learn "
    "step, timed alone in the same run, would allow.",
    RepeatFlags,
    "headrace bench torch --out bench/results/torch.json",
    report,
)
