"""The policy that a run's settings describe, made anew or with saved tensors, and whose code that
may execute."""

from __future__ import annotations

import importlib.util
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ..engine.cpus import available_cpus
from ..engine.errors import EnvDefinitionError, kind_of
from ..engine.pyfile import module_of
from ..engine.spec import EnvSpec
from .actor import Actor, NativeActor
from .checkpoint import POLICY, RunError
from .config import OBJECT, TrainConfig
from .encoding import TENSOR as DIVISORS
from .encoding import Divisors, saved_divisors
from .policy import MEMORIES, PolicySpec, TensorError
from .run import Run
from .settings import ConfigError

# How often torch's threads (those of GNU OpenMP) look for work before they sleep: about as long as
# it takes to wake them. Its default is some hundred times that, which costs nothing on idle CPUs,
# and where other programs want them most of the time, at every layer.
TORCH_SPINS = "2000"


def native_policy(
    config: TrainConfig, spec: EnvSpec, divisors: Divisors | None = None
) -> PolicySpec:
    """The native policy that the settings describe. divisors: see `PolicySpec.from_env`."""
    return PolicySpec.from_env(
        spec, config.hidden, config.activation, config.separate, config.memory, divisors
    )


def torch_policy(
    config: TrainConfig, spec: EnvSpec, module: Any = None, divisors: Divisors | None = None
) -> Any:
    """A TorchPolicy with the initial weights of the run. Arguments as `make_parts` has them."""
    require_torch(config.policy)
    from .torch_device import seeded
    from .torch_policy import TorchPolicy

    with seeded(config.seed, config.device):
        made = _module(config, spec, module)
    threads = config.threads or available_cpus()
    if config.async_:  # the others are the actor's, and those of the processes that it waits for
        threads = max(1, threads // 2)
    return TorchPolicy(
        spec,
        made,
        device=config.device,
        bf16=config.bf16,
        threads=threads,
        divisors=divisors,
    )


def require_torch(policy: str) -> None:
    """ConfigError in one sentence where torch is not installed. Where it is not loaded yet, it will
    wait politely."""
    if importlib.util.find_spec("torch") is None:
        raise ConfigError(
            f"policy {policy} needs PyTorch, which is not installed: pip install headrace[torch], "
            "or train with --policy native"
        )
    os.environ.setdefault("GOMP_SPINCOUNT", TORCH_SPINS)


def _module(config: TrainConfig, spec: EnvSpec, given: Any) -> Any:
    """The module of the run, as it starts out."""
    from torch import nn

    if config.policy == "torch":
        return _default_module(config, spec)
    if given is None and config.policy.startswith(OBJECT):
        raise ConfigError(
            f"policy {config.policy.removeprefix(OBJECT)!r} of this run was given as an object of "
            "Python, which no command line can name: in Python, give it again, as policy=..., such "
            "as headrace.evaluate(run, policy=...)"
        )
    if given is None:
        given = class_in(config.policy)
    if isinstance(given, nn.Module):
        return given
    if inspect.isclass(given) and not issubclass(given, nn.Module):
        raise ConfigError(
            f"policy {config.policy} is a class of {given.__module__!r} that is no torch.nn.Module"
        )
    made = given(spec.single_observation_space, spec.single_action_space)
    if not isinstance(made, nn.Module):
        raise ConfigError(
            f"policy {config.policy} made a {type(made).__name__}: expected a torch.nn.Module"
        )
    return made


def _default_module(config: TrainConfig, spec: EnvSpec) -> Any:
    """By space and settings; what the native policy has too starts from its very weights."""
    import torch

    from . import nn as blocks
    from .nn.layers import Trunk

    spaces = spec.single_observation_space, spec.single_action_space
    encoder: Any = None  # of pictures; None: hidden layers
    if blocks.image_shape(spec.single_observation_space) is not None:
        encoder = None if config.encoder == "flat" else _encoder(config, spaces[0])
    elif config.encoder != "nature":
        raise ConfigError(
            f"encoder {config.encoder} is of pictures, and the observation is none: it is "
            f"{spaces[0]}"
        )
    if config.memory != "none":
        hidden = config.hidden[:-1] or config.hidden
        first = encoder or Trunk(blocks.input_size(spaces[0]), hidden, config.activation)
        module: Any = blocks.Recurrent(*spaces, config.memory, config.hidden[-1], encoder=first)
    elif encoder is not None:
        own = _encoder(config, spaces[0]) if config.separate else None
        module = blocks.CNN(*spaces, encoder, own)
    else:
        module = blocks.MLP(*spaces, config.hidden, config.activation, config.separate)
    if config.memory in MEMORIES and encoder is None:
        native = native_policy(config, spec)
        start = native.to_tensors(native.weights(native.init(config.seed)))
        start.pop(DIVISORS, None)  # no parameter
        module.load_state_dict({name: torch.from_numpy(array) for name, array in start.items()})
    return module


def _encoder(config: TrainConfig, picture: Any) -> Any:
    """What makes features of pictures, the observation space."""
    from . import nn as blocks

    if config.encoder == "resnet":
        return blocks.ResNet(picture)
    return blocks.Convolutions(picture, layers=config.encoder)


def class_in(text: str) -> Callable[[Any, Any], Any]:
    """What "net.py:Net" names, from the user's own file.

    Raises:
        ConfigError: no such file or name, or the file's own error.
    """
    file, _, name = text.rpartition(":")
    path = Path(file).expanduser()
    if not path.is_file():
        raise ConfigError(f"policy {text!r}: there is no file {file}")
    try:
        module = module_of(path, anew=True)  # it may hold a module: each run has weights of its own
    except EnvDefinitionError as error:
        raise ConfigError(f"policy {text!r}: {error}") from error
    found = getattr(module, name, None)
    if not callable(found):
        classes = [n for n, v in vars(module).items() if inspect.isclass(v) and _own(v, module)]
        there = f": it has {', '.join(classes)}" if classes else ""
        raise ConfigError(f"policy {text!r}: {path.name} has no class {name}{there}")
    return found


def _own(member: Any, module: Any) -> bool:
    return getattr(member, "__module__", None) == module.__name__


def make_actor(config: TrainConfig, policy: Any, normalize_obs: bool) -> Actor:
    """Another actor of a run's policy (PolicySpec or TorchPolicy)."""
    if config.policy == "native":
        return NativeActor(policy, normalize_obs=normalize_obs)
    from .torch_policy import TorchActor

    return TorchActor(policy, normalize_obs=normalize_obs, device=config.actor_device)


class Acting(NamedTuple):
    """What acts by itself."""

    actor: Actor
    policy: Any  # PolicySpec or TorchPolicy
    weights: Any  # of it


def acting(
    config: TrainConfig,
    spec: EnvSpec,
    run: Run,
    steps: int,
    module: Any = None,
    device: str = "cpu",
) -> Acting:
    """A run's policy as a checkpoint has it, to act in an environment like `spec`.

    Args:
        run, steps: where it is saved.
        module: see `torch_policy`.
        device: where a torch policy acts.

    Raises:
        RunError: a checkpoint that is damaged, or of another policy.
        ConfigError: a policy that cannot be made here.
    """
    tensors = run.load_policy(steps)
    plain = config.replace(device=device, actor_device=None, bf16=False, compile=False)
    try:
        divisors = saved_divisors(tensors, spec)
        policy = (
            native_policy(config, spec, divisors)
            if config.policy == "native"
            else torch_policy(plain, spec, module, divisors)
        )
        weights = policy.from_tensors(tensors)
    except TensorError as error:
        file = run.checkpoint_path(steps) / POLICY
        raise RunError(f"{file} does not fit this run: {error}") from None
    return Acting(make_actor(plain, policy, "obs.mean" in tensors), policy, weights)


# ---- whose code runs ---------------------------------------------------------------------------


def check_policy(saved: TrainConfig, given: str | None, module: Any = None) -> None:
    """Raises ConfigError unless the policy of a saved run can be made from what was given: its
    code is never taken from the run's own word.

    module: an object of Python in the place of the name `given`.
    """
    own = saved.policy
    if module is not None:
        if own in ("native", "torch"):
            raise ConfigError(
                f"policy is {kind_of(module)}, but this run's is {own}, which needs none: leave "
                "policy out"
            )
        return
    if given is not None and lasting_policy(given) != own:
        raise ConfigError(f"policy {given} is not this run's: it is {own}")
    if given is None and own not in ("native", "torch"):
        named = own.removeprefix(OBJECT)
        flag = "" if own.startswith(OBJECT) else f"--policy {own}, or in Python "
        raise ConfigError(
            f"policy {named} is code of yours, and opening a run executes none: name it again, "
            f"with {flag}policy=..."
        )


def lasting_policy(policy: str) -> str:
    """The policy setting with the absolute path of its file."""
    file, _, name = policy.rpartition(":")
    return f"{Path(file).expanduser().resolve()}:{name}" if file.endswith(".py") else policy
