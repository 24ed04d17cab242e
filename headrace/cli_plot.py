"""`headrace plot`: how runs went, as a picture or as text."""

from __future__ import annotations

import dataclasses
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from .charts import SUFFIXES, can_draw, draw, text_chart
from .curves import Curve, curves
from .flags import Verb
from .output import print_json
from .trainers.run import RunError
from .trainers.settings import ConfigError, required, setting

DEFAULT_FILE = "returns.png"
DEFAULT_METRIC = "episode/return"


@dataclasses.dataclass(frozen=True)
class PlotFlags:
    """The flags of `headrace plot`."""

    runs: tuple[str, ...] = required("folders of runs, each a curve")
    metric: str = setting(DEFAULT_METRIC, "what is drawn: any metric of docs/metrics.md")
    out: str | None = setting(
        None,
        f"the picture: a file.png, file.svg or file.pdf (default: {DEFAULT_FILE}; needs "
        "matplotlib: pip install 'headrace[plots]')",
    )
    text: bool = setting(False, "draw it in the terminal instead; so it is without matplotlib")
    json: bool = setting(False, "print where the curves end as one JSON document on stdout")


VERB = Verb(
    "plot",
    "Draws a metric of one or more runs against steps and against seconds of training.",
    PlotFlags,
    "headrace plot runs/cartpole-20260101-120000 runs/cartpole-20260101-120100 --out both.png",
)


def main(argv: list[str]) -> int:
    """Runs the verb."""
    given = VERB.parse(argv)
    metric = given.get("metric", DEFAULT_METRIC)
    file = _file(given.get("out"), text=given.get("text", False))
    found = curves(given["runs"], metric)
    if file is not None:
        try:
            draw(found, metric, file)
        except OSError as error:
            raise RunError(f"{file} cannot be written: {error.strerror or error}") from error
        print(f"drawn in {file}", file=sys.stderr)
    elif not given.get("json"):
        print("\n".join(text_chart(found, metric, shutil.get_terminal_size().columns)))
    if given.get("json"):
        print_json(_document(given["runs"], found, metric, file))
    return 0


def _file(out: str | None, *, text: bool) -> Path | None:
    """Where the picture goes; None: the terminal.

    Raises:
        ConfigError: a suffix that is none, or a picture without matplotlib.
    """
    if text:
        return None
    if out is not None and Path(out).suffix not in SUFFIXES:
        raise ConfigError(f"--out must end in {' or '.join(SUFFIXES)}, not {out!r}")
    if can_draw():
        return Path(out or DEFAULT_FILE)
    missing = "matplotlib is not installed: pip install 'headrace[plots]'"
    if out is not None:
        raise ConfigError(f"--out {out}: {missing}, or use --text")
    print(f"headrace: {missing} for a picture", file=sys.stderr)
    return None


def _document(
    runs: Sequence[str], found: Sequence[Curve], metric: str, file: Path | None
) -> dict[str, object]:
    ends = [
        {
            "run": run,
            "steps": int(curve.steps[-1]),
            "seconds": float(curve.seconds[-1]),
            "value": float(curve.values[-1]),
            "highest": float(curve.values.max()),
        }
        for run, curve in zip(runs, found, strict=True)
    ]
    return {"metric": metric, "file": None if file is None else str(file), "runs": ends}
