"""Environments on Spark: every write strategy, error tables and incremental reading, compared with runs on the base."""

import shutil
from uuid import uuid4

import pytest
from support.environments import content
from support.folders import ProjectFolder, in_order, sink, source
from support.torture import TORTURE

from rivet_dagster.execution.environments import environments, merge, use_environment
from rivet_dagster.execution.group_run import run_group
from rivet_dagster.execution.runtime import Runtime

ORDERS = "id INT, customer STRING, amount STRING, day INT"
FIRST = "id,customer,amount,day\n1,ada,10,1\n2,bob,20,1\n3,cyd,n/a,2\n"
SECOND = "id,customer,amount,day\n2,bob,21,1\n3,cyd,30,2\n4,dan,x,3\n"
MODES = {
    "appended": "append",
    "replaced": "replace",
    "merged": {"mode": "merge", "key_columns": ["id"]},
    "by_day": {"mode": "delete_insert", "partition_by": ["day"]},
    "history": {"mode": "scd2", "key_columns": ["id"], "effective_at": "day_at"},
}
if TORTURE:  # as ``lately`` is written, whose query is incremental, too
    MODES["newer"] = {"mode": "incremental_append", "watermark_column": "day"}
FILES = {
    "data/orders.csv": FIRST,
    "sources/orders.yaml": source("orders.csv", ORDERS),
    "joints/cleaned.sql": "-- rivet:eager: true\nSELECT *, make_timestamp(2024, 1, day, 0, 0, 0) AS day_at FROM orders",
    **{f"sinks/{name}.yaml": sink(name, "cleaned", write_strategy=mode) for name, mode in MODES.items()},
    "joints/amounts.sql": "SELECT id, CAST(amount AS INT) AS amount FROM cleaned",
    "sinks/amounts_table.yaml": sink("amounts_table", "amounts", on_error="quarantine"),
    "joints/late.sql": "SELECT id, day FROM cleaned"
    "{% if is_incremental() %} WHERE day > {{ watermark_value }} {% endif %}",
    "sinks/lately.yaml": sink(
        "lately", "late", write_strategy={"mode": "incremental_append", "watermark_column": "day"}
    ),
}


def run_all(folder: ProjectFolder, environment: str | None = None) -> None:
    runtime = Runtime(folder.assembly, folder.root, environment=environment)
    use_environment(runtime)
    for name in folder.assembly.execution_order:
        group = folder.assembly.group(name)
        if group.target is not None:
            result = run_group(runtime, name, group.joints, f"{uuid4()}/{name}")
            assert result.published is not None
            assert result.published.environment == environment


def tables(folder: ProjectFolder) -> dict[str, list[dict]]:
    """Return the rows of all tables as a Parquet reader of the base sees them, without what differs between runs."""
    names = [*MODES, "amounts_table", "lately", "amounts_table__errors"]
    rows = {name: folder.rows(name) for name in names}
    rows["amounts_table__errors"] = in_order(
        {key: value for key, value in row.items() if key not in ("run_id", "version", "found_at")}
        for row in rows["amounts_table__errors"]
    )
    return rows


@pytest.mark.nightly
def test_a_merge_equals_the_runs_on_the_base(project, tmp_path):
    base = project(FILES)
    run_all(base)
    base.write({"data/orders.csv": SECOND})
    alone = tmp_path / "alone"
    shutil.copytree(base.root, alone, symlinks=True)
    before = [content(base.root / path) for path in ("lake", ".rivet/workspace")]
    first = tables(base)

    run_all(base, "pr-7")
    assert [content(base.root / path) for path in ("lake", ".rivet/workspace")] == before
    assert tables(base) == first
    (environment,) = environments(base.runtime)
    assert len(environment.tables) == len(MODES) + 3

    other = ProjectFolder(alone, {})
    run_all(other)
    merge(base.runtime, "pr-7")
    merged = tables(base)
    assert merged == tables(other) != first
    for catalog, name in [("lake", name) for name in [*MODES, "amounts_table", "lately"]]:
        ours, theirs = (f.runtime.target_catalog(catalog).current(name) for f in (base, other))
        assert (ours.record.inserted, ours.record.updated, ours.record.deleted) == (
            theirs.record.inserted,
            theirs.record.updated,
            theirs.record.deleted,
        ), name
        assert (ours.rows_before, ours.code_versions) == (theirs.rows_before, theirs.code_versions), name

    if not TORTURE:
        return
    # What comes next builds upon what was merged.
    for folder in (base, other):
        folder.write({"data/orders.csv": FIRST.replace("1,ada", "9,eve")})
        run_all(folder)
    assert tables(base) == tables(other)


@pytest.mark.parametrize("environment", [None, "pr-7"])
def test_a_gate_keeps_back_what_it_keeps_back_in_the_base(project, environment):
    folder = project(
        {
            "joints/numbers.sql": "SELECT 1 AS id",
            "sinks/out.yaml": sink("out", "numbers", assertions=[{"type": "row_count", "min": 2}]),
        }
    )
    runtime = Runtime(folder.assembly, folder.root, environment=environment)
    use_environment(runtime)
    result = run_group(runtime, "out", folder.assembly.group("out").joints, "run/out")
    assert result.gate_failed
    assert runtime.target_catalog("lake").current("out") is None
    assert [one.tables for one in environments(runtime)] == ([] if environment is None else [()])
