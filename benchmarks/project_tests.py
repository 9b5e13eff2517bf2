"""How long the tests of a project take: 10 and 100 of them, and after a saved file.

    python benchmarks/project_tests.py

Each number of tests runs in a process of its own, twice: at first on a Spark that has just started and compiled
nothing, then again. The tests are of 20 joints with different queries: joins, aggregates and windows. All of that on
Sail, too, whose server starts with the process.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import yaml

from rivet_dagster import compile_directory
from rivet_dagster.engines.pyspark import SailEngine
from rivet_dagster.engines.pyspark.server.record import stop_running
from rivet_dagster.project_tests.parsing import read_tests
from rivet_dagster.project_tests.running import Runner, offline_engine, run_tests
from rivet_dagster.project_tests.watching import Watched

JOINTS = 20
PROFILE = {
    "catalogs": {"lake": {"type": "filesystem", "path": "lake"}},
    "engines": [
        {
            "name": "spark",
            "type": "pyspark",
            "catalogs": ["lake"],
            "master": "local[2]",
            "config": {"spark.ui.enabled": False},
        }
    ],
}
JOINT = """
SELECT c.country, o.day, sum(o.amount) AS revenue_{n}, count(DISTINCT o.id) AS orders,
  rank() OVER (PARTITION BY c.country ORDER BY sum(o.amount) DESC) AS place
FROM orders AS o JOIN customers AS c ON o.customer = c.id
WHERE o.amount > {n} AND c.country IS NOT NULL
GROUP BY c.country, o.day
"""


def project(folder: Path, tests: int) -> None:
    """Write a project with so many tests."""
    for name in ("sources", "joints", "sinks", "tests"):
        (folder / name).mkdir()
    paths = {"profiles": "profiles.yaml", "sources": "sources", "joints": "joints", "sinks": "sinks"}
    (folder / "rivet.yaml").write_text(yaml.safe_dump(paths))
    (folder / "profiles.yaml").write_text(yaml.safe_dump({"default": PROFILE}))
    schemas = {
        "orders": "id BIGINT, customer BIGINT, amount DOUBLE, day DATE",
        "customers": "id BIGINT, country STRING",
    }
    for name, schema in schemas.items():
        source = {"type": "source", "catalog": "lake", "table": name, "options": {"schema": schema}}
        (folder / f"sources/{name}.yaml").write_text(yaml.safe_dump(source))
    for n in range(JOINTS):
        (folder / f"joints/joint_{n}.sql").write_text(JOINT.format(n=n))
    for n in range(tests):
        joint = n % JOINTS
        orders = [[1, 1, 100 + n, "2026-01-01"], [2, 1, 50, "2026-01-01"], [3, 2, 70, "2026-01-02"]]
        test = {
            "target": f"joint_{joint}",
            "inputs": {
                "orders": {"columns": ["id", "customer", "amount", "day"], "rows": orders},
                "customers": {"columns": ["id", "country"], "rows": [[1, "DE"], [2, None]]},
            },
            "expected": {
                "columns": ["country", "day", f"revenue_{joint}", "orders", "place"],
                "rows": [["DE", "2026-01-01", 150 + n, 2, 1]],
            },
        }
        (folder / f"tests/test_{n:03}.test.yaml").write_text(yaml.safe_dump(test))


def measure(tests: int, name: str | None) -> None:
    """Run the tests in this process, twice, then one after a save; print the seconds."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        project(root, tests)
        started = time.perf_counter()
        engine = offline_engine(compile_directory(root, engine=name).raise_errors(), root)
        with closing(engine.session()) as session:
            session.rows("SELECT 1")
        parts = [f"{name or 'spark':5} {tests:4} tests: start {time.perf_counter() - started:6.2f} s"]
        with closing(Runner(engine, root)) as runner:
            for what in ("first", "again"):
                started = time.perf_counter()
                assembly = compile_directory(root).raise_errors()
                results = run_tests(read_tests(root), assembly, root, runner)
                parts.append(f"{what} {time.perf_counter() - started:6.2f} s")
                wrong = [result for result in results if result.status != "passed"]
                if wrong:
                    raise SystemExit(f"{wrong[0].name}: {wrong[0].message}")
            before = Watched.read(root, None, [], None)
            joint = root / "joints/joint_3.sql"
            joint.write_text(joint.read_text().replace("> 3", "> 4"))
            started = time.perf_counter()
            after = Watched.read(root, None, [], None)
            touched = after.touched(before, {"joints/joint_3.sql"})
            run_tests(touched, after.assembly, root, runner)
            parts.append(f"after a save {time.perf_counter() - started:5.2f} s ({len(touched)} tests)")
        if isinstance(engine, SailEngine) and engine.server is not None:
            stop_running(engine.server.files)
    print(", ".join(parts), flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None)
    else:
        for number in ("10", "100"):
            for engine in ([], ["sail"]):
                subprocess.run([sys.executable, __file__, number, *engine], check=True)
