"""Gymnasium's own vector tests with headrace's worker processes in place of its vectorisation.

    python tools/gymnasium_suite.py CHECKOUT [arguments of pytest]

CHECKOUT is a checkout of Gymnasium at the version that is installed; nothing of it is copied
here. Its SyncVectorEnv and AsyncVectorEnv are replaced by ProcessVecEnv before its tests are
imported. The tests that cannot apply are listed below with the reason, and are left out.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from headrace.engine.processes.vector import ProcessVecEnv

# Part of a test's id: why it cannot apply.
NOT_APPLICABLE = {
    "reset_timeout_async": "reset_async and reset_wait(timeout) are AsyncVectorEnv's own calls",
    "step_timeout_async": "step_async and step_wait(timeout) are AsyncVectorEnv's own calls",
    "out_of_order": "reset_async, step_async and call_async are AsyncVectorEnv's own calls",
    "already_closed_async": "reset_async and reset_wait are AsyncVectorEnv's own calls",
    "custom_space_": "a space of the test's own, whose values have no known size",
    "test_async_vector_subenv_error": "asks for AsyncVectorEnv's log lines; ours is an exception",
    "test_metadata_sync_vector_env": "is about attributes of the objects in SyncVectorEnv.envs",
    "test_check_spaces_sync_vector_env": "is about SyncVectorEnv's own messages",
}
# Spaces whose values have no fixed size: refused in one sentence, so tests of these cannot apply.
UNSIZED = ("Text", "Graph", "Sequence", "OneOf")
UNSIZED_TESTS = ("test_vector_env.py", "test_autoreset_mode.py")


class Processes(ProcessVecEnv):
    """ProcessVecEnv with the arguments of Gymnasium's vector environments."""

    def __init__(self, env_fns: Any, **kwargs: Any) -> None:
        for name in ("shared_memory", "context", "daemon", "worker"):
            kwargs.pop(name, None)
        super().__init__(list(env_fns), workers=2, start_method="fork", **kwargs)


class Plugin:
    """Leaves out what cannot apply, and says so at the end."""

    def __init__(self) -> None:
        self.left_out: dict[str, str] = {}

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        kept = []
        for item in items:
            reason = _reason(item.nodeid)
            if reason is None:
                kept.append(item)
            else:
                self.left_out[item.nodeid] = reason
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for test, reason in self.left_out.items():
            terminalreporter.write_line(f"not applicable: {test}: {reason}")


def _reason(test: str) -> str | None:
    """Why a test cannot apply; None where it does."""
    if any(file in test for file in UNSIZED_TESTS) and any(name in test for name in UNSIZED):
        return "a space whose values have no fixed size in shared memory"
    return next((why for part, why in NOT_APPLICABLE.items() if part in test), None)


def main() -> int:
    if len(sys.argv) < 2 or not (Path(sys.argv[1]) / "tests" / "vector").is_dir():
        print("usage: python tools/gymnasium_suite.py CHECKOUT [arguments of pytest]")
        return 2
    checkout = Path(sys.argv[1])
    for name in ("SyncVectorEnv", "AsyncVectorEnv"):
        setattr(gymnasium.vector, name, Processes)
    tests = str(checkout / "tests" / "vector")
    return pytest.main(
        ["-q", "-p", "no:cacheprovider", "--rootdir", str(checkout), tests, *sys.argv[2:]],
        plugins=[Plugin()],
    )


if __name__ == "__main__":
    sys.exit(main())
