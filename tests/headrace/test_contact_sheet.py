"""docs/envs.png shows what the environments draw now."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_contact_sheet_is_current():
    command = [sys.executable, str(ROOT / "tools" / "contact_sheet.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "docs/envs.png is current\n"
