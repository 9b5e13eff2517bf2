"""Error tables that Spark writes and reads, by the catalog and by their path."""

from support.error_tables import COLUMNS, ERRORS

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
