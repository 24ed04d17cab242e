# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=False
"""The native trainer: descriptions, rollouts, collection and learning over the C kernels.

Each public method checks what it is given once; below it runs C code (csrc/) that assumes it.
policy.py, collector.py and learner.py are what the rest of the package uses.
"""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.math cimport isfinite, sqrt
from libc.string cimport memcpy, memset

cimport numpy as cnp
import numpy as np

from ..engine.errors import ArgumentError
from ..engine.memory import available_memory, show_bytes

cnp.import_array()


include "_csrc.pxi"

TILE = HR_TILE
MAX_DEPTH = HR_MAX_DEPTH
MAX_CHUNKS = HR_MAX_CHUNKS
STAGES = (
    "env", "encode", "forward", "sample", "record", "advantage",
    "learn_forward", "loss", "backward", "optimizer", "collect_task", "learn_task",
)
TIMED = 17  # one step of a block in so many has its stages timed: cheap, in phase with nothing
CORRECTIONS = ("none", "clip", "vtrace", "decoupled")  # as hr_correction counts
FAULTS = ("", "observation", "reward", "loss", "gradient", "mask", "stopped")


cdef void *data(array) noexcept:
    return cnp.PyArray_DATA(<cnp.ndarray>array)


def aligned(shape, dtype):
    """A zeroed array on a 64-byte boundary, with room for the last vector."""
    dtype = np.dtype(dtype)
    cdef int64_t size = dtype.itemsize, part
    for part in shape if isinstance(shape, tuple) else (shape,):
        size *= part
    block = np.zeros(size + 128, np.uint8)
    cdef int64_t start = -<int64_t>data(block) % 64
    if start < 0:
        start += 64
    flat = block[start : start + size].view(dtype)
    return flat.reshape(shape) if isinstance(shape, tuple) else flat


cdef object _checked(array, dtype, int64_t size, name):
    """array as it is if it is C-contiguous of this dtype and size, else an error."""
    # identity of types first: comparing dtypes costs several times as much, twenty times a step
    if not (isinstance(array, cnp.ndarray) and cnp.PyArray_SIZE(array) == size
            and cnp.PyArray_IS_C_CONTIGUOUS(array)
            and (array.dtype.type is dtype and cnp.PyArray_ISNOTSWAPPED(array)
                 or array.dtype == dtype)):
        raise ArgumentError(f"{name} must be a C-contiguous {np.dtype(dtype)} array of {size}")
    return array


def _aligned_floats(array, shape, name):
    """The same of a float32 array of this shape on a 64-byte boundary."""
    if not (isinstance(array, np.ndarray) and array.dtype == np.float32 and array.shape == shape
            and array.flags.c_contiguous and <size_t>data(array) % 64 == 0):
        raise ArgumentError(
            f"{name} must be a C-contiguous float32 array {shape} on a 64-byte boundary")
    return array


cdef int check_built(uint64_t size, uint64_t expected) except -1:
    """ImportError where the engine was built from other sources than this module."""
    if size != expected:
        raise ImportError("headrace.engine and headrace.trainers come from different builds: "
                          "install headrace again")
    return 0


def _same(name, given, expected):
    """ArgumentError unless a size is what it has to be."""
    if given != expected:
        raise ArgumentError(f"{name} is {given}: expected {expected}")


include "_pool.pxi"
include "_net.pxi"
include "_rollout.pxi"
include "_moments.pxi"
include "_collect.pxi"
include "_learn.pxi"
include "_loss.pxi"
