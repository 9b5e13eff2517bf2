"""The memory that a Python joint needs whose rows pass through it in batches, by how many rows there are.

For each size a process of its own runs a project of two joints: a query whose rows are stored, and a Python joint that
reads them by ``to_arrow_batches`` and returns a RecordBatchReader, which is stored, too. The figures are the peaks of
resident memory, of Python and of its JVM, above what they had before the Python joint. Linux only, whose kernel keeps
the peaks. The figures are printed as Markdown. Nothing here asserts a figure.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from measuring import markdown
from one_session import load

HERE = Path(__file__).resolve().parent
COLUMNS = 8
"""Random doubles, which no encoding makes smaller."""
PARTS = 32

MANIFEST = "profiles: profiles.yaml\nsources: sources\njoints: joints\nsinks: sinks\n"
PROFILES = """
default:
  catalogs: {lake: {type: filesystem, path: lake}}
  engines: [{name: spark, type: pyspark, catalogs: [lake], master: "local[2]", config: {spark.driver.memory: 2g}}]
  default_engine: spark
"""

FUNCTION = """# rivet:upstream: [rows]
import pyarrow as pa


def transform(rows):
    reader = rows.to_arrow_batches()
    return pa.RecordBatchReader.from_batches(reader.schema, (batch for batch in reader))
"""


def main() -> None:
    options = arguments()
    print(f"- 8 columns of doubles, driver memory 2g, local[2]\n- load average before: {load()}", flush=True)
    rows = [measured(gigabytes) for gigabytes in options.gigabytes]
    print(f"- load average afterwards: {load()}\n")
    header = ("rows passed", "seconds", "Python: before, peak above", "JVM: before, peak above")
    print(markdown(header, rows))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--gigabytes", type=float, nargs="+", default=[1, 5], help="of Arrow rows (default 1 5)")
    return parser.parse_args()


def measured(gigabytes: float) -> Sequence[str]:
    """Pass so many rows in a new process, and return a line of the table."""
    count = int(gigabytes * 1e9 / (8 * COLUMNS))
    with tempfile.TemporaryDirectory(prefix="batches-", dir=HERE) as folder:
        root = Path(folder)
        for name in ("sources", "joints", "sinks"):
            (root / name).mkdir()
        (root / "rivet.yaml").write_text(MANIFEST)
        (root / "profiles.yaml").write_text(PROFILES)
        columns = ", ".join(f"rand({seed}) AS c{seed}" for seed in range(COLUMNS))
        (root / "joints" / "rows.sql").write_text(f"SELECT {columns} FROM range(0, {count}, 1, {PARTS})\n")
        (root / "joints" / "through.py").write_text(FUNCTION)
        done = subprocess.run([sys.executable, __file__, "--child", folder], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        found = json.loads(done.stdout.splitlines()[-1])
    assert found["rows"] == count
    memory = [f"{found[name][0]} MB, {found[name][1] - found[name][0]} MB" for name in ("python", "jvm")]
    return f"{gigabytes:g} GB, {count:,} rows", f"{found['seconds']:.0f}", *memory


def child(root: Path) -> None:
    """Run the two joints, and print what the second needed."""
    from rivet_dagster import compile_directory
    from rivet_dagster.execution.group_run import run_group
    from rivet_dagster.execution.runtime import Runtime

    runtime = Runtime(compile_directory(root).raise_errors(), root)
    run_group(runtime, "rows", runtime.assembly.group("rows").joints, "first")
    processes = {"python": Path("/proc/self"), "jvm": jvm()}
    before = {}
    for name, process in processes.items():
        (process / "clear_refs").write_text("5")  # from now on, the peak is that of what follows
        before[name] = megabytes(process, "VmRSS")
    started = time.perf_counter()
    run_group(runtime, "through", ["through"], "second")
    seconds = time.perf_counter() - started
    peaks = {name: (before[name], megabytes(process, "VmHWM")) for name, process in processes.items()}
    published = runtime.target_catalog("workspace").current("through")
    assert published is not None
    print(json.dumps({**peaks, "seconds": seconds, "rows": published.statistics.rows}))


def jvm() -> Path:
    """Return the JVM that this process has started."""
    children = Path("/proc/self/task").glob("*/children")
    pids = [pid for path in children for pid in path.read_text().split()]
    (found,) = [pid for pid in pids if (Path("/proc") / pid / "comm").read_text().strip() == "java"]
    return Path("/proc") / found


def megabytes(process: Path, key: str) -> int:
    """Return a size that the kernel tells of a process."""
    return int((process / "status").read_text().partition(f"{key}:")[2].split()[0]) // 1000


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(Path(sys.argv[2]))
    else:
        main()
