"""JVMs of Spark start from an archive of classes; one that is damaged is passed over.

That a run makes its archive by itself takes a minute, and is tried by ``make torture``. The parts of it are units:
tests/unit/engines/test_class_archive.py.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.spark import QUICK
from support.torture import TORTURE, at_length

from rivet_dagster.engines.pyspark import PySparkEngine
from rivet_dagster.engines.pyspark.class_archive.making import make_archive
from rivet_dagster.engines.pyspark.class_archive.store import VARIABLE
from rivet_dagster.model.profile import EngineSpec

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


@pytest.fixture
def archives(tmp_path: Path) -> Path:
    """Return a folder with a copy of the archive from which the JVMs of these tests start; made if there is none."""
    folder = tmp_path / "archives"
    if os.environ[VARIABLE] == "false":
        jvm = PySparkEngine(EngineSpec("spark", "pyspark")).jvm()
        assert jvm is not None
        make_archive(folder, jvm)
    else:
        shutil.copytree(os.environ[VARIABLE], folder)
    return folder


@at_length
def test_a_jvm_takes_its_classes_from_the_archive_and_passes_over_one_that_is_damaged(archives, tmp_path):
    taken, first = started(archives, tmp_path)
    assert taken > 5000
    assert (first.returncode, first.stdout) == (0, "42\n")

    for file in archives.glob("*/classes.*"):  # pytest's cache may have those of other options, too
        file.chmod(0o600)
        os.truncate(file, file.stat().st_size // 2)
    taken, second = started(archives, tmp_path)
    assert (taken, second.returncode, second.stdout, second.stderr) == (0, 0, "42\n", first.stderr)


if TORTURE:

    def test_an_archive_is_made_by_itself(tmp_path):
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
