"""Full refreshes of projects: by a run's tag, and on the command line; on an engine without a JVM."""

import io
import json
import os
from unittest.mock import patch

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dagster._core.definitions.reconstruct import ReconstructableJob
from support.folders import ProjectFolder, sink
from support.plugins import install

from rivet_dagster import load_definitions
from rivet_dagster.cli.main import main
from rivet_dagster.definitions.assets import groups
from rivet_dagster.execution.runtime import Runtime

TAG = "rivet/full_refresh"
REFRESH = {TAG: "true"}
CATALOGS = {"raw": {"type": "filesystem", "path": "data"}, "lake": {"type": "filesystem", "path": "lake"}}
ENGINE = {"name": "duck", "type": "duck", "catalogs": ["raw", "lake"]}
NEW = "SELECT id, n FROM orders\n{% if is_incremental() %}\nWHERE n > {{ watermark_value }}\n{% endif %}"
EAGER = "-- rivet:eager: true\n"
STRATEGY = {"mode": "merge", "key_columns": ["id"], "watermark_column": "n"}
AUDIT = {"audits": [{"type": "expression", "sql": "n < 100", "name": "gate"}]}


def parquet(*rows: tuple[int, int]) -> bytes:
    """Return a Parquet file with the columns id and n."""
    file = io.BytesIO()
    columns = {name: pa.array([row[place] for row in rows], pa.int64()) for place, name in enumerate(("id", "n"))}
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


SHOP = {
    "profiles.yaml": {"default": {"catalogs": CATALOGS, "engines": [ENGINE]}},
    "data/orders.parquet": parquet((1, 1), (2, 2)),
    "sources/orders.yaml": {"type": "source", "catalog": "raw", "table": "orders"},
    "joints/fresh.sql": NEW,
    "sinks/out.yaml": sink("out", "fresh", write_strategy=STRATEGY, quality=AUDIT),
}
CHANGED = {"data/orders.parquet": parquet((2, 1), (3, 5))}
"""The order 1 is gone; the order 2 is older than the watermark 2; the order 3 is new."""


@pytest.fixture
def shop(tmp_path, monkeypatch) -> ProjectFolder:
    for name in ("DAGSTER_HOME", "RIVET_PROFILE", "RIVET_ENVIRONMENT"):
        monkeypatch.delenv(name, raising=False)
    install(monkeypatch, tmp_path / "site", engines={"duck": "support.duckdb_engine:DuckDBEngine"})
    return ProjectFolder(tmp_path / "project", SHOP)


def rows(shop, environment: str | None = None) -> list[tuple[int, int]]:
    catalog = Runtime(shop.assembly, shop.root, environment=environment).target_catalog("lake")
    found = [row for path in catalog.read(catalog.current("out")).paths for row in pq.read_table(path).to_pylist()]
    return sorted(tuple(row.values()) for row in found)


def identities(shop) -> list[str]:
    """Return the runs that published the table's versions, newest first."""
    return [version.identity.partition("/")[0] for version in shop.runtime.target_catalog("lake").versions("out")]


def execute(shop, instance, *assets: str, **tags: str):
    job = load_definitions(shop.root).resolve_job_def("all")
    selection = [dg.AssetKey(name) for name in assets] or None
    return job.execute_in_process(instance=instance, tags=tags, asset_selection=selection, raise_on_error=False)


def metadata(result, name: str = "out") -> dict:
    found = {
        e.asset_key.to_user_string(): e.materialization.metadata for e in result.get_asset_materialization_events()
    }
    return {key: value.value for key, value in found[name].items()}


def codes(result) -> list[str]:
    failures = result.filter_events(lambda event: event.is_step_failure)
    found = [event.step_failure_data.user_failure_data.metadata for event in failures]
    return [record["code"] for one in found for record in one["rivet/diagnostics"].value]


def cli(shop, *arguments: str) -> int:
    return main(["-p", str(shop.root), *arguments])


def test_a_run_with_the_tag_replaces_the_table_as_a_first_run_would(shop, instance):
    assert TAG not in metadata(execute(shop, instance))
    shop.write(CHANGED)
    execute(shop, instance)
    assert rows(shop) == [(1, 1), (2, 2), (3, 5)]
    assert cli(shop, "watermark", "set", "out", "7") == 0
    for old in (3, 2):  # and again with the same input
        result = execute(shop, instance, **REFRESH)
        assert (result.success, rows(shop)) == (True, [(2, 1), (3, 5)])
        found = metadata(result)
        assert [found[f"rivet/rows_{name}"] for name in ("inserted", "updated", "deleted")] == [2, 0, old]
        assert (found[TAG], metadata(result, "fresh")[TAG], identities(shop)[0]) == (True, True, result.run_id)
    # The watermark that was set held until then: this run reads what is after 5, not after 7.
    shop.write({"data/orders.parquet": parquet((4, 6))})
    assert TAG not in metadata(execute(shop, instance, **{TAG: "false"}))
    assert rows(shop) == [(2, 1), (3, 5), (4, 6)]


def test_earlier_versions_stay_and_come_back(shop, instance):
    execute(shop, instance)
    shop.write(CHANGED)
    execute(shop, instance, **REFRESH)
    catalog = shop.runtime.target_catalog("lake")
    _, older = catalog.versions("out")
    assert (cli(shop, "versions", "rollback", "out", older.name), rows(shop)) == (0, [(1, 1), (2, 2)])


def test_a_gate_that_fails_leaves_the_old_rows(shop, instance):
    execute(shop, instance)
    shop.write({"data/orders.parquet": parquet((1, 500))})
    assert not execute(shop, instance, **REFRESH).success
    assert (rows(shop), len(identities(shop))) == ([(1, 1), (2, 2)], 1)


def test_a_tag_that_is_neither_true_nor_false_is_an_error(shop, instance):
    execute(shop, instance)
    result = execute(shop, instance, **{TAG: "yes"})
    assert (codes(result), len(identities(shop))) == (["RVT-104"], 1)


def test_a_stored_joint_with_new_rows_alone_must_be_refreshed_too(shop, instance, capsys):
    shop.write({"joints/fresh.sql": EAGER + NEW})
    execute(shop, instance)
    shop.write(CHANGED)
    execute(shop, instance)
    before = rows(shop)
    for mode in ((), ("--dry-run",)):
        assert cli(shop, "run", "out", "--full-refresh", *mode) == 1
        assert "RVT-525 joint out: a full refresh of 'out' alone would lose rows: 'fresh'" in capsys.readouterr().err
    assert codes(execute(shop, instance, "out", **REFRESH)) == ["RVT-525"]
    assert rows(shop) == before
    assert cli(shop, "run", "+out", "--full-refresh") == 0
    assert rows(shop) == [(2, 1), (3, 5)]


def project_job() -> dg.JobDefinition:
    definitions = load_definitions(os.environ["RIVET_TEST_PROJECT"], executor=dg.in_process_executor)
    return definitions.resolve_job_def("all")


@pytest.mark.nightly
def test_re_executions(shop, monkeypatch):
    """From failure: publishes nothing twice, and what was refreshed before counts. With another tag: a new run."""
    monkeypatch.setenv("RIVET_TEST_PROJECT", str(shop.root))
    shop.write({"joints/fresh.sql": EAGER + NEW})
    job, materialization = dg.reconstructable(project_job), groups._materialization

    def broken(context, project, runtime, name, *others):
        if name == "out":
            raise RuntimeError("the event log was away")
        return materialization(context, project, runtime, name, *others)

    def again(failed, **options):
        how = dg.ReexecutionOptions.from_failure(failed.run_id, instance)
        # The project has changed, and this is the same process.
        ReconstructableJob.get_repository_definition.cache_clear()
        ReconstructableJob.get_definition.cache_clear()
        with dg.execute_job(job, instance, reexecution_options=how, **options) as result:
            return result

    def failing(**tags):
        with patch.object(groups, "_materialization", broken):
            return execute(shop, instance, **tags)

    with dg.instance_for_test() as instance:
        execute(shop, instance)
        shop.write(CHANGED)
        refreshed = failing(**REFRESH)
        assert (refreshed.success, rows(shop)) == (False, [(2, 1), (3, 5)])
        result = again(refreshed)
        assert instance.get_run_by_id(result.run_id).tags[TAG] == "true"
        assert (result.success, metadata(result)[TAG]) == (True, True)
        assert (identities(shop)[0], len(identities(shop))) == (refreshed.run_id, 2)

        ordinary = failing()
        assert identities(shop)[0] == ordinary.run_id
        result = again(ordinary, tags=REFRESH)
        # Its first step is not part of it, and has not been refreshed.
        assert codes(result) == ["RVT-525"]
        shop.write({"joints/fresh.sql": NEW})
        ordinary = failing()
        result = again(ordinary, tags=REFRESH)
        assert (result.success, identities(shop)[:2]) == (True, [result.run_id, ordinary.run_id])
        assert rows(shop) == [(2, 1), (3, 5)]


def test_landing_zones_are_read_from_the_start_unless_files_are_archived(shop, capsys):
    zone = {"type": "source", "catalog": "raw", "table": "zone", "options": {"landing": True}}
    archive = {**zone, "options": {"landing": True, "archive": True}}
    other = sink("other", "orders", write_strategy="append")
    shop.write({
        "sources/orders.yaml": zone, "data/zone/a.parquet": parquet((1, 1)), "joints/fresh.sql": "SELECT * FROM orders",
        "sinks/other.yaml": other,
    })  # fmt: skip
    assert cli(shop, "run") == 0
    shop.write({"data/zone/b.parquet": parquet((2, 2), (2, 2))})
    assert cli(shop, "run") == 0
    assert cli(shop, "run", "--full-refresh") == 0
    assert (rows(shop), len(shop.table("other"))) == ([(1, 1), (2, 2)], 3)

    shop.write({"sources/orders.yaml": archive})
    assert cli(shop, "run", "--full-refresh") == 0  # archives nothing: another reader may need the files
    assert (rows(shop), len(shop.table("other"))) == ([(1, 1), (2, 2)], 3)
    shop.write({"data/zone/c.parquet": parquet()})
    assert cli(shop, "run") == 0
    assert (rows(shop), len(shop.table("other"))) == ([(1, 1), (2, 2)], 3)
    archived = sorted((shop.root / "data/zone/_archive").rglob("*.parquet"), key=lambda path: path.name)
    assert [path.name for path in archived] == ["a.parquet", "b.parquet", "c.parquet"]
    capsys.readouterr()
    for command in (("run",), ("run", "out"), ("run", "--dry-run")):
        assert cli(shop, *command, "--full-refresh") == 1
        assert (
            "RVT-525 sources/orders.yaml:1: joint orders: a full refresh would lose the rows" in capsys.readouterr().err
        )
    assert (rows(shop), len(shop.table("other"))) == ([(1, 1), (2, 2)], 3)
    for path in archived:
        path.rename(shop.root / "data/zone" / path.name)
    assert cli(shop, "run", "--full-refresh") == 0
    assert (rows(shop), len(shop.table("other"))) == ([(1, 1), (2, 2)], 3)


def test_a_table_that_each_run_replaces_can_do_without_archived_files(shop):
    zone = {"type": "source", "catalog": "raw", "table": "zone", "options": {"landing": True, "archive": True}}
    shop.write(
        {"sources/orders.yaml": zone, "data/zone/a.parquet": parquet((1, 1)), "sinks/out.yaml": sink("out", "fresh")}
    )
    shop.write({"joints/fresh.sql": "SELECT * FROM orders"})
    assert cli(shop, "run") == 0
    assert list((shop.root / "data/zone/_archive").rglob("*.parquet"))
    shop.write({"data/zone/b.parquet": parquet((2, 2))})
    assert cli(shop, "run", "--full-refresh") == 0
    assert rows(shop) == [(2, 2)]


def test_an_environment_is_refreshed_apart_from_the_base(shop, capsys):
    assert cli(shop, "run") == 0
    shop.write(CHANGED)
    capsys.readouterr()
    assert cli(shop, "run", "--environment", "pr-7", "--full-refresh", "--format", "json") == 0
    (group,) = json.loads(capsys.readouterr().out)["groups"]
    assert group["rows"] == {"inserted": 2, "updated": 0, "deleted": 2, "total": 2}
    assert (rows(shop, "pr-7"), rows(shop)) == ([(2, 1), (3, 5)], [(1, 1), (2, 2)])
    assert cli(shop, "environment", "merge", "pr-7") == 0
    assert rows(shop) == [(2, 1), (3, 5)]


def test_the_last_step_of_a_run_publishes_it(shop, instance):
    catalogs = {**CATALOGS, "lake": {**CATALOGS["lake"], "publish": "run"}}
    shop.write({"profiles.yaml": {"default": {"catalogs": catalogs, "engines": [ENGINE]}}})
    assert execute(shop, instance).success
    shop.write(CHANGED)
    result = execute(shop, instance, **REFRESH)
    assert (result.success, rows(shop), identities(shop)[0]) == (True, [(2, 1), (3, 5)], result.run_id)
    assert metadata(result)["rivet/rows_deleted"] == 2


def test_partitions_are_refreshed_one_window_at_a_time(shop):
    static = {"type": "static", "column": "n", "values": ["1", "2", "5"]}
    text = f"-- rivet:partitions: {json.dumps(static)}\nSELECT id, n FROM orders"
    shop.write({
        "sources/orders.yaml": {**SHOP["sources/orders.yaml"], "partitions": static},
        "joints/fresh.sql": text,
        "sinks/out.yaml": sink("out", "fresh", write_strategy={"mode": "append"}, partitions=static),
    })  # fmt: skip
    for key in ("1", "2", "2"):
        assert cli(shop, "run", "--partition", key) == 0
    assert rows(shop) == [(1, 1), (2, 2), (2, 2)]
    shop.write({"data/orders.parquet": parquet((1, 1), (2, 2), (3, 2))})
    assert cli(shop, "run", "--full-refresh") == 10
    assert cli(shop, "run", "--partition", "2", "--full-refresh") == 0
    assert rows(shop) == [(1, 1), (2, 2), (3, 2)]
