"""Make a metastore of Derby in this folder, with the source tables."""

from pathlib import Path

from pyspark.sql import SparkSession

spark = SparkSession.builder.enableHiveSupport().getOrCreate()
spark.sql("CREATE DATABASE tpch")
for path in Path("data").resolve().glob("*.parquet"):
    spark.sql(f"CREATE TABLE tpch.{path.stem} USING parquet LOCATION '{path}'")
spark.stop()
