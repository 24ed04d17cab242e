"""Prints a command of the README: `python tools/readme_command.py install|test`.

`install` installs and trains, `test` installs and passes the tests. CI runs what is printed, so
that the README cannot promise what does not work.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"
ENDS = {"install": "headrace train cartpole", "test": "pytest"}


def command(kind: str, text: str) -> str:
    """The first one-line command in a code block that installs and ends as `kind` should."""
    for line in re.findall(r"^(pip install .+)$", text, re.MULTILINE):
        without_comment = re.split(r"\s+#", line)[0].strip()
        if without_comment.endswith(f"&& {ENDS[kind]}"):
            return without_comment
    raise SystemExit(f"README.md has no command that ends in `&& {ENDS[kind]}`")


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in ENDS:
        raise SystemExit(f"usage: python tools/readme_command.py {'|'.join(ENDS)}")
    print(command(sys.argv[1], README.read_text()))
