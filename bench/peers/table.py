"""The peers: what each needs, and which driver measures it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Peer:
    """One project, in a virtual environment of its own."""

    label: str
    driver: str  # module in drivers/
    requirements: tuple[str, ...]  # of pip; pinned, so that figures can be compared


PEERS = {
    "envpool": Peer("EnvPool", "envpool", ("envpool==1.2.5", "gymnasium==1.4.0")),
    "sb3": Peer("Stable-Baselines3", "sb3", ("torch==2.13.0", "stable-baselines3==2.9.2")),
    "pufferlib": Peer("PufferLib", "puffer", ("pufferlib-core==3.0.23",)),
    "pufferlib-c": Peer("PufferLib C env", "puffer_c", ("pufferlib==3.0.0",)),
    "purejaxrl": Peer(
        "gymnax",
        "jax_ppo",
        # six: a library that gymnax needs and does not name
        ("jax==0.10.2", "jaxlib==0.10.2", "gymnax==1.0.1", "optax==0.2.8", "six"),
    ),
}
OURS, GYMNASIUM = "headrace", "gymnasium"  # measured in the process of the command
NAMES = (OURS, GYMNASIUM, *PEERS)
