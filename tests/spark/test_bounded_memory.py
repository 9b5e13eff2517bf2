"""Rows that pass through this process use little of its memory, for any number of rows."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from support.folders import Files as ProjectFiles
from support.folders import source
from support.spark import WITH_CODE
from support.torture import at_length

from rivet_dagster.model.relations import ArrowRows

MEGABYTES = 2**20
BATCHES, ROWS = 200, 32_768
SIZE = BATCHES * ROWS * 100
"""About 650 MB in total, 3 MB in each batch."""

PADDING = "-" * 85
SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])


@pytest.fixture
def session(session):
    """A session for many rows."""
    for name, value in WITH_CODE.items():
        session.spark.conf.set(name, value)
    return session


@pytest.fixture
def peak():
    """Return the peak of Arrow's memory in this process since the last call."""
    pool = pa.default_memory_pool()
    before = pool.bytes_allocated()
    highest = [before]

    def see() -> None:
        highest[0] = max(highest[0], pool.bytes_allocated())

    see.peak = lambda: highest[0] - before
    return see


def many(see) -> ArrowRows:
    text = pa.array([f"{n:092}" for n in range(ROWS)])

    def batches() -> pa.RecordBatchReader:
        def generate():
            for number in range(BATCHES):
                see()
                ids = pa.array(np.arange(number * ROWS, (number + 1) * ROWS))
                yield pa.record_batch([ids, pa.concat_arrays([text])], SCHEMA)

        return pa.RecordBatchReader.from_batches(SCHEMA, generate())

    return ArrowRows(SCHEMA, batches)


def test_many_batches_are_read_with_little_memory(session, peak):
    session.register("many", session.load(many(peak)))
    assert session.rows("SELECT count(*) AS n, max(id) AS last FROM many") == [
        {"n": BATCHES * ROWS, "last": BATCHES * ROWS - 1}
    ]
    assert peak.peak() < 200 * MEGABYTES < SIZE / 3


@pytest.mark.nightly
def test_many_rows_are_returned_in_batches_with_little_memory(session, peak):
    frame = session.query(f"SELECT id, concat('{PADDING}', id) AS text FROM range(0, {BATCHES * ROWS}, 1, 16)")
    rows = 0
    for batch in session.batches(frame):
        rows += batch.num_rows
        peak()
    assert rows == BATCHES * ROWS
    assert peak.peak() < 200 * MEGABYTES


FUNCTION = """
import pyarrow as pa


def transform(rows):
    reader = rows.to_arrow_batches()
    return pa.RecordBatchReader.from_batches(reader.schema, (batch for batch in reader))
"""

PROGRAM = """
import sys
from pathlib import Path
from rivet_dagster import compile_directory
from rivet_dagster.execution.group_run import run_group
from rivet_dagster.execution.runtime import Runtime


def peak():
    # Not by getrusage, which also counts what the parent of this process held when it began.
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


runtime = Runtime(compile_directory(sys.argv[1]).raise_errors(), Path(sys.argv[1]))
run_group(runtime, "rows", runtime.assembly.group("rows").joints, "first")
before = peak()
run_group(runtime, "through", ["through"], "second")
print(peak(), before)
table = runtime.catalog("workspace").current("through")
assert table.statistics.rows == int(sys.argv[2]), table.statistics.rows
"""


@at_length
def test_rows_pass_through_a_python_joint_with_little_memory(project, tmp_path: Path):
    files: ProjectFiles = {
        "joints/rows.sql": f"SELECT id, concat('{PADDING}', id) AS text FROM range(0, {BATCHES * ROWS}, 1, 4)",
        "joints/through.py": f"# rivet:upstream: [rows]\n{FUNCTION}",
        "sources/unused.yaml": source("unused", "id INT"),
    }
    made = project(files)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), str(made.root), str(BATCHES * ROWS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    most, before = map(int, done.stdout.split())
    assert most - before < 500, done.stdout
