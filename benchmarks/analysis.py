"""How long Spark's analyzer takes to judge every query of a project: ``compile --analyze`` beyond Spark's start.

    python benchmarks/analysis.py [--joints 1000] [--runs 2]

The project is the wide one of ``compile.py``. All runs are in one process, on one Spark that has started before the
first; the processor time is that of this process and its JVM.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from compile import wide, write_project

from rivet_dagster import compile_directory
from rivet_dagster.execution.analysis import analyze_plan
from rivet_dagster.execution.runtime import Runtime


def main() -> None:
    """Print the seconds of Spark's start and of each analysis."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--joints", type=int, default=1_000)
    parser.add_argument("--runs", type=int, default=2)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_project(root, wide(args.joints))
        plan = compile_directory(root).raise_errors()
        runtime = Runtime(plan, root)
        started = time.perf_counter()
        with runtime.engine("spark").session() as session:
            session.rows("SELECT 1")
        print(f"start of Spark {time.perf_counter() - started:.1f} s", flush=True)
        for _ in range(args.runs):
            started = time.perf_counter()
            judged = analyze_plan(plan, runtime).raise_errors()
            seconds = time.perf_counter() - started
            known = sum(joint.schema_confidence == "analyzed" for joint in judged.joints)
            print(f"{args.joints} joints: {seconds:.1f} s, {known} judged", flush=True)


if __name__ == "__main__":
    main()
