"""The question by hand: open the files, ask once, write."""

from pathlib import Path

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
for path in Path("data").glob("*.parquet"):
    spark.read.parquet(str(path)).createOrReplaceTempView(path.stem)
spark.sql(Path("query.sql").read_text()).write.parquet("answer")
spark.stop()
