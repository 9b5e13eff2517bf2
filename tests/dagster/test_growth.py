"""What a step of a run costs does not grow with the number of the run's tables: counted, not timed."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy
from support.counting import counting_calls
from support.folders import ProjectFolder
from support.plugins import install

from rivet_dagster import Joint, load_definitions
from rivet_dagster.definitions.specs.materialization_metadata import partition_counts


@contextmanager
def counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Count calls of the operating system, and statements that are sent to Dagster's storage."""

    def sent(*_: object) -> None:
        counted["statements"] += 1

    with counting_calls(monkeypatch) as counted:
        sqlalchemy.event.listen(sqlalchemy.Engine, "before_cursor_execute", sent)
        yield counted
        sqlalchemy.event.remove(sqlalchemy.Engine, "before_cursor_execute", sent)


def costs(monkeypatch: pytest.MonkeyPatch, folder: Path, publish: str, tables: int) -> dict[str, float]:
    """Return what the second run of so many tables cost, divided by their number."""
    catalogs = {"lake": {"type": "filesystem", "path": "lake", "publish": publish}}
    engines = [{"name": "duck", "type": "duck", "catalogs": ["lake"]}]
    profiles = {"default": {"catalogs": catalogs, "engines": engines, "workspace": "lake"}}
    project = ProjectFolder(folder, {"profiles.yaml": profiles})
    joints = [Joint(name=f"t{n}", type="sql", sql=f"SELECT {n} AS id", catalog="lake") for n in range(tables)]
    job = load_definitions(project.root, joints=joints, executor=dg.in_process_executor).resolve_job_def("all")
    with dg.instance_for_test(temp_dir=str(folder)) as instance:
        for _ in range(2):
            with counting(monkeypatch) as counted:
                assert job.execute_in_process(instance=instance).success
        return {what: counted[what] / tables for what in ("calls", "statements")}


@pytest.mark.nightly
@pytest.mark.parametrize("publish", ["group", "run"])
def test_a_step_costs_the_same_in_a_run_of_many_tables(tmp_path, monkeypatch, publish):
    install(monkeypatch, tmp_path / "site", engines={"duck": "support.duckdb_engine:DuckDBEngine"})
    few, many = (costs(monkeypatch, tmp_path / str(tables), publish, tables) for tables in (4, 16))
    assert few["calls"] > 5
    assert few["statements"] > 5
    assert {what for what in few if many[what] > few[what]} == set()


def metadata_of_range(folder: Path, partitions: int, columns: int) -> list[dict[str, dg.MetadataValue]]:
    """Return the metadata of the materializations of an exit, by a run of so many partitions."""
    days = [str(date(2024, 1, 1) + timedelta(days=number)) for number in range(partitions)]
    catalogs = {"lake": {"type": "filesystem", "path": "lake"}}
    engines = [{"name": "duck", "type": "duck", "catalogs": ["lake"]}]
    ProjectFolder(folder, {"profiles.yaml": {"default": {"catalogs": catalogs, "engines": engines}}})
    (folder / "lake").mkdir()
    pq.write_table(pa.table({"day": days}), folder / "lake/days.parquet")
    end = str(date(2024, 1, 1) + timedelta(days=partitions))
    parts = {"type": "daily", "column": "day", "start": days[0], "end": end}
    sql = f"SELECT day, {', '.join(f'1 AS c{number}' for number in range(columns))} FROM days"
    joints = [
        Joint(name="days", type="source", catalog="lake", table="days.parquet"),
        Joint(name="report", type="sql", sql=sql, catalog="lake", partitions=parts),
    ]
    job = load_definitions(folder, joints=joints, executor=dg.in_process_executor).resolve_job_def("all_daily")
    tags = {"dagster/asset_partition_range_start": days[0], "dagster/asset_partition_range_end": days[-1]}
    result = job.execute_in_process(instance=dg.DagsterInstance.ephemeral(), tags=tags)
    return [dict(event.materialization.metadata) for event in result.get_asset_materialization_events()]


@pytest.mark.nightly
def test_the_metadata_of_a_partition_does_not_grow_with_columns_and_partitions(tmp_path, monkeypatch):
    install(monkeypatch, tmp_path / "site", engines={"duck": "support.duckdb_engine:DuckDBEngine"})
    *few, last = metadata_of_range(tmp_path / "few", 4, columns=2)
    counts = {"dagster/row_count", "rivet/rows_inserted", "rivet/rows_updated", "rivet/rows_deleted"}
    assert [set(one) for one in few] == [{*counts, "rivet/version", "dagster/partition_row_count"}] * 3
    assert {*few[0], "dagster/column_schema", "rivet/column_statistics", "rivet/phases", "rivet/inputs"} < {*last}
    *many, last = metadata_of_range(tmp_path / "many", 101, columns=60)
    assert [set(one) for one in many] == [{*counts, "rivet/version"}] * 100
    assert len(last["dagster/column_schema"].value.columns) == 61
    assert set(last["rivet/partition_row_counts"].value.values()) == {1}
    assert len(last["rivet/partition_row_counts"].value) == 101
    listed = partition_counts({f"p{number}": 7 for number in range(1200)})["rivet/partition_row_counts"].value
    assert list(listed.items())[:2] == [("... earlier partitions", 200), ("p200", 7)]
    assert len(listed) == 1001
