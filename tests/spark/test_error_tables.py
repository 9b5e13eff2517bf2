"""Error tables that Spark writes and reads, by the catalog and by their path."""

from support.error_tables import COLUMNS, ERRORS
from support.folders import sink, source

from rivet_dagster.catalogs.filesystem.writes import staged_errors
from rivet_dagster.model.write_plan import ReplaceAll

NEW = """
SELECT 'orders' AS joint, 'DIVIDE_BY_ZERO' AS code, '1 / n' AS expression, 'joints/orders.sql' AS file, 3 AS line,
  'Division by zero.' AS message, '0' AS row, CAST(NULL AS STRING) AS key, 'run' AS run_id, '{}' AS version
"""


def test_plain_spark_reads_the_errors_of_the_published_version(quick_session, warehouse, tmp_path):
    spark = quick_session.spark
    for number in (1, 2):
        with warehouse.begin("orders", quick_session) as transaction:
            transaction.write(ReplaceAll(), quick_session.query(f"SELECT {number} AS id"))
            stored = transaction.write_errors(ERRORS, quick_session.query(NEW.format(transaction.version)))
            assert stored.statistics.rows == 1
            published = transaction.commit(str(number))
        rows = spark.read.parquet(str(tmp_path / "warehouse/orders")).collect()
        errors = spark.read.parquet(str(tmp_path / "warehouse" / ERRORS))
        assert (rows, [row.version for row in errors.collect()]) == ([(number,)], [published.version])
        assert errors.columns == list(COLUMNS)
        assert dict(errors.dtypes) == {name: "int" if name == "line" else "string" for name in COLUMNS}
    loaded = quick_session.load(warehouse.relation(ERRORS, {}))
    assert [row.version for row in loaded.collect()] == [published.version]


def test_appended_errors_share_the_files_of_the_earlier_ones(project, monkeypatch):
    casts = {"columns": [{"id": "CAST(id AS INT)"}], "options": {"landing": True}}
    folder = project({
        "sources/zone.yaml": source("zone", "id STRING", **casts),
        "sinks/out.yaml": sink("out", "zone", write_strategy="append", on_error="quarantine"),
    })  # fmt: skip
    errors = folder.root / "lake/out__errors"

    def run(name: str, text: str) -> tuple[set[int], list[str], int, int]:
        folder.write({f"data/zone/{name}.csv": text})
        result = folder.run("out")
        found = [row["row"] for row in folder.rows("out__errors")]
        return (
            {path.stat().st_ino for path in errors.iterdir()},
            sorted(found),
            result.errors.count,
            result.errors.total,
        )

    first, *told = run("a", "id\n1\nx\ny\n")
    assert told == [['{"id":"x"}', '{"id":"y"}'], 2, 2]
    second, *told = run("b", "id\nz\n")
    assert told == [['{"id":"x"}', '{"id":"y"}', '{"id":"z"}'], 1, 3]
    third, *told = run("c", "id\n3\n")
    assert (first < second <= third, told[1:]) == (True, [0, 3])
    monkeypatch.setattr(staged_errors, "MOST_SHARED", 1)
    last, *told = run("d", "id\nx\n")
    assert (last & third, told[1:]) == (set(), [1, 4])
    assert [row["id"] for row in folder.rows("out")] == [1, 3]
