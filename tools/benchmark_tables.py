"""The tables of docs/benchmarks.md, made of the documents in bench/results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from async_tables import figure, machine_of, times
from readme_table import RESULTS, load

KERNEL = "headrace kernel"
WAYS = {"kernel": KERNEL, "step": "headrace VecEnv.step", "sendrecv": "headrace send/recv"}
SIZES = (1, 64, 4096, 65536, 1 << 20)
WIDTHS = (64, 128, 256, 512)
REFERENCE = 16384  # rows of the minibatch
GROUPS = ("environment", "forward", "loss-and-backward", "rest")
Document = dict[str, Any]
Figure = dict[str, Any]


def million(each: Figure | None) -> str:
    """median (least … greatest) in millions; a dash for what could not be measured."""
    if each is None or each["median"] is None:
        return "-"
    low, middle, high = (f"{each[k] / 1e6:.3g}" for k in ("min", "median", "max"))
    return f"{middle} ({low} … {high})"


def percent(each: Figure | None) -> str:
    if each is None or each["median"] is None:
        return "-"
    low, middle, high = (f"{100 * each[k]:.0f}" for k in ("min", "median", "max"))
    return f"{middle} ({low} … {high}) %"


def found(document: Document, **wanted: Any) -> Figure | None:
    """The first result with these entries."""
    for each in document["results"]:
        if all(each[name] == value for name, value in wanted.items()):
            return each
    return None


def lines(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """A table in Markdown; the first `left` columns are text."""
    rule = ["---"] * left + ["--:"] * (len(header) - left)
    table = [header, rule, *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in table)


def source(document: Document) -> str:
    """By which command, for under a table; where it wrote to is no part of it."""
    return f"\n\n`{document['machine']['command'].partition(' --out ')[0]}`"


def environments_of(document: Document) -> list[str]:
    return sorted({each["env"] for each in document["results"] if each["env"]})


def cartpole(env: Document) -> str:
    """CartPole's vector environments."""
    rows = []
    for each in env["results"]:
        if each["env"] == "cartpole" and each["name"].startswith(("kernel-4096", "vecenv")):
            if each["unit"] != "steps/s" or each["name"].endswith("-of-copy"):
                continue
            size = each["name"].rpartition("-")[2]
            cells = [each["impl"], size if size.isdigit() else "-", str(each["threads"] or "-")]
            rows.append([*cells, million(each) if each["value"] else each["note"]])
    return lines([machine_of(env), "rows", "threads", "M steps/s"], rows) + source(env)


def environments(env: Document) -> str:
    """Every environment at 4096 rows."""
    many = max(each["threads"] for each in env["results"])
    header = [machine_of(env), "kernel", "`step`", "`send`/`recv`", f"kernel, {many} threads"]
    rows = []
    for name in environments_of(env):
        cells = [
            million(found(env, env=name, name=f"{way}-4096", impl=impl, threads=1))
            for way, impl in WAYS.items()
        ]
        cells.append(million(found(env, env=name, name="kernel-4096", impl=KERNEL, threads=many)))
        cells.append(percent(found(env, env=name, name="kernel-4096-of-copy", threads=1)))
        rows.append([name, *cells])
    return lines([*header, "of copy"], rows) + "\n\nM steps/s." + source(env)


def rows(env: Document) -> str:
    """The kernel by rows."""
    many = max(each["threads"] for each in env["results"])
    table = [
        [name]
        + [
            million(
                found(
                    env,
                    env=name,
                    name=f"kernel-{size}",
                    impl=KERNEL,
                    threads=many if size > 65536 else 1,
                )
            )
            for size in SIZES
        ]
        for name in environments_of(env)
    ]
    header = ["kernel, M steps/s", *(f"{size:,}" for size in SIZES)]
    chart = "\n\n![Kernel steps per second by rows](bench-env.png)"
    return lines(header, table) + chart + source(env)


def train(document: Document) -> str:
    """CartPole by width."""
    widths = sorted(
        int(each["name"][6:]) for each in document["results"] if each["name"][:6] == "train-"
    )
    table = []
    for width in widths:
        speed = found(document, name=f"train-{width}")
        solve = found(document, name=f"solve-{width}")
        cells = [f"1×{width}", million(speed), figure(solve) if solve else "-"]
        cells += [percent(found(document, name=f"stage-{width}-{group}")) for group in GROUPS]
        cells.append(percent(found(document, name=f"learner-of-peak-{width}")))
        table.append(cells)
    names = [group.replace("-", " ") for group in GROUPS]
    header = [machine_of(document), "M steps/s", "s to solve", *names, "of peak"]
    preset = found(document, name="solve-preset")
    told = f"\n\nThe preset itself: {figure(preset)} s; {preset['note']}." if preset else ""
    return lines(header, table) + told + source(document)


def stages(presets: Document) -> str:
    """Speed and stages of every preset."""
    table = []
    for name in environments_of(presets):
        speed = million(found(presets, env=name, name="train"))
        shares = [percent(found(presets, env=name, name=f"stage-{group}")) for group in GROUPS]
        table.append([name, speed, *shares])
    header = [machine_of(presets), "M steps/s", *(group.replace("-", " ") for group in GROUPS)]
    return lines(header, table) + source(presets)


def kernels(document: Document) -> str:
    """Native against torch."""
    many = max(each["threads"] for each in document["results"])
    table = []
    for depth in (1, 2):
        for width in WIDTHS:
            name = f"learn-{depth}x{width}-{REFERENCE}"
            own, eager, compiled = (
                found(document, name=name, impl=impl, threads=many)
                for impl in ("headrace native", "torch eager", "torch.compile")
            )
            ratios = [times(own, other) if own and other else "-" for other in (eager, compiled)]
            peak = percent(found(document, name=f"{name}-of-peak", impl="headrace native"))
            took = found(document, name=f"compile-{name}")
            cells = [million(own), million(eager), million(compiled), *ratios]
            cells += [figure(took) if took else "-", peak]
            table.append([f"{depth}×{width}", *cells])
    header = [
        machine_of(document), "native", "eager", "compiled", "× eager", "× compiled",
        "s to compile", "of peak",
    ]  # fmt: skip
    chart = "\n\n![Rows per second by minibatch, one hidden layer of 64](bench-kernels.png)"
    told = "\n\nM rows/s. *Of peak*: native, one core, matrix products alone."
    return lines(header, table) + told + chart + source(document)


def with_unit(each: Figure) -> tuple[str, str]:
    """median (least … greatest), and its unit."""
    if each["value"] is not None and each["unit"].endswith("/s") and each["value"] >= 1e6:
        return million(each), f"M {each['unit']}"
    return figure(each), each["unit"]


def peers(document: Document) -> str:
    """headrace and the others, group by group, with how many times as fast headrace is."""
    own = {
        each["name"]: each
        for each in document["results"]
        if each["impl"] in ("headrace", "headrace VecEnv.step") and each["value"] is not None
    }
    table = []
    for each in document["results"]:
        ours = own.get(each["name"])
        ratio = "-"
        if ours is not None and each["value"] is not None and "headrace" not in each["impl"]:
            ratio = times(each, ours) if each["unit"] == "s" else times(ours, each)
        value, unit = with_unit(each)
        label = [each["name"], each["impl"], str(each["threads"] or "-")]
        table.append([*label, value, unit, ratio, each["note"]])
    header = [machine_of(document), "whose", "threads", "median", "unit", "headrace ×", "note"]
    told = "\n\n*headrace ×*: how many times as fast headrace is, `VecEnv.step` where it steps."
    return lines(header, table, left=2) + told + source(document)


def comparison(document: Document) -> str:
    """Every result by itself: for benchmarks of whose names the page knows nothing."""
    table = []
    for each in document["results"]:
        value, unit = with_unit(each)
        label = [each["name"], each["impl"], each["env"] or "-", str(each["threads"] or "-")]
        table.append([*label, value, unit, each["note"]])
    header = [machine_of(document), "whose", "environment", "threads", "median", "unit", "note"]
    return lines(header, table, left=3) + source(document)


# marker: (result file, table)
TABLES: dict[str, tuple[str, Callable[[Document], str]]] = {
    "cartpole": ("env", cartpole),
    "environments": ("env", environments),
    "rows": ("env", rows),
    "train": ("train", train),
    "stages": ("presets", stages),
    "lunarlander": ("lunarlander", comparison),
    "torch": ("torch", comparison),
    "kernels": ("kernels", kernels),
    "peers": ("peers", peers),
    "vec": ("vec", comparison),
}


def table(name: str) -> str:
    """The text between the marks of that name."""
    file, make = TABLES[name]
    if not (RESULTS / f"{file}.json").exists():
        return f"Not on record: `headrace bench {file} --out bench/results/{file}.json`."
    return make(load(file))
