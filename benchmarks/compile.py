"""How long a project takes to compile: by its size, by the shape of its graph, and once more after one file changed.

    python benchmarks/compile.py [--runs 3] [--only wide_1000 ...]

Each figure is that of a whole process of ``rivet-dagster compile``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

LAYERS = 50
COLUMNS = ("id", "customer_id", "ordered_at", "status", "amount")

RIVET = "profiles: profiles.yaml\nsources: sources\njoints: joints\nsinks: sinks\n"
PROFILES = """\
default:
  catalogs:
    raw: {type: filesystem, path: data, format: csv}
    lake: {type: filesystem, path: lake}
  engines:
    - {name: spark, type: pyspark, catalogs: [raw, lake], master: "local[2]"}
"""
Files = Iterator[tuple[str, str]]


def wide(joints: int) -> Files:
    """``LAYERS`` layers of equally many joints: sources, then joins, filters and aggregates in turn, then sinks."""
    width = joints // LAYERS
    yield from (_source(f"t00_{place:04}") for place in range(width))
    for layer in range(1, LAYERS - 1):
        for place in range(width):
            names = [f"t{layer - 1:02}_{p:04}" for p in (place, (place + 1) % width)]
            yield _sql(f"t{layer:02}_{place:04}", _QUERIES[layer % 3](*names), place)
    yield from (_sink(f"t{LAYERS - 1:02}_{place:04}", f"t{LAYERS - 2:02}_{place:04}") for place in range(width))


def chain(joints: int) -> Files:
    """One joint after another, each reading the one before it."""
    yield _source("t0")
    yield from (_sql(f"t{n}", _filter(f"t{n - 1}"), n) for n in range(1, joints - 1))
    yield _sink(f"t{joints - 1}", f"t{joints - 2}")


def _source(name: str) -> tuple[str, str]:
    ddl = "id BIGINT, customer_id BIGINT, ordered_at TIMESTAMP, status STRING, amount DOUBLE, note STRING"
    text = (
        f"# what the shop exports every night\ntype: source\ncatalog: raw\ntable: {name}.csv\n"
        f"columns: [{', '.join(COLUMNS)}]\nfilter: amount IS NOT NULL AND status <> 'test'\n"
        f"options:\n  schema: {ddl}\ntags: [raw, daily]\n"
    )
    return f"sources/{name}.yaml", text


def _sink(name: str, upstream: str) -> tuple[str, str]:
    text = (
        f"type: sink\nupstream: [{upstream}]\ncatalog: lake\ntable: {name}\nowners: [data@example.com]\n"
        "quality:\n  assertions:\n    - {type: not_null, columns: [id]}\n  audits:\n    - {type: row_count, min: 1}\n"
    )
    return f"sinks/{name}.yaml", text


def _sql(name: str, query: str, place: int) -> tuple[str, str]:
    """Three of four as annotated SQL, the fourth as YAML."""
    if place % 4 == 3:
        body = "".join(f"  {line}\n" for line in query.splitlines())
        text = f"type: sql\ndescription: Orders, step {name}\ntags: [orders, daily]\nsql: |\n{body}"
        return f"joints/{name[:3]}/{name}.yaml", text
    checked = "-- rivet:assert: not_null(id)\n" if place % 4 == 0 else ""
    text = f"-- rivet:description: Orders, step {name}\n-- rivet:tags: [orders, daily]\n{checked}\n{query}\n"
    return f"joints/{name[:3]}/{name}.sql", text


def _join(left: str, right: str) -> str:
    return (
        "SELECT o.id, o.customer_id, CAST(o.ordered_at AS TIMESTAMP) AS ordered_at, -- when it was placed\n"
        "       coalesce(o.status, c.status) AS status,\n       o.amount + coalesce(c.amount, 0) AS amount\n"
        f"FROM {left} AS o\nLEFT JOIN {right} AS c\n  ON c.customer_id = o.customer_id AND c.ordered_at < o.ordered_at"
    )


def _filter(name: str, other: str = "") -> str:
    return (
        "SELECT id, customer_id, ordered_at, upper(trim(status)) AS status, round(amount * 1.02, 2) AS amount\n"
        f"FROM {name}\nWHERE amount > 0 AND status IN ('paid', 'shipped', 'PAID', 'SHIPPED')"
    )


def _aggregate(name: str, other: str = "") -> str:
    return (
        "WITH recent AS (\n"
        f"  SELECT * FROM {name} WHERE ordered_at >= DATE '2024-01-01'\n)\n"
        "SELECT min(id) AS id, customer_id, date_trunc('DAY', ordered_at) AS ordered_at,\n"
        "       max(CASE WHEN status = 'paid' THEN 'paid' ELSE status END) AS status, sum(amount) AS amount\n"
        "FROM recent\nGROUP BY customer_id, date_trunc('DAY', ordered_at)\nHAVING count(*) > 1"
    )


_QUERIES: tuple[Callable[[str, str], str], ...] = (_aggregate, _join, _filter)
PROJECTS: dict[str, Callable[[], Files]] = {
    "wide_1000": lambda: wide(1_000),
    "wide_10000": lambda: wide(10_000),
    "chain_5000": lambda: chain(5_000),
}


def write_project(root: Path, files: Files) -> None:
    """The project's files, the same for the same arguments."""
    for name, text in (("rivet.yaml", RIVET), ("profiles.yaml", PROFILES), *files):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8")


def change_one_file(root: Path, run: int) -> None:
    """Another constant in the SQL file in the middle."""
    files = sorted((root / "joints").rglob("*.sql"))
    middle = files[len(files) // 2]
    middle.write_text(f"{middle.read_text('utf-8').rstrip()}\n-- run {run}\n", "utf-8")


def compile_once(root: Path, *options: str) -> dict[str, float]:
    """Seconds, processor seconds and peak memory (MiB) of `rivet-dagster compile`; the first two with its helper's."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "rivet_dagster.cli.process", "-p", str(root), "compile", *options]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{root} does not compile")
    seconds = time.perf_counter() - begin
    return {"seconds": seconds, "cpu": used.ru_utime + used.ru_stime, "mb": used.ru_maxrss / 1024}


def measure(root: Path, runs: int) -> dict[str, list[dict[str, float]]]:
    """``json`` and ``cold`` (no cache), ``warm`` (cache, one file changed), ``same`` (cache, nothing changed)."""
    found: dict[str, list[dict[str, float]]] = {"json": [], "cold": [], "warm": [], "same": []}
    for run in range(runs):
        shutil.rmtree(root / ".rivet", ignore_errors=True)
        found["json"].append(compile_once(root, "--format", "json"))
        shutil.rmtree(root / ".rivet", ignore_errors=True)
        found["cold"].append(compile_once(root))
        change_one_file(root, run)
        found["warm"].append(compile_once(root))
        found["same"].append(compile_once(root))
    return found


def _spread(times: list[float]) -> str:
    return f"{statistics.median(times):6.2f} s ({times[0]:.2f} to {times[-1]:.2f})"


def main() -> None:
    """Print a table; all times are the median (least to most)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=PROJECTS, default=list(PROJECTS))
    args = parser.parse_args()
    medians: dict[tuple[str, str], float] = {}
    for name in args.only:
        with tempfile.TemporaryDirectory() as folder:
            write_project(Path(folder), PROJECTS[name]())
            for state, results in measure(Path(folder), args.runs).items():
                seconds, cpu = (sorted(r[key] for r in results) for key in ("seconds", "cpu"))
                medians[name, state] = statistics.median(cpu)
                memory = max(r["mb"] for r in results)
                print(f"{name:12} {state:5} {_spread(seconds)}   CPU {_spread(cpu)}   {memory:5.0f} MiB", flush=True)
    for state in ("cold", "warm", "same"):
        if ("wide_1000", state) in medians and ("wide_10000", state) in medians:
            ratio = medians["wide_10000", state] / medians["wide_1000", state]
            print(f"10,000 joints to 1,000, {state}: {ratio:.1f} times the CPU time")


if __name__ == "__main__":
    main()
