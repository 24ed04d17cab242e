"""Where torch policies run, and what is done differently on CUDA: all of it is decided here.

On CUDA arrays travel through pinned memory without waiting, and the same work on the same shapes
is recorded as a graph and replayed, so that Python and launches cost nothing. Elsewhere arrays are
shared and functions are called as they are. No GPU was at hand: this is tested with stand-ins, and
what it gains has not been measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..engine.errors import ArgumentError

Results = tuple[Tensor, ...]
Function = Callable[..., Results]
Recorder = Callable[[Function, Results], Function]

RECORD_AFTER = 3  # calls of a shape: less often is not worth a graph
MOST_GRAPHS = 8  # of one function; each keeps its own memory


def torch_device(name: str) -> torch.device:
    """A device by name ("cpu", "cuda", "cuda:1"); ArgumentError where there is no such."""
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        first = str(error).splitlines()[0]
        raise ArgumentError(f"device {name!r} cannot be used by this torch: {first}") from None
    return device


def called(module: nn.Module, device: torch.device, *, compiled: bool, graphs: bool) -> Any:
    """How a module is called: as it is or through torch.compile, which records graphs itself."""
    if not compiled:
        return module
    recorded = graphs and device.type == "cuda"
    return torch.compile(module, mode="reduce-overhead" if recorded else "default")


@contextmanager
def seeded(seed: int, device: str) -> Iterator[None]:
    """Within it torch draws by `seed`; then the caller's generators go on where they were.

    device: where is worked; CUDA's generators draw by it too where somebody uses CUDA, which is
        not begun for their sake alone.
    """
    cuda = torch.cuda.is_initialized() or device.startswith("cuda")
    devices = range(torch.cuda.device_count()) if cuda else ()
    with torch.random.fork_rng(devices=devices):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would reach CUDA's as well
        if devices:
            torch.cuda.manual_seed_all(seed)
        yield


@contextmanager
def acting_mode(module: nn.Module) -> Iterator[None]:
    """The module as it is where it acts; then each layer as it was, for some may be frozen."""
    before = [(layer, layer.training) for layer in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for layer, training in before:
            layer.training = training


def recorder(device: torch.device, *, compiled: bool, graphs: bool) -> Recorder | None:
    """What records functions on this device; None: nothing does."""
    return record_cuda if graphs and not compiled and device.type == "cuda" else None


class Transfer:
    """Arrays to a device: as they are on the CPU, else through pinned memory that is kept, without
    waiting."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pinned: dict[str, Tensor] = {}
        self._arrived: dict[str, Any] = {}  # events: the copy from that memory is over

    def __call__(self, name: str, array: NDArray[Any]) -> Tensor:
        """The array as a tensor, which on the CPU shares its memory. name: of its kind: arrays of
        one name follow each other."""
        own = torch.from_numpy(np.ascontiguousarray(array))
        if self._device.type == "cpu":
            return own
        kept = self._memory(name, own)
        kept.copy_(own)
        there = kept.to(self._device, non_blocking=True)
        if self._device.type == "cuda":
            self._arrived[name] = torch.cuda.Event()
            self._arrived[name].record(torch.cuda.current_stream(self._device))
        return there

    def _memory(self, name: str, own: Tensor) -> Tensor:
        """Memory of that shape which nothing reads any more."""
        if name in self._arrived:
            self._arrived.pop(name).synchronize()
        kept = self._pinned.get(name)
        if kept is None or kept.shape != own.shape or kept.dtype != own.dtype:
            pin = self._device.type == "cuda"
            kept = self._pinned[name] = torch.empty(own.shape, dtype=own.dtype, pin_memory=pin)
        return kept


class Recorded:
    """A function of tensors to tensors that is recorded, once for each shape that comes often, and
    replayed from then on. Its results then last until the next call with that shape.

    The function must do the same work whatever the numbers are, and read what else it reads from
    tensors that stay where they are.
    """

    def __init__(self, function: Function, record: Recorder | None) -> None:
        """record: None calls the function each time."""
        self._function, self._record = function, record
        self._recordings: dict[Any, Function] = {}
        self._calls: Counter[Any] = Counter()

    def __call__(self, *given: Tensor) -> Results:
        if self._record is None:
            return self._function(*given)
        shapes = tuple(tensor.shape for tensor in given)
        found = self._recordings.get(shapes)
        if found is not None:
            return found(*given)
        self._calls[shapes] += 1
        if self._calls[shapes] <= RECORD_AFTER or len(self._recordings) >= MOST_GRAPHS:
            return self._function(*given)
        self._recordings[shapes] = self._record(self._function, given)
        return self._recordings[shapes](*given)


def record_cuda(function: Function, sample: Results) -> Function:
    """A CUDA graph of the function for tensors like the sample."""
    device = sample[0].device
    own = tuple(tensor.clone() for tensor in sample)
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        for _ in range(3):  # what libraries allocate at first use must not be in the graph
            function(*own)
    torch.cuda.current_stream(device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = function(*own)

    def replay(*given: Tensor) -> Results:
        for kept, tensor in zip(own, given, strict=True):
            kept.copy_(tensor, non_blocking=True)
        graph.replay()
        return results

    return replay
