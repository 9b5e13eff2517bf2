"""A Spark session that the application has made itself, in a process of its own, since this one runs a Spark."""

import copy
import json
import subprocess
import sys

from support.folders import PROFILES, ProjectFolder, sink, source
from support.spark import QUICK
from support.torture import at_length

PROGRAM = """
import json
import sys
import dagster as dg
from pyspark.sql import SparkSession
from rivet_dagster import RivetGroupRun, RivetProject, rivet_assets, rivet_executor, rivet_resources

builder = SparkSession.builder.master("local[1]").appName("ours").config("spark.ui.enabled", False)
spark = builder.config("spark.driver.extraJavaOptions", sys.argv[2]).getOrCreate()
spark.range(3).createOrReplaceTempView("orders")  # not the source of that name


class OurSpark(dg.ConfigurableResource):
    @property
    def spark_session(self) -> SparkSession:
        return spark


project = RivetProject.load(sys.argv[1])


@rivet_assets(project)
def shop(context: dg.AssetExecutionContext, group: RivetGroupRun):
    yield from group.run(context)


resources = {**rivet_resources(project), "rivet_engine_spark": OurSpark()}
defs = dg.Definitions(assets=shop, resources=resources, executor=rivet_executor(project))
run = defs.resolve_implicit_global_asset_job_def().execute_in_process()
again = spark.sql("SELECT count(*) AS n FROM orders").first()["n"]
print(json.dumps({"success": run.success, "name": spark.sparkContext.appName, "own view": again}))
"""


@at_length
def test_a_session_that_was_handed_in_runs_the_groups_and_stays_as_it_was(tmp_path):
    profiles = copy.deepcopy(PROFILES)
    profiles["default"]["engines"][0]["master"] = "spark://no-such-host:7077"
    made = ProjectFolder(
        tmp_path / "project",
        {
            "profiles.yaml": profiles,
            "data/orders.csv": "id\n1\n2\n3\n4\n",
            "sources/orders.yaml": source("orders.csv", "id BIGINT"),
            "joints/late.sql": "SELECT id * 10 AS id FROM orders WHERE id > 2",
            "sinks/out.yaml": sink("out", "late"),
        },
    )
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), str(made.root), QUICK]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {"success": True, "name": "ours", "own view": 3}
    assert made.rows("out") == [{"id": 30}, {"id": 40}]
