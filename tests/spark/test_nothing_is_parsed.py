"""No SQL is parsed while a group runs: Spark's queries come from the plan, or are built from trees."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from support.folders import sink, source
from support.no_parsing import Parsed, nothing_parsed

from rivet_dagster.definitions.partitions import window
from rivet_dagster.engines.pyspark.session import PySparkSession
from rivet_dagster.execution.reading.inputs import reference
from rivet_dagster.model.partitions import parse_partitions
from rivet_dagster.sql.parsing.dialect import parse_expression, read_query

DAYS = {"type": "daily", "column": "day", "start": "2024-03-01", "timezone": "Europe/Berlin"}
BOTH_DAYS = window(parse_partitions(DAYS), ("2024-03-08", "2024-03-09"))
STRATEGIES = {
    "append": {"on_schema_change": "add"},
    "replace": {"on_empty": "skip"},
    "truncate_insert": {"on_schema_change": "ignore"},
    "merge": {"key_columns": ["id"], "watermark_column": "at", "lookback": 1, "order_by": ["at"]},
    "delete_insert": {"partition_by": ["region"]},
    "snapshot": {"partition_column": "day"},
    "incremental_append": {"watermark_column": "at"},
    "scd2": {"key_columns": ["id"], "effective_at": "since", "close_missing": True},
}
FILES = {
    "data/raw.csv": "id,at,region,day\n1,10,eu,2024-03-08\n2,11,us,2024-03-09\n",
    "data/incoming/a.csv": "id\n1\n",
    "sources/raw.yaml": source(
        "raw.csv", "id INT, at INT, region STRING, day DATE", columns=["id", "at", "region", "day"], filter="id > 0"
    ),
    "sources/incoming.yaml": source("incoming", "id INT", options={"landing": True, "archive": True}),
    "joints/news.sql": "SELECT *, {{ run_started_at }} AS since FROM raw"
    "{% if is_incremental('merge') %} WHERE at > {{ watermark_value('merge') }}"
    " OR id NOT IN (SELECT id FROM {{ this('merge') }}){% endif %}",
    "joints/rows.sql": "-- rivet:eager: true\nSELECT * FROM news",
    "joints/landed.sql": "SELECT id FROM {{ landing_zone('incoming') }}",
    "joints/counted.py": "def transform(rows):\n    return rows.to_arrow()\n",
    "joints/daily.sql": f"-- rivet:partitions: {DAYS}\nSELECT * FROM rows WHERE day >= :partition_start",
    "joints/again.sql": "SELECT id, at FROM rows",
    "joints/more.sql": "SELECT at, id FROM rows",
    "sinks/landing.yaml": sink("landing", "landed", write_strategy="append"),
    "sinks/both.yaml": sink("both", "again", "more"),
    "sinks/days.yaml": sink("days", "daily", partitions=DAYS),
    "sinks/merged_days.yaml": sink(
        "merged_days", "rows", partitions=DAYS, write_strategy={"mode": "merge", "key_columns": ["id"]}
    ),
    "sinks/from_python.yaml": sink("from_python", "counted"),
    **{
        f"sinks/{mode}.yaml": sink(mode, "rows", write_strategy={"mode": mode, **options})
        for mode, options in STRATEGIES.items()
    },
}


def test_the_detector_notices_every_way_of_parsing():
    with nothing_parsed():
        for parse in (read_query, parse_expression):
            with pytest.raises(Parsed):
                parse("id > 1")


@pytest.mark.nightly
def test_nothing_is_parsed_while_groups_run(project):
    folder = project(FILES)
    plan = folder.assembly
    asked: list[str] = []
    query = PySparkSession.query

    def recorded(self, sql, parameters=None):
        asked.append(sql)
        return query(self, sql, parameters)

    with nothing_parsed(), patch.object(PySparkSession, "query", recorded):
        for text in ("3,12,eu,2024-03-09\n4,12,eu,2024-03-09\n", ""):
            for group in plan.fused_groups:
                if group.target is not None:
                    folder.run(group.exit, window=BOTH_DAYS if group.target.partitions else None)
            with (folder.root / "data/raw.csv").open("a") as file:
                file.write(text)
            (folder.root / "data/incoming/b.csv").write_text("id\n2\n")
        folder.run("rows", selected=["news"])
        assert sorted(reference(folder.runtime, "again").to_arrow()["id"].to_pylist()) == [2, 3, 4]
    for group in plan.fused_groups:
        if group.query is not None and len(group.query.results) == 1:
            assert {group.sql, group.sql_incremental or group.sql} <= set(asked)
    assert [row["id"] for row in folder.rows("landing")] == [1, 2]
    assert [row["id"] for row in folder.rows("merge")] == [1, 2, 3, 4]
    assert [row["id"] for row in folder.rows("both")] == [2, 2, 3, 3, 4, 4]
