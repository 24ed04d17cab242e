"""What every test shares: compiled environments go to a folder of this session alone."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Points the cache of compiled environments (of subprocesses too) and the records of what
    was named at an empty folder."""
    folder = tempfile.mkdtemp(prefix="headrace-tests-")
    config.stash[_CACHE] = folder
    os.environ["HEADRACE_CACHE_DIR"] = folder
    os.environ["HEADRACE_DATA_DIR"] = os.path.join(folder, "data")


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(config.stash[_CACHE], ignore_errors=True)


_CACHE = pytest.StashKey[str]()
