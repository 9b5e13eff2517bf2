"""Sources on S3, read by Spark."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import object_store_runs
from support.torture import at_length

from rivet_dagster.catalogs.filesystem.stores.store import StoreUri, spark_needs

BUNDLE = ".m2/repository/software/amazon/awssdk/bundle"


@at_length
def test_spark_reads_sources_on_s3():
    (package,) = spark_needs(StoreUri.of("s3a://lake"), {}).packages
    if not os.environ.get("CI") and not (Path.home() / BUNDLE).is_dir():
        pytest.skip(f"Spark would have to fetch 640 MB; get them once: mvn dependency:get -Dartifact={package}")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(Path(object_store_runs.__file__))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-6000:]
    assert " passed" in done.stdout or "[100%]" in done.stdout
