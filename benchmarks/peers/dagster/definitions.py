"""Six assets of Spark DataFrames in plain Dagster, each a Parquet table, run in one process."""

from pathlib import Path

import dagster as dg
from pyspark.sql import DataFrame, SparkSession

INPUTS = {
    "shipped_lines": ["lineitem"],
    "customer_orders": ["orders", "customer"],
    "nations": ["nation", "region"],
    "sales": ["shipped_lines", "customer_orders", "nations"],
    "european_sales": ["sales"],
    "nation_revenue": ["european_sales"],
}
PROJECT = Path(__file__).parent


class ParquetTables(dg.ConfigurableIOManager):
    """Writes each asset to a folder of Parquet files, and reads it from there."""

    def handle_output(self, context: dg.OutputContext, frame: DataFrame) -> None:
        frame.write.mode("overwrite").parquet(self.table(context.asset_key))

    def load_input(self, context: dg.InputContext) -> DataFrame:
        return session().read.parquet(self.table(context.asset_key))

    def table(self, key: dg.AssetKey) -> str:
        return str(PROJECT / "tables" / key.to_user_string())


def session() -> SparkSession:
    """Return the session of the process."""
    return SparkSession.builder.getOrCreate()


def step(name: str) -> dg.AssetsDefinition:
    """Return the asset of one step."""
    query = (PROJECT / "steps" / f"{name}.sql").read_text()
    sources = [table for table in INPUTS[name] if table not in INPUTS]
    assets = {table: dg.AssetIn(table) for table in INPUTS[name] if table in INPUTS}

    @dg.asset(name=name, ins=assets)
    def compute(**frames: DataFrame) -> DataFrame:
        for table in sources:
            frames[table] = session().read.parquet(str(PROJECT / "data" / f"{table}.parquet"))
        for table, frame in frames.items():
            frame.createOrReplaceTempView(table)
        return session().sql(query)

    return compute


defs = dg.Definitions(
    assets=[step(name) for name in INPUTS],
    resources={"io_manager": ParquetTables()},
    executor=dg.in_process_executor,
)
