from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

def board_bytes(starts: np.ndarray) -> int: ...
def watch_parent(handle: int, parent: int) -> None: ...

class Front:
    memory: np.ndarray
    def __init__(
        self,
        memory: np.ndarray,
        starts: np.ndarray,
        spin_ns: int,
        apart_ns: int,
        together_ns: int,
    ) -> None: ...
    def clear(self, worker: int) -> np.ndarray: ...
    def post(self, worlds: np.ndarray) -> None: ...
    def tell(self, worker: int) -> None: ...
    def doing(self, worker: int) -> tuple[int, int]: ...
    def wait(self, count: int) -> tuple[int, bool]: ...
    def take(self, count: int) -> np.ndarray: ...

class RowWriter:
    def __init__(
        self,
        write: Callable[[int, Any], None],
        obs: list[np.ndarray],
        bounds: tuple[np.ndarray, np.ndarray] | None,
        rewards: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
    ) -> None: ...

class RowStepper:
    working_on: int
    def __init__(
        self,
        writer: RowWriter,
        first: int,
        steps: Sequence[Callable[[Any], Any] | None],
        idle: np.ndarray,
        read: Callable[[int], Any],
        actions: np.ndarray | None,
        after: Callable[[int, bool, Any, Any], bytes | None],
        otherwise: Callable[[int], bytes | None],
    ) -> None: ...
    def step(self, world: int) -> bytes | None: ...

class WholeNumbers:
    def __init__(self, slots: np.ndarray, low: int, high: int) -> None: ...
    def take(self, actions: Any, rows: np.ndarray | None) -> bool: ...

def talking(info_bytes: np.ndarray, worlds: np.ndarray | None) -> list[int]: ...

class EpisodeTally:
    values: np.ndarray
    last_return: np.ndarray
    last_length: np.ndarray
    def __init__(
        self,
        rewards: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        present: np.ndarray,
        next_step: bool,
    ) -> None: ...
    def clear(self) -> None: ...
    def begin(self, chosen: np.ndarray) -> None: ...
    def count(self, rows: np.ndarray | None) -> int: ...

class Desk:
    memory: np.ndarray
    def __init__(self, memory: np.ndarray, starts: np.ndarray, worker: int) -> None: ...
    def work(self, stepper: RowStepper, tell: Callable[[int, bytes], None]) -> None: ...
    def work_beside(
        self,
        front: Front,
        stepper: RowStepper,
        tell: Callable[[int, bytes], None],
        count: int,
        least: int,
        most: int,
    ) -> int: ...
    def begin(self, world: int) -> None: ...
    def announce(self) -> None: ...
