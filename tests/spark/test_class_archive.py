"""JVMs of Spark start from an archive of classes, which is made by itself; one that is damaged is passed over."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from support.spark import QUICK

START = """
import sys
from rivet_dagster.engines.pyspark import PySparkEngine
from rivet_dagster.model.profile import EngineSpec
options = {"master": "local[1]", "config": {"spark.ui.enabled": "false"}}
with PySparkEngine(EngineSpec("spark", "pyspark", options=options)).session() as session:
    print(session.rows("SELECT 6 * 7 AS answer")[0]["answer"])
"""


def started(archives: Path, place: Path) -> tuple[int, subprocess.CompletedProcess[str]]:
    """Start Spark in a process; return how many classes it took from the archive of Spark, and what it printed."""
    log = place / "classes.log"
    environ = {name: value for name, value in os.environ.items() if name != "CI"}
    environ |= {
        "RIVET_CLASS_ARCHIVE": str(archives),
        "SPARK_SUBMIT_OPTS": f"{QUICK} -Xlog:class+load:file={log}",
    }
    ended = subprocess.run([sys.executable, "-c", START], env=environ, capture_output=True, text=True, timeout=300)
    return log.read_text().count("source: shared objects file (top)"), ended


def test_an_archive_is_made_by_itself_used_and_passed_over_when_it_is_damaged(tmp_path):
    archives = tmp_path / "archives"
    taken, first = started(archives, tmp_path)
    assert (taken, first.returncode, first.stdout) == (0, 0, "42\n")

    deadline = time.monotonic() + 300
    while not (made := list(archives.glob("*/archive.json"))):
        assert time.monotonic() < deadline, [path.read_text() for path in archives.glob("*.log")]
        time.sleep(0.5)
    assert len(made) == 1

    taken, second = started(archives, tmp_path)
    assert taken > 5000
    assert (second.returncode, second.stdout, second.stderr) == (0, "42\n", first.stderr)

    [file] = archives.glob("*/classes.*")
    file.chmod(0o600)
    os.truncate(file, file.stat().st_size // 2)
    taken, third = started(archives, tmp_path)
    assert (taken, third.returncode, third.stdout, third.stderr) == (0, 0, "42\n", first.stderr)
