"""Records the first steps of environments that were changed on purpose: bench/trajectories.py.

python tools/record_trajectories.py pong snake     # without names: every shipped environment
"""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from pathlib import Path

from headrace.bench import trajectory
from headrace.bench.shipped import shipped
from headrace.bench.sweep import make, stepped
from headrace.bench.trajectories import TRAJECTORIES
from headrace.engine.resolve import resolve

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "bench" / "trajectories.py"


def recorded(name: str) -> tuple[str, str]:
    """The digests of an environment as the plain serial executor steps it."""
    rows = trajectory.WORLDS * resolve(name).spec.agents
    with closing(make(name, rows, 1)) as env:
        return trajectory.digests(env, stepped(env))


def main(argv: list[str]) -> int:
    known_names = shipped()
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="environments (default: all)")
    names = parser.parse_args(argv).names or known_names
    for name in set(names) - set(known_names):
        parser.error(f"{name} does not ship; there are {', '.join(known_names)}")
    known = {name: found for name, found in TRAJECTORIES.items() if name in known_names}
    known |= {name: recorded(name) for name in names}
    lines = "\n".join(f'    "{n}": ("{a}", "{b}"),' for n, (a, b) in sorted(known.items()))
    head = OUT.read_text().split("TRAJECTORIES", 1)[0]
    OUT.write_text(f"{head}TRAJECTORIES: dict[str, tuple[str, str]] = {{\n{lines}\n}}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
