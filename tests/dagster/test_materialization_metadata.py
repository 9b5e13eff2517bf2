"""Metadata of materializations, compared with the files that readers see."""

import json
import os
import re
import subprocess
import sys
from datetime import date, datetime
from decimal import Decimal
from unittest.mock import patch

import dagster as dg
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.folders import PROFILES, WORKSPACE, sink, source

from rivet_dagster import load_definitions
from rivet_dagster.definitions.specs import materialization_metadata
from rivet_dagster.definitions.specs.materialization_metadata import PLAN_LIMIT
from rivet_dagster.engines.pyspark.session import PySparkSession
from rivet_dagster.errors import RivetError

SALES = {
    "data/orders.csv": "id,customer,amount\n1,ada,10\n2,bob,20\n3,ada,5\n",
    "data/names.csv": "customer,name\nada,Ada\nbob,Bob\n",
    "sources/orders.yaml": source("orders", "id INT, customer STRING, amount INT"),
    "sources/names.yaml": source("names", "customer STRING, name STRING"),
    "joints/big.sql": "SELECT * FROM orders WHERE amount > 4",
    "joints/named.sql": "SELECT id, name, amount FROM big JOIN names USING (customer)",
    "joints/made.py": "def transform(orders):\n    return orders.to_arrow().to_pandas()[['id']]\n",
    "sinks/report.yaml": sink("reports", "named"),
    "sinks/ids.yaml": sink("ids", "made"),
}
VERSION = "dagster/data_version"


def run(root, instance, *names, extra=(), **options):
    """Materialize these assets, or all, in this process."""
    chosen = dg.AssetSelection.assets(*names) if names else dg.AssetSelection.all()
    own = dg.Definitions(assets=extra, jobs=[dg.define_asset_job("selected", chosen)])
    definitions = dg.Definitions.merge(load_definitions(root), own)
    return definitions.resolve_job_def("selected").execute_in_process(instance=instance, **options)


def events(result) -> dict[str, dg.AssetMaterialization]:
    return {e.asset_key.to_user_string(): e.materialization for e in result.get_asset_materialization_events()}


def metadata(result, name: str) -> dict:
    return {key: value.value for key, value in events(result)[name].metadata.items()}


def version(result, name: str) -> str:
    return events(result)[name].tags[VERSION]


def published(folder, name: str) -> str:
    """Return the published version of a table of the lake."""
    return os.path.basename(os.readlink(folder.root / "lake" / name))


# rows, bytes, locations


def test_an_exit_has_metadata_of_its_table_and_an_inner_joint_does_not(project, instance):
    sales = project(SALES)
    result = run(sales.root, instance, "big", "named", "report")
    report = metadata(result, "report")
    files = list((sales.root / "lake/reports").iterdir())
    assert report["dagster/row_count"] == pq.read_table(sales.root / "lake/reports").num_rows == 3
    assert report["dagster/table_name"] == "lake.reports"
    assert report["dagster/uri"] == (sales.root / "lake/reports").as_uri()
    assert report["rivet/version"] == published(sales, "reports")
    assert report["rivet/bytes"] == report["rivet/bytes_written"] == sum(path.stat().st_size for path in files)
    assert [report[f"rivet/rows_{what}"] for what in ("inserted", "updated", "deleted")] == [3, 0, 0]
    assert metadata(result, "big") == metadata(result, "named") == {}


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("mode", ["merge", "delete_insert"])
def test_bytes_written_counts_only_new_files(project, instance, mode):
    strategy = {"mode": mode, "key_columns": ["id"]} if mode == "merge" else {"mode": mode, "partition_by": ["id"]}
    kept = sink("kept", "n", write_strategy=strategy)
    lake = project(
        {"joints/n.sql": "SELECT id, repeat('x', 999) AS x FROM range(0, 100, 1, 1)", "sinks/kept.yaml": kept}
    )
    whole = metadata(run(lake.root, instance, "n", "kept"), "kept")
    assert whole["rivet/bytes_written"] == whole["rivet/bytes"]
    before = {path.stat().st_ino for path in (lake.root / "lake/kept").iterdir()}
    lake.write({"joints/n.sql": "SELECT id, 'y' AS x FROM range(200, 202, 1, 1)"})
    part = metadata(run(lake.root, instance, "n", "kept"), "kept")
    files = [path.stat() for path in (lake.root / "lake/kept").iterdir()]
    assert part["rivet/bytes"] == sum(file.st_size for file in files)
    assert part["rivet/bytes_written"] == sum(file.st_size for file in files if file.st_ino not in before)
    assert 0 < part["rivet/bytes_written"] < part["rivet/bytes"]
    assert part["dagster/row_count"] == 102


def test_a_partition_reports_its_own_rows_and_those_of_the_table(project, instance):
    parts = {"type": "static", "column": "k", "values": ["0", "1", "2"]}
    lake = project({
        "joints/n.sql": f"-- rivet:partitions: {parts}\n"
        "SELECT * FROM (SELECT id % 3 AS k, id FROM range(10)) WHERE array_contains(:partition_keys, string(k))",
        "sinks/kept.yaml": sink("kept", "n", partitions=parts),
    })  # fmt: skip
    run(lake.root, instance, partition_key="2")
    tags = {"dagster/asset_partition_range_start": "0", "dagster/asset_partition_range_end": "1"}
    result = run(lake.root, instance, tags=tags)
    found = {
        e.partition: [
            e.materialization.metadata[f"dagster/{key}"].value for key in ("partition_row_count", "row_count")
        ]
        for e in result.get_asset_materialization_events()
        if e.asset_key == dg.AssetKey("kept")
    }
    assert found == {"0": [4, 10], "1": [3, 10]}


# data versions


@pytest.fixture
def lake(project):
    """Write a project whose empty batches are skipped."""
    skipping = {"mode": "replace", "on_empty": "skip"}
    return project({
        "joints/n.sql": "-- rivet:eager: true\nSELECT id FROM range(3)",
        "joints/inner.sql": "SELECT id + 1 AS id FROM n",
        "sinks/kept.yaml": sink("kept", "inner", write_strategy=skipping),
    })  # fmt: skip


EMPTY = {"joints/inner.sql": "SELECT id FROM n WHERE id < 0"}


def test_the_data_version_is_the_version_that_readers_see(lake, instance):
    first = run(lake.root, instance)
    assert version(first, "kept") == published(lake, "kept")
    second = run(lake.root, instance)
    assert version(second, "kept") == published(lake, "kept") != version(first, "kept")
    assert version(second, "n") == os.path.basename(os.readlink(lake.root / WORKSPACE / "n"))
    assert version(first, "inner") not in (version(first, "n"), version(first, "kept"))


def test_a_skipped_empty_batch_reports_the_previous_data_version(lake, instance):
    empty = lake.write(EMPTY)
    nothing = run(empty.root, instance)
    assert "rivet/skipped" in metadata(nothing, "kept")
    made = run(lake.write({"joints/inner.sql": "SELECT id FROM n"}).root, instance)
    skipped = run(lake.write(EMPTY).root, instance)
    assert metadata(skipped, "kept")["dagster/table_name"] == "lake.kept"
    assert not {"dagster/row_count", "rivet/column_statistics"} & metadata(skipped, "kept").keys()
    assert version(skipped, "kept") == version(made, "kept") == published(lake, "kept")


def test_a_skipped_partition_reports_its_own_previous_data_version(project, instance):
    parts = {"type": "static", "column": "k", "values": ["a", "b"]}
    query = f"-- rivet:partitions: {parts}\nSELECT explode(:partition_keys) AS k"
    strategy = {"mode": "append", "on_empty": "skip"}
    lake = project({
        "joints/n.sql": query,
        "sinks/kept.yaml": sink("kept", "n", partitions=parts, write_strategy=strategy),
    })  # fmt: skip
    first = version(run(lake.root, instance, partition_key="a"), "kept")
    second = version(run(lake.root, instance, partition_key="b"), "kept")
    lake.write({"joints/n.sql": f"{query} LIMIT 0"})
    assert version(run(lake.root, instance, partition_key="a"), "kept") == first != second
    assert version(run(lake.root, instance, partition_key="b"), "kept") == second


@pytest.mark.filterwarnings("ignore::dagster.BetaWarning")
def test_consumers_become_stale_after_a_new_version_but_not_after_a_skipped_batch(lake, instance):
    changed = dg.AutomationCondition.any_deps_match(dg.AutomationCondition.data_version_changed())

    @dg.asset(deps=["kept"], automation_condition=changed)
    def on_change(): ...

    @dg.asset(deps=["kept"], automation_condition=dg.AutomationCondition.eager())
    def on_update(): ...

    extra, cursor = [on_change, on_update], None

    def requested() -> set[str]:
        nonlocal cursor
        definitions = dg.Definitions.merge(load_definitions(lake.root), dg.Definitions(assets=extra))
        found = dg.evaluate_automation_conditions(definitions, instance, cursor=cursor)
        cursor = found.cursor
        names = ("on_change", "on_update")
        return {name for name in names if found.get_num_requested(dg.AssetKey(name))}

    run(lake.root, instance, "n", "inner", "kept")
    first = run(lake.root, instance, "on_change", "on_update", extra=extra)
    assert events(first)["on_change"].tags["dagster/input_data_version/kept"] == published(lake, "kept")
    requested()
    assert requested() == set()
    run(lake.root, instance, "n", "inner", "kept")
    assert requested() == {"on_change", "on_update"}
    run(lake.root, instance, "on_change", "on_update", extra=extra)
    requested()
    run(lake.write(EMPTY).root, instance, "inner", "kept")
    assert "on_change" not in requested()


# the plan


def test_the_spark_plan_contains_what_the_query_reads(project, instance):
    sales = project(SALES)
    result = run(sales.root, instance)
    text = events(result)["report"].metadata["rivet/spark_plan"].md_str
    assert text.startswith("```\n== Physical Plan ==\n")
    assert text.endswith("\n```")
    assert set(re.findall(r"data/(\w+)\.csv", text)) == {"orders", "names"}
    assert "LocalTableScan" in events(result)["made"].metadata["rivet/spark_plan"].md_str
    assert "rivet/spark_ui" not in events(result)["report"].metadata  # this Spark has no UI


def test_a_long_plan_is_truncated_with_a_note(project, instance):
    lake = project({"joints/n.sql": f"SELECT '{'x' * PLAN_LIMIT}' AS id", "sinks/kept.yaml": sink("kept", "n")})
    text = events(run(lake.root, instance))["kept"].metadata["rivet/spark_plan"].md_str
    end = re.search(r"\n\.\.\. (\d+) more characters\n```$", text)
    assert end
    assert int(end[1]) > 0
    assert len(text) - len(end[0]) == PLAN_LIMIT + len("```\n")


def test_a_plan_starts_no_job_and_shows_no_password(project, instance, sql_executions):
    lake = project({"joints/n.sql": "SELECT 's3a://key:hidden@bucket/x' AS id", "sinks/kept.yaml": sink("kept", "n")})
    run(lake.root, instance)
    sql_executions.since()
    text = events(run(lake.root, instance))["kept"].metadata["rivet/spark_plan"].md_str
    assert sql_executions.since() == 1
    assert "s3a://bucket/x" in text
    assert "hidden" not in text


def test_an_unavailable_plan_does_not_fail_the_step(project, instance):
    def away(session, frame):
        def plan():
            raise RivetError("RVT-510", "Connection refused")

        return plan

    lake = project({"joints/n.sql": "SELECT 1 AS id", "sinks/kept.yaml": sink("kept", "n")})
    with patch.object(PySparkSession, "explain", away):
        result = run(lake.root, instance)
    assert result.success
    assert "Connection refused" in metadata(result, "kept")["rivet/spark_plan"]


# column statistics

TYPES = """
SELECT n, IF(n = 2, NULL, n * 10) AS ten, date'2024-01-01' + n AS day, n > 2 AS big,
  CAST(n + 0.25 AS DECIMAL(9, 2)) AS price, timestamp_ntz'2024-01-01 12:00:00' AS at,
  concat('name ', n) AS name, repeat(string(n), 500) AS long, CAST(X'ff61' AS STRING) AS garbled, X'0102' AS raw,
  IF(n = 3, double('NaN'), double(n)) AS number, array(n) AS list, named_struct('a', n) AS nested,
  CAST(NULL AS INT) AS Nothing
FROM (SELECT CAST(id AS INT) AS n FROM range(0, 4, 1, 2))
"""


def test_column_statistics_match_the_rows(project, instance):
    lake = project({"joints/n.sql": TYPES, "sinks/kept.yaml": sink("kept", "n")})
    table = events(run(lake.root, instance))["kept"].metadata["rivet/column_statistics"]
    found = {record.data["column"]: record.data for record in table.records}
    assert [column.name for column in table.schema.columns] == ["column", "nulls", "least", "greatest"]
    rows = pq.read_table(lake.root / "lake/kept", columns=[name for name in found if name != "garbled"])
    assert {name: data["nulls"] for name, data in found.items() if name != "garbled"} == {
        name: rows[name].null_count for name in rows.column_names
    }
    bounds = {name: [data["least"], data["greatest"]] for name, data in found.items()}
    exact = ("n", "ten", "day", "price", "at", "name")
    assert {name: bounds[name] for name in exact} == {
        name: [str(value.as_py()) for value in (pc.min(rows[name]), pc.max(rows[name]))] for name in exact
    }
    assert bounds["big"] == ["False", "True"]
    unknown = ("long", "garbled", "raw", "number", "Nothing")
    assert {name: bounds[name] for name in unknown} == {name: [None, None] for name in unknown}
    assert set(found) == {*exact, *unknown, "big"}
    json.dumps(list(found.values()), allow_nan=False)


def test_statistics_are_reported_without_reading_the_files_again(project, instance):
    def blind(joint, target, result):
        with patch.object(pq, "read_metadata", side_effect=AssertionError("a footer is read again")):
            return exit_metadata(joint, target, result)

    exit_metadata = materialization_metadata.exit_metadata
    lake = project({"joints/n.sql": TYPES, "sinks/kept.yaml": sink("kept", "n")})
    with patch("rivet_dagster.definitions.assets.groups.exit_metadata", blind):
        assert metadata(run(lake.root, instance), "kept")["rivet/column_statistics"] is not None


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Decimal("1.50"), "1.50"),
        (date(2024, 1, 31), "2024-01-31"),
        (datetime(2024, 1, 31, 5, 6, 7), "2024-01-31 05:06:07"),
        (float("nan"), "nan"),
        (b"\x00\xff", "00ff"),
        ("x" * 101, "x" * 97 + "..."),
        (None, None),
    ],
)
def test_values_of_every_type_are_shown_as_short_texts(value, shown):
    assert materialization_metadata._text(value) == shown


def test_rejected_rows_appear_in_no_metadata(project, instance):
    gate = [{"type": "expression", "sql": "id < 3", "samples": 0, "name": "small"}]
    lake = project({
        "joints/n.sql": "SELECT id, concat('public', id) AS text FROM range(3)",
        "sinks/kept.yaml": sink("kept", "n", assertions=gate),
    })  # fmt: skip
    first = run(lake.root, instance)
    assert "public2" in str(events(first)["kept"].metadata["rivet/column_statistics"])
    # The log is full of random ids and times, in which short texts could occur by chance.
    rows = "SELECT id + 5550123456789012 AS id, concat('hid', 'den', id) AS text FROM range(3)"
    lake.write({"joints/n.sql": rows})
    failed = run(lake.root, instance, raise_on_error=False)
    assert not failed.success
    assert events(failed) == {}
    log = " ".join(str(entry) for entry in instance.all_logs(failed.run_id))
    assert "small" in log
    assert not re.search("hidden|5550123456789013|5550123456789014", log)


# the log

DEFS = "from rivet_dagster import load_definitions\ndefs = load_definitions({!r})\n"
PROGRESS = re.compile(r"report: \d+ of \d+ stages, ")
NOISE = re.compile(r"\b(INFO|WARN|DEBUG|TRACE) \w*(Spark|Task|Dag|Block|Memory|Code|File|Native|Utils)|log4j", re.I)


@pytest.mark.nightly
def test_a_run_in_its_own_process_logs_nothing_from_spark(folder, tmp_path):
    engine = PROFILES["default"]["engines"][0]
    config = engine["config"] | {"spark.ui.enabled": True, "spark.ui.port": 0, "spark.driver.memory": "768m"}
    profile = PROFILES["default"] | {"engines": [engine | {"config": config}]}
    files = {"joints/n.sql": "SELECT count(*) AS n FROM range(9)", "sinks/report.yaml": sink("report", "n")}
    sales = folder(files | {"profiles.yaml": {"default": profile}})
    sales.write({"defs.py": DEFS.format(str(sales.root))})
    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    command = [sys.executable, "-m", "dagster", "job", "execute", "-f", str(sales.root / "defs.py"), "-j", "all"]
    environ = {name: value for name, value in os.environ.items() if name != "LOG4J_CONFIGURATION_FILE"}
    environ |= {"DAGSTER_HOME": str(home)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    with dg.DagsterInstance.from_config(str(home)) as instance:
        (run,) = instance.get_runs()
        entries = instance.all_logs(run.run_id)
        made = [entry.asset_materialization for entry in entries if entry.asset_materialization is not None]
    messages = [entry.user_message for entry in entries if entry.dagster_event is None]
    assert [text for text in messages if not PROGRESS.match(text)] == []
    assert not NOISE.search(" ".join(str(entry) for entry in entries))
    (report,) = [one for one in made if one.asset_key == dg.AssetKey("report")]
    assert re.fullmatch(r"http://\S+:\d+/SQL/execution/\?id=\d+", report.metadata["rivet/spark_ui"].value)
    captured = list((home / "storage").rglob("*.err"))
    assert captured
    printed = done.stdout + "".join(path.read_text() for path in captured)
    assert not NOISE.search(printed), printed
