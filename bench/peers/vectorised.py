"""A peer's vectorisation of Python environments, for `bench vec`: driven in an environment of the
peer's own, as `bench peers` does.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ...engine.errors import HeadraceError
from ..batches import Batch, NotInstalled
from .drivers.protocol import VEC, VEC_ENVS
from .driving import Contender, Driver
from .installing import Tell, folder_of, python_of
from .table import PEERS, Peer
from .task import RecordedBatch, Replay

SPINS = 0.7  # seconds after which PufferLib's workers have left off spinning, and a margin
STEPS = 60  # that are recorded; the check looks at the first 40


class Remote(Replay):
    """The peer's environments: what they did while they were recorded can be asked here, and they
    run over there."""

    def __init__(self, contender: Contender, recording: dict[str, Any]) -> None:
        super().__init__(recording)
        self._contender = contender

    def run(self, count: int) -> None:
        """`count` steps of all rows."""
        self._contender.ask(do="run", case=VEC, count=count)

    def close(self) -> None:
        """Ends the process."""
        self._contender.close()


def remote_loop(env: Remote, _: Batch) -> Callable[[int], None]:
    """A loop of n steps of all rows."""
    return env.run


def multiprocessing(impl: str, name: str, *, install: bool, tell: Tell) -> Batch:
    """PEERS[name]'s vectorisation of VEC_ENVS CartPoles, set up and recorded; NotInstalled where it
    cannot be had, or is not installed and `install` is off."""
    peer = PEERS[name]
    try:
        return _opened(impl, name, _driver(impl, peer, install, tell))
    except HeadraceError as error:
        raise NotInstalled(impl, str(error)) from None


def _driver(impl: str, peer: Peer, install: bool, tell: Tell) -> Driver:
    if not install and not folder_of(peer).exists():
        raise NotInstalled(impl, "not installed; `headrace bench vec` without --quick installs it")
    return Driver(peer, python_of(peer, tell=tell))


def _opened(impl: str, name: str, contender: Contender) -> Batch:
    try:
        cases = {case["case"]: case for case in contender.ask(do="describe")["cases"]}
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "recording.npz")
            contender.ask(do="record", path=path, case=VEC, steps=STEPS)
            with np.load(path) as file:
                recording = dict(file)
        work = contender.ask(do="open", case=VEC)["work"]
    except HeadraceError:
        contender.close()
        raise
    return RecordedBatch(
        "step",
        impl,
        VEC_ENVS,
        cases[VEC]["threads"],
        lambda: Remote(contender, recording),
        share=work / VEC_ENVS,
        rest=SPINS,
        note=f"{', '.join(PEERS[name].requirements)}, in a virtual environment of its own",
        recording=recording,
    )
