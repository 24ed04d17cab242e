from collections.abc import Sequence
from typing import Any

import numpy as np

DTYPES: tuple[str, ...]
KINDS: tuple[str, ...]
MAX_THREADS: int
MAX_WORLDS: int
TAKEN: int
NOT_DIRECT: int
RNG_SIZE: int
BATCH_OFFSETS: dict[str, int]
FRAME_OFFSETS: dict[str, int]
pool_api: Any

class Library:
    path: str

    def __init__(self, path: Any, source: Any = None) -> None: ...
    @staticmethod
    def from_capsule(capsule: Any, keepalive: Any = None, source: str = ...) -> Library: ...
    def describe(self) -> dict[str, Any]: ...

class Description:
    capsule: Any

    def __init__(
        self, told: dict[str, Any], kernels: dict[str, int], checked: bool = False
    ) -> None: ...
    def fail(self, message: str, file: str, line: int, world: int) -> None: ...

class Pool:
    threads: int
    closed: bool
    capsule: Any

    def __init__(self, threads: int) -> None: ...
    def be_patient(self) -> None: ...
    def close(self) -> None: ...

class Vec:
    library: Library
    worlds: int
    closed: bool
    capsule: Any
    in_flight: int

    def __init__(
        self,
        library: Library,
        worlds: int,
        *,
        arrays: dict[str, np.ndarray],
        params: np.ndarray | None = None,
        param_arrays: dict[str, np.ndarray] | None = None,
        autoreset: int = 0,
        max_steps: int | None = None,
    ) -> None: ...
    def check_unused(self) -> None: ...
    def acquire(self) -> None: ...
    def release(self) -> None: ...
    def close(self) -> None: ...
    def set_params(
        self, table: np.ndarray | None, arrays: dict[str, np.ndarray] | None = None
    ) -> None: ...
    def step(self, pool: Pool | None = None) -> None: ...
    def step_range(self, lo: int, hi: int) -> None: ...
    def reset(self, seeds: np.ndarray | None = None, mask: np.ndarray | None = None) -> None: ...
    def observe(self) -> None: ...
    def draw(self, world: int, frame: np.ndarray) -> None: ...
    def metrics(self, world: int) -> np.ndarray: ...
    def take_failure(self) -> dict[str, Any] | None: ...

class AsyncStepper:
    in_flight: int
    ready: int

    def __init__(self, vec: Vec, pool: Pool | None = None) -> None: ...
    def submit(self, worlds: np.ndarray) -> None: ...
    def wait(self, n: int) -> np.ndarray: ...
    def close(self) -> None: ...

def first_of_range(ids: np.ndarray) -> int: ...
def runs_of(ids: np.ndarray) -> tuple[slice, ...] | None: ...

class ActionSlots:
    def __init__(
        self,
        slots: np.ndarray,
        offset: int,
        shape: tuple[int, ...],
        choices: Sequence[int] | np.ndarray | None = None,
    ) -> None: ...
    def take(self, values: Any, targets: np.ndarray | None = None) -> int: ...

class EpisodeTotals:
    values: np.ndarray

    def __init__(self, vec: Vec) -> None: ...
    def clear(self) -> None: ...
    def count_worlds(self, worlds: np.ndarray) -> int: ...

REFUSED: int

class Turns:
    def __init__(
        self,
        vec: Vec,
        pool: Pool | None,
        slots: ActionSlots | None,
        totals: EpisodeTotals | None = None,
    ) -> None: ...
    def step(self, actions: Any = None) -> int: ...
