"""Statements of a small run, which Spark runs while an archive of classes is made, so that it loads these classes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from rivet_dagster.engines.pyspark.class_archive.jvm import CLASS_PATH, SparkJvm
from rivet_dagster.engines.pyspark.engine import PySparkEngine
from rivet_dagster.engines.pyspark.jars import is_runtime
from rivet_dagster.engines.pyspark.session import PySparkSession
from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.model.relations import Files

_ORDERS = """\
id,customer,amount,paid_at
1,ann,10.5,2026-01-01 10:00:00
2,bob,7.25,2026-01-02 11:30:00
3,ann,x,2026-02-01 00:00:00
"""
_QUERY = """\
WITH paid AS (SELECT id, customer, try_cast(amount AS DECIMAL(12, 2)) AS amount, paid_at
              FROM orders WHERE paid_at IS NOT NULL),
months AS (SELECT customer, date_trunc('MONTH', paid_at) AS month, sum(amount) AS revenue, count(*) AS number,
           max(paid_at) AS last FROM paid GROUP BY customer, date_trunc('MONTH', paid_at)),
ranked AS (SELECT *, row_number() OVER (PARTITION BY customer ORDER BY month DESC) AS place FROM months)
SELECT r.customer, r.month, r.revenue, r.number, upper(r.customer) || '-' || r.place AS label, p.amount,
       CASE WHEN r.revenue > 5 THEN 'large' ELSE 'small' END AS size, coalesce(p.amount, 0.0) AS known
FROM ranked AS r LEFT JOIN paid AS p ON p.customer = r.customer AND p.id <> :excluded
WHERE NOT EXISTS (SELECT 1 FROM orders AS o WHERE o.customer = r.customer AND o.id > 100)
UNION ALL
SELECT customer, NULL, NULL, 0, 'all', amount, 'none', 0.0 FROM paid WHERE customer IN (SELECT customer FROM months)
"""
_CHECKS = """\
SELECT count(*) AS rows, count_if(customer IS NULL) AS customer_null, count(DISTINCT customer) AS customers,
       min(known) AS least, max(known) AS greatest FROM result
"""
_ICEBERG = (
    "CREATE TABLE archive.made.orders USING iceberg PARTITIONED BY (size) AS SELECT * FROM result",
    "ALTER TABLE archive.made.orders CREATE BRANCH staged",
    "INSERT INTO archive.made.orders.branch_staged SELECT * FROM result",
    "MERGE INTO archive.made.orders.branch_staged AS t USING (SELECT DISTINCT label, 1.0 AS known FROM result) AS s "
    "ON t.label = s.label AND t.known = -1 WHEN MATCHED THEN UPDATE SET known = s.known "
    "WHEN NOT MATCHED THEN INSERT (label, known) VALUES (s.label, s.known)",
    "CALL archive.system.fast_forward('made.orders', 'main', 'staged')",
)


def main() -> None:
    """Run the statements in the folder that the command line names, and return when the JVM has ended."""
    place, jvm = Path(sys.argv[2]), SparkJvm.from_json(sys.argv[3])
    engine = PySparkEngine(EngineSpec("archive", "pyspark", options=_options(place, jvm)))
    with engine.session() as session:
        run_statements(session, place, iceberg=_has_iceberg(jvm))
        application = session.spark.sparkContext
    application.stop()
    gateway: Any = application._gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    sys.exit(gateway.proc.wait())


def run_statements(session: PySparkSession, place: Path, iceberg: bool = False) -> None:
    """Run the statements of a small run: files are read and written, rows joined, judged and returned."""
    import pyarrow as pa

    (place / "orders.csv").write_text(_ORDERS, encoding="utf-8")
    schema = "id BIGINT, customer STRING, amount STRING, paid_at TIMESTAMP"
    session.register(
        "orders", session.load(Files("csv", (str(place / "orders.csv"),), {"header": "true", "schema": schema}))
    )
    written = Files("parquet", (str(place / "result"),))
    frame = session.query(_QUERY, {"excluded": 0})
    plan = session.explain(frame)
    session.write(frame, written, progress=print)
    plan()
    session.register("result", session.load(written))
    session.rows(_CHECKS)
    rows = session.to_arrow(session.query("SELECT * FROM result ORDER BY label LIMIT 10"))
    given = session.from_value(pa.Table.from_pylist(rows.to_pylist(), schema=rows.schema))
    if given is not None:
        list(session.batches(session.union_by_name([given, given])))
    if iceberg:
        for statement in _ICEBERG:
            session.execute(statement)
        session.rows("SELECT count(*) FROM archive.made.orders")


def _options(place: Path, jvm: SparkJvm) -> dict[str, object]:
    config: dict[str, object] = {
        "spark.driver.memory": "512m",
        "spark.ui.enabled": False,
        "spark.sql.shuffle.partitions": 2,
        "spark.sql.warehouse.dir": str(place / "warehouse"),
        "spark.driver.bindAddress": "127.0.0.1",
    }
    if jvm.class_path:
        config[CLASS_PATH] = jvm.class_path
    if _has_iceberg(jvm):
        config["spark.sql.extensions"] = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        config["spark.sql.catalog.archive"] = "org.apache.iceberg.spark.SparkCatalog"
        config["spark.sql.catalog.archive.type"] = "hadoop"
        config["spark.sql.catalog.archive.warehouse"] = str(place / "iceberg")
    options: dict[str, object] = {"master": "local[2]", "config": config}
    return options | {key: list(value) for key, value in (("packages", jvm.packages), ("jars", jvm.jars)) if value}


def _has_iceberg(jvm: SparkJvm) -> bool:
    return any(is_runtime(artifact) for artifact in (*jvm.packages, *jvm.jars))
