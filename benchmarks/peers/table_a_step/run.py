"""The steps in turn: each writes a Parquet table, which the later ones read."""

from pathlib import Path

from pyspark.sql import SparkSession

STEPS = ("shipped_lines", "customer_orders", "nations", "sales", "european_sales", "nation_revenue")

spark = SparkSession.builder.getOrCreate()
for path in Path("data").glob("*.parquet"):
    spark.read.parquet(str(path)).createOrReplaceTempView(path.stem)
for step in STEPS:
    table = f"tables/{step}"
    spark.sql(Path(f"steps/{step}.sql").read_text()).write.parquet(table)
    spark.read.parquet(table).createOrReplaceTempView(step)
spark.stop()
