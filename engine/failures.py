"""The words for a failed HR_CHECK, wherever it is noticed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .errors import CheckError


def check_error(
    failure: Mapping[str, Any], name: str, agents: int, worlds: int, when: str = ""
) -> CheckError:
    """The error for what `Vec.take_failure` gave.

    name, agents, worlds: of the batch. when: words about the time, ", step 3" for instance;
    they are left out where the world is not known.
    """
    world = failure["world"]
    if 0 <= world < worlds:
        where = f"environment {world * agents} of {name!r}{when}"
    else:
        where = f"an environment of {name!r}"
    return CheckError(
        f"{failure['file']}:{failure['line']}: HR_CHECK failed: {failure['message']} ({where})"
    )
