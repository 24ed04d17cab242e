"""Buffers: layout, alignment, shared memory across processes."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from drifting import library

from headrace.engine import _core
from headrace.engine.buffers import ALIGNMENT, Buffers, layout
from headrace.engine.errors import ArgumentError
from headrace.engine.spec import EnvSpec


@pytest.fixture(scope="module")
def spec():
    return EnvSpec.from_library(library(AGENTS=2))


def run(code: str, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *args],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def is_linked(name: str) -> bool:
    return os.path.exists(f"/dev/shm/{name}")


def test_arrays_lie_side_by_side_on_cache_lines(spec):
    buffers = Buffers(spec, 33)
    arrays, size = layout(spec, 33)
    start = buffers.arrays["state"].ctypes.data
    end = 0
    for told in arrays:
        array = buffers.arrays[told.name]
        assert array.ctypes.data == start + told.offset
        assert array.ctypes.data % ALIGNMENT == 0
        assert array.flags.c_contiguous
        assert (array.view(np.uint8) == 0).all()
        assert 0 <= told.offset - end < ALIGNMENT
        end = told.offset + told.nbytes
    assert size - end < ALIGNMENT
    assert buffers.arrays["rewards"].shape == (66,)
    assert buffers.arrays["state"].shape == (33, spec.state_size)
    assert buffers.arrays["mask"].shape == (66, 3)
    assert buffers.arrays["last_metrics"].shape == (33, 2)


def test_views_share_the_memory(spec):
    buffers = Buffers(spec, 4)
    buffers.obs[3] = [5, 6]
    assert buffers.arrays["obs"][3].tolist() == (5, 6)
    buffers.actions[:] = 2
    assert buffers.action_slots.view(np.int32).reshape(-1).tolist() == [2] * 8
    assert buffers.name is None
    buffers.close()


@pytest.mark.parametrize("worlds", [0, -3])
def test_no_worlds(spec, worlds):
    with pytest.raises(ArgumentError, match="worlds"):
        Buffers(spec, worlds)


@pytest.mark.parametrize("shared", [False, True])
def test_more_memory_than_there_is(spec, shared):
    with pytest.raises(ArgumentError, match=r"environments of 'drift' would need .*TB of memory"):
        Buffers(spec, 10**11, shared=shared)


def test_shared_memory_is_seen_by_another_process(spec):
    buffers = Buffers(spec, 5, shared=True)
    buffers.obs[:] = np.arange(20).reshape(10, 2)
    result = run(
        """
        import sys
        from headrace.engine.buffers import Buffers
        arrays = Buffers.attach(sys.argv[1])
        assert arrays["obs"]["clock"].tolist() == list(range(1, 20, 2)), arrays["obs"]
        arrays["rewards"][:] = 4.5
        print(sorted(arrays))
        """,
        buffers.name,
    )
    assert (result.stderr, result.returncode) == ("", 0)
    assert result.stdout.strip() == str(sorted(buffers.arrays))
    assert (buffers.arrays["rewards"] == 4.5).all()
    assert is_linked(buffers.name)  # the process that attached did not remove it
    buffers.close()
    buffers.close()
    assert not is_linked(buffers.name)
    assert (buffers.arrays["rewards"] == 4.5).all()  # the arrays stay


def test_a_batch_can_be_stepped_in_shared_memory():
    batch_library = library()
    spec = EnvSpec.from_library(batch_library)
    buffers = Buffers(spec, 70, shared=True)
    core = _core.Vec(batch_library, 70, arrays=buffers.arrays)
    core.reset(np.arange(70, dtype=np.uint64))
    core.step(None)
    elsewhere = Buffers.attach(buffers.name)
    assert elsewhere["elapsed"].tolist() == [1] * 70
    np.testing.assert_array_equal(elsewhere["obs"], buffers.arrays["obs"])
    buffers.close()


def test_given_name_is_used_once(spec):
    name = f"headrace-test-{os.getpid()}"
    buffers = Buffers(spec, 2, shared=name)
    assert buffers.name == name
    with pytest.raises(ArgumentError, match="exists already"):
        Buffers(spec, 2, shared=name)
    buffers.close()
    with pytest.raises(ArgumentError, match="there is no shared memory"):
        Buffers.attach(name)


@pytest.mark.parametrize("name", ["", "a/b", "x" * 300])
def test_names_that_cannot_be(spec, name):
    with pytest.raises(ArgumentError, match="shared"):
        Buffers(spec, 2, shared=name)


def test_nothing_is_left_when_the_object_or_the_process_ends(spec):
    name = Buffers(spec, 2, shared=True).name
    assert not is_linked(name)
    code = """
        import os, signal, sys
        sys.path[:0] = sys.argv[1:]
        from drifting import library
        from headrace.engine.buffers import Buffers
        from headrace.engine.spec import EnvSpec
        buffers = Buffers(EnvSpec.from_library(library()), 3, shared=True)
        print(buffers.name, flush=True)
    """
    folder = os.path.dirname(__file__)
    result = run(code, folder)
    assert (result.stderr, result.returncode) == ("", 0)
    assert not is_linked(result.stdout.strip())


def test_forked_child_leaves_the_name_alone(spec):
    buffers = Buffers(spec, 2, shared=True)
    child = os.fork()
    if child == 0:
        buffers.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert is_linked(buffers.name)
    buffers.close()


def test_foreign_memory_is_refused():
    from multiprocessing import shared_memory

    block = shared_memory.SharedMemory(create=True, size=4096)
    try:
        with pytest.raises(ArgumentError, match="holds no headrace buffers"):
            Buffers.attach(block.name)
    finally:
        block.close()
        block.unlink()


def test_pickling_says_what_to_do_instead(spec):
    with pytest.raises(Exception, match=r"Buffers\.attach"):
        pickle.dumps(Buffers(spec, 2))
