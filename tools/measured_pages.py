"""Writes every table and chart of measurements from bench/results: never typed by hand.

python tools/measured_pages.py            # README.md, docs/benchmarks.md, docs/async.md
python tools/measured_pages.py --check    # only compares; 1 where one is out of date
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Callable
from pathlib import Path

import async_tables
import benchmark_tables
import readme_table
from readme_table import RESULTS, ROOT, load, replaced

BENCHMARKS = ROOT / "docs" / "benchmarks.md"
# chart: (result file, name of the chart among those of bench/plots.py)
CHARTS = {"bench-env": ("env", "kernel"), "bench-kernels": ("kernels", "learn-1x64")}


def marks(name: str) -> tuple[str, str]:
    """The comments between which a table of docs/benchmarks.md stands."""
    return f"<!-- {name}: written by tools/measured_pages.py -->", f"<!-- end of {name} -->"


def benchmarks_page(text: str) -> str:
    """docs/benchmarks.md with its tables made anew."""
    for name in benchmark_tables.TABLES:
        text = replaced(text, benchmark_tables.table(name), *marks(name))
    return text


PAGES: dict[Path, Callable[[str], str]] = {
    readme_table.README: readme_table.page,
    async_tables.PAGE: async_tables.page,
    BENCHMARKS: benchmarks_page,
}


def stamp(file: str) -> str:
    """What a chart is marked with: of which figures it was drawn."""
    return hashlib.sha256((RESULTS / f"{file}.json").read_bytes()).hexdigest()[:16]


def chart_is_current(name: str) -> bool:
    """Whether docs/NAME.png was drawn of the figures as they are."""
    path = ROOT / "docs" / f"{name}.png"
    return path.exists() and stamp(CHARTS[name][0]).encode() in path.read_bytes()


def draw(name: str) -> None:
    """Draws docs/NAME.png."""
    from headrace.bench import plots
    from headrace.bench.results import Result

    file, chart = CHARTS[name]
    figures = [Result(**each) for each in load(file)["results"]]
    series = plots.curves(figures, least=1)[chart]
    plots.chart(ROOT / "docs" / f"{name}.png", chart, series, {"Description": stamp(file)})


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true", help="fail when one is out of date")
    check = parser.parse_args(argv).check
    stale = []
    for path, page in PAGES.items():
        text = path.read_text()
        new = page(text)
        if new != text:
            stale.append(path.name)
            if not check:
                path.write_text(new)
    for name in CHARTS:
        if not chart_is_current(name):
            stale.append(f"{name}.png")
            if not check:
                draw(name)
    if check and stale:
        print(
            f"out of date: {', '.join(stale)}; run python tools/measured_pages.py", file=sys.stderr
        )
    return int(check and bool(stale))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
