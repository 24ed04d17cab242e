"""Worker processes that go wrong, and what is left of a batch in every case: nothing."""

from __future__ import annotations

import _thread
import functools
import gc
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from multiprocessing import connection as connections
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from process_envs import Counter, Faulty, FaultyReset, Napper

import headrace
from headrace.engine.errors import WorkerError
from headrace.engine.processes.crew import Crew
from headrace.engine.processes.vector import ProcessVecEnv

HERE = Path(__file__).resolve().parent


def make(env: Any, num_envs: int, **kwargs: Any) -> ProcessVecEnv:
    kwargs.setdefault("workers", 2)
    vec = headrace.make_vec(env, num_envs, **kwargs)
    assert isinstance(vec, ProcessVecEnv)
    return vec


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def all_end(pids: list[int], seconds: float = 5.0) -> bool:
    """Whether all of the processes end in time."""
    until = time.monotonic() + seconds
    while any(map(alive, pids)):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")

STEP_FAULTS = [
    ("raise", r"environment 3 \(worker 1\) raised ZeroDivisionError"),
    (
        "kill",
        r"worker 1 \(process \d+, environments 2 to 3 of .*\) was killed by SIGKILL while it "
        "stepped environment 3",
    ),
    ("exit", r"worker 1 \(process \d+, environments 2 to 3 of .*\) ended with exit status 7"),
    ("hang", r"worker 1 \(process .* busy with environment 3 for more than 0.5 s"),
]


@needs_proc
@pytest.mark.parametrize(("what", "message"), STEP_FAULTS)
@pytest.mark.parametrize("start_method", ["spawn", "fork", "forkserver"])
def test_a_fault_in_a_step_is_named(what: str, message: str, start_method: str) -> None:
    env = functools.partial(Faulty, what, seed=3)
    vec = make(env, 4, timeout=0.5 if what == "hang" else 60.0, start_method=start_method)
    pids = vec.pids()
    vec.reset(seed=0)
    vec.step([0] * 4)
    begun = time.monotonic()
    with pytest.raises(WorkerError, match=message) as raised:
        vec.step([0] * 4)
    assert time.monotonic() - begun < 5.0
    if what == "raise":  # the original traceback, down to the author's line
        assert 'raise ZeroDivisionError("the pole broke")' in str(raised.value)
        assert "process_envs.py" in str(raised.value)
        assert isinstance(raised.value.__cause__, ZeroDivisionError)
    assert all_end(pids)
    with pytest.raises(RuntimeError, match="after close"):
        vec.step([0] * 4)
    vec.close()


@pytest.mark.parametrize("what", ["raise", "kill", "hang"])
def test_a_fault_in_reset_is_named(what: str) -> None:
    vec = make(functools.partial(FaultyReset, what), 2, timeout=0.5 if what == "hang" else 60.0)
    pids = vec.pids()
    with pytest.raises(WorkerError, match=r"environment 1|worker 1"):
        vec.reset(seed=0)
    assert all_end(pids)


def test_a_fault_in_making_is_named() -> None:
    def broken() -> Any:
        raise ZeroDivisionError("no wheels")

    with pytest.raises(WorkerError, match=r"environment 0 \(worker 0\) raised ZeroDivisionError"):
        make(broken, 2)
    with pytest.raises(WorkerError, match=r"environment 2 \(worker 1\) raised ZeroDivisionError"):
        make([Counter, Counter, broken, Counter], 4)


def test_a_fault_in_a_call_is_named() -> None:
    vec = make(Counter, 2)
    # neither environment has it: the one that answers first is named
    said = r"(?s)environment ([01]) \(worker \1\).*has no attribute 'nothing'"
    with pytest.raises(WorkerError, match=said):
        vec.get_attr("nothing")


def test_what_cannot_travel_is_said() -> None:
    lock = threading.Lock()

    def locked() -> Counter:
        with lock:
            return Counter()

    with pytest.raises(TypeError, match="env cannot be sent to a worker process"):
        make(locked, 2)
    vec = make(locked, 2, start_method="spawn", executor="serial", workers=None)
    vec.reset()
    vec.close()


@needs_proc
@pytest.mark.parametrize("what", ["raise", "kill", "exit", "hang"])
@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_a_lost_worker_is_replaced(what: str, mode: str) -> None:
    """World 3 is lost; world 2, of the same worker, had made its step and is cut at the next."""
    env = functools.partial(Faulty, what, seed=3)
    timeout = 0.5 if what == "hang" else 60.0
    vec = make(env, 4, timeout=timeout, restarts=1, autoreset_mode=mode)
    first = vec.pids()
    vec.reset(seed=0)
    vec.step([1] * 4)
    with pytest.warns(UserWarning, match="it is restarted, its episodes are truncated"):
        obs, rewards, terminated, truncated, infos = vec.step([1] * 4)
    assert vec.restarted == 1
    assert truncated.tolist() == [False, False, False, True]
    assert rewards.tolist() == [1, 1, 1, 0]
    told = infos["final_info"] if mode == "SameStep" else infos
    assert told["restarted"].tolist() == [False, False, False, True]
    assert obs[:3, 0].tolist() == [2, 2, 2]
    if mode == "Disabled":
        obs, _ = vec.reset(options={"reset_mask": truncated})
        assert obs[:, 0].tolist() == [2, 2, 2, 0]
    elif mode == "SameStep":
        assert obs[3, 0] == 0
    obs, rewards, terminated, truncated, _ = vec.step([1] * 4)
    assert truncated.tolist() == [False, False, True, False]
    assert rewards.tolist() == [1, 1, 0, 0 if mode == "NextStep" else 1]
    assert not terminated.any()
    if mode == "Disabled":
        vec.reset(options={"reset_mask": truncated})
    for _ in range(3):
        obs, rewards, _, truncated, _ = vec.step([1] * 4)
    assert rewards.tolist() == [1] * 4
    assert not truncated.any()
    pids = vec.pids()
    assert pids[0] == first[0]
    assert pids[1] != first[1]
    vec.close()
    assert all_end([*first, *pids])


@needs_proc
def test_a_lost_worker_is_replaced_while_others_are_in_hand() -> None:
    """Worlds that nobody had sent are truncated too, at their next step."""
    vec = make(functools.partial(Faulty, "kill", seed=3), 4, restarts=1, batch_size=1)
    vec.reset(seed=0)
    vec.send([0], env_ids=[3])
    vec.recv()
    vec.send([0], env_ids=[3])
    with pytest.warns(UserWarning, match="restarted"):
        _, _, _, truncated, infos = vec.recv()
    assert infos["env_id"].tolist() == [3]
    assert truncated.tolist() == [True]
    vec.send([0], env_ids=[2])
    assert vec.recv()[3].tolist() == [True]
    vec.send([0], env_ids=[1])
    assert vec.recv()[3].tolist() == [False]
    vec.close()


def test_restarts_are_counted() -> None:
    vec = make(functools.partial(Faulty, "kill", seed=1, at=1), 2, restarts=1)
    vec.reset(seed=0)
    with pytest.warns(UserWarning, match="restarted"):
        vec.step([0, 0])
    vec.reset(seed=0)
    with pytest.raises(WorkerError, match="killed by SIGKILL"):
        vec.step([0, 0])


def test_an_interrupt_leaves_a_batch_that_can_go_on() -> None:
    vec = make(Napper, 2)
    vec.reset()
    timer = threading.Timer(0.3, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        vec.step(np.array([1.0, 0.0]))
    with pytest.raises(RuntimeError, match="2 environments are in flight"):
        vec.step(np.array([0.0, 0.0]))
    obs = vec.recv()[0]
    assert obs.tolist() == [1, 0]
    vec.close()


class TellsAtFirst(Faulty):
    """Has something to say in its first episode only."""

    def step(self, action: Any) -> Any:
        *result, info = super().step(action)
        return *result, {"first": True} if self.episode == 1 else info


@pytest.mark.parametrize("parts", [1, 2])
def test_an_interrupt_leaves_a_serial_batch_that_can_be_reset(parts: int) -> None:
    faulty = functools.partial(TellsAtFirst, "interrupt", at=1)  # of seed 1
    vec = make(faulty, 4, executor="serial", workers=None, batch_size=4 // parts)
    vec.reset(seed=0)
    step = functools.partial(vec.step, [0] * 4) if parts == 1 else vec.recv
    if parts > 1:
        vec.send([0] * 4)
    with pytest.raises(KeyboardInterrupt):
        step()
    assert vec.get_attr("count") == (1, 0, 0, 0)
    for call in (step, vec.recv):
        with pytest.raises(RuntimeError, match="before reset"):
            call()
    vec.reset(seed=10)
    obs, _, _, _, infos = vec.step([0] * 4)
    assert obs[:, 0].tolist() == [1] * 4
    assert infos == {}
    vec.send([0] * 4)
    assert vec.recv()[0][:, 0].tolist() == [2] * (4 // parts)
    vec.close()


@needs_proc
@pytest.mark.parametrize("caller_share", [0, 1])
def test_a_fork_that_closes_the_batch_leaves_its_workers_alone(caller_share: int) -> None:
    vec = make(Counter, 4, start_method="fork", caller_share=caller_share)
    vec.reset(seed=0)
    child = os.fork()
    if child == 0:
        try:
            vec.close()
            os._exit(0 if vec.closed else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert all(map(alive, vec.pids()))
    assert vec.step([0] * 4)[0][:, 0].tolist() == [1] * 4
    vec.close()


def test_an_answer_that_nobody_waits_for_is_no_error() -> None:
    vec = make(Counter, 2, start_method="fork")
    vec.reset(seed=0)
    crew = vec._crew
    assert isinstance(crew, Crew)
    crew._processes[0].connection.send_bytes(pickle.dumps(("set", "length", [5])))
    crew._front.tell(0)  # type: ignore[union-attr]
    assert connections.wait([crew._processes[0].connection], 10.0)
    crew._read_letters()
    assert vec.step([0, 0])[0][:, 0].tolist() == [1, 1]
    assert vec.get_attr("length") == (5, 3)
    vec.close()


SCRIPT = """
import os, signal, sys, time
sys.path.insert(0, {here!r})
import headrace
from process_envs import Napper
vec = headrace.make_vec(Napper, 2, workers=2, start_method={start_method!r})
print(*vec.pids(), flush=True)
vec.reset()
if {hang}:
    vec.step([100.0, 100.0])
{end}
"""

ENDS = {
    "an exception": ("raise SystemExit(3)", False),
    "the end of the script": ("pass", False),
    "SIGKILL": ("os.kill(os.getpid(), signal.SIGKILL)", False),
    "SIGKILL while a worker is in a step": ("", True),
    "Ctrl-C while a worker is in a step": ("", True),
}


@needs_proc
@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("start_method", ["spawn", "fork"])
def test_nothing_is_left_behind(how: str, start_method: str) -> None:
    """No process, no shared memory, no complaint, however the parent ends. The script has no
    `if __name__ == "__main__":`."""
    end, hang = ENDS[how]
    script = SCRIPT.format(here=str(HERE), start_method=start_method, end=end, hang=hang)
    shared = set(os.listdir("/dev/shm"))
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert parent.stdout is not None
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 2
    if hang:
        time.sleep(0.5)
        ctrl_c = how.startswith("Ctrl-C")
        if ctrl_c:
            os.killpg(parent.pid, signal.SIGINT)  # as a terminal does: to all of them
        else:
            parent.kill()
    _, errors = parent.communicate(timeout=30)
    assert all_end(pids)
    assert "resource_tracker" not in errors
    assert set(os.listdir("/dev/shm")) <= shared
    if how.startswith("Ctrl-C"):
        assert "KeyboardInterrupt" in errors
        assert errors.count("Traceback") == 1  # the parent's alone


@needs_proc
def test_batches_that_are_forgotten_end_their_workers() -> None:
    vec = make(Counter, 2)
    pids = vec.pids()
    vec.reset()
    del vec
    gc.collect()
    assert all_end(pids)


@needs_proc
def test_creating_and_closing_leaks_nothing() -> None:
    def handles() -> int:
        return len(os.listdir("/proc/self/fd"))

    def cycle() -> None:
        vec = make(Counter, 4, start_method="fork")
        vec.reset(seed=0)
        vec.step([0] * 4)
        vec.close()

    def children() -> str:  # a forkserver of another test may be among them
        return Path(f"/proc/self/task/{os.getpid()}/children").read_text()

    cycle()
    before, shared, processes = handles(), set(os.listdir("/dev/shm")), children()
    for _ in range(10):
        cycle()
    assert handles() == before
    assert set(os.listdir("/dev/shm")) <= shared
    assert children() == processes


def test_a_script_that_defines_its_environment_needs_no_guard(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import gymnasium, headrace
        from gymnasium import spaces

        class Mine(gymnasium.Env):
            observation_space = spaces.Discrete(3)
            action_space = spaces.Discrete(3)
            def reset(self, seed=None, options=None):
                return 0, {}
            def step(self, action):
                return int(action), 1.0, False, False, {}

        gymnasium.register("Mine-v0", Mine)
        for env in (Mine, "gymnasium:Mine-v0"):
            vec = headrace.make_vec(env, 2, workers=2)
            vec.reset(seed=0)
            print(vec.step([1, 2])[0].tolist())
            vec.close()
        """)
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.splitlines() == ["[1, 2]", "[1, 2]"], done.stderr


class OldReset(Counter):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=seed, options=options)[0]


class Seedless(Counter):
    def reset(self) -> Any:  # type: ignore[override]
        return super().reset()


class OldStep(Counter):
    def step(self, action: Any) -> Any:
        obs, reward, over, _, info = super().step(action)
        return obs, reward, over, info


class OwnTypeError(Counter):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return len(seed)  # type: ignore[arg-type]


OLD_RESET = r"expected reset\(self, \*, seed=None, options=None\) -> \(observation, info\)$"
OLD_STEP = r"expected step\(self, action\) -> \(observation, reward, terminated, truncated, info\)$"


@pytest.mark.parametrize("executor", ["processes", "serial"])
@pytest.mark.parametrize(
    ("env", "message"),
    [
        (OldReset, "reset of OldReset returned a ndarray: " + OLD_RESET),
        (Seedless, "reset of Seedless does not take seed and options: " + OLD_RESET),
        (OldStep, "step of OldStep returned 4 values: " + OLD_STEP),
    ],
)
def test_signatures_of_old_gym_are_a_sentence(env: Any, message: str, executor: str) -> None:
    vec = headrace.make_vec(env, 2, executor=executor)

    def live() -> None:
        vec.reset(seed=0)
        vec.step([0, 0])

    with pytest.raises(headrace.HeadraceError, match=message) as raised:
        live()
    assert "\n" not in str(raised.value)
    vec.close()


def test_a_step_of_old_gym_within_a_time_limit_is_a_sentence() -> None:
    vec = make(OldStep, 1, max_steps=9)
    vec.reset(seed=0)
    with pytest.raises(
        WorkerError, match=r"^environment 0 .* returned something else: " + OLD_STEP
    ):
        vec.step([0])


def test_a_type_error_of_an_environments_own_comes_as_it_is() -> None:
    vec = headrace.make_vec(OwnTypeError, 1, executor="serial")
    with pytest.raises(TypeError, match="has no len"):
        vec.reset(seed=0)
    vec.close()
