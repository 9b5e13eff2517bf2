"""The doctor on jars, disks and servers: each of them there, missing and doubtful."""

from __future__ import annotations

import errno
import os
import socket
import zipfile
from pathlib import Path

import pytest

from rivet_dagster import machine
from rivet_dagster.catalogs.iceberg import IcebergCatalog
from rivet_dagster.catalogs.spark import SparkCatalog
from rivet_dagster.cli import doctor_command
from rivet_dagster.engines.pyspark import examining, jars
from rivet_dagster.engines.pyspark.examining import examine_jars, examine_local_folders, examine_master
from rivet_dagster.errors import RivetError
from rivet_dagster.machine import Server, little_space, web_servers
from rivet_dagster.model.finding import FAIL, OK, WARN, in_order
from rivet_dagster.model.profile import CatalogSpec

RUNTIME = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
DRIVER = "org.postgresql:postgresql:42.7.14"


def short(findings) -> list[tuple[str, str | None]]:
    return [(found.status, found.code) for found in findings]


# jars


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """Make a home with the runtime in Maven's folder and the driver in Ivy's, as both programs lay them out."""
    monkeypatch.setattr(examining, "spark_version", lambda: "4.1.4")
    maven = tmp_path / ".m2/repository/org/apache/iceberg/iceberg-spark-runtime-4.1_2.13/1.12.0"
    ivy = tmp_path / ".ivy2.5.2/cache/org.postgresql/postgresql"
    for file in (
        *(maven / f"iceberg-spark-runtime-4.1_2.13-1.12.0.{kind}" for kind in ("jar", "pom")),
        ivy / "ivy-42.7.14.xml",
        ivy / "jars/postgresql-42.7.14.jar",
    ):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    return tmp_path


def test_packages_that_maven_or_ivy_have_fetched_are_found(home):
    runtime, driver = examine_jars("engine spark", {"spark.jars.packages": f"{RUNTIME},{DRIVER}"}, home)
    assert (runtime.status, runtime.text) == (OK, f"{RUNTIME} is in {home}/.m2, for the installed Spark 4.1.4")
    assert (driver.status, driver.text) == (OK, f"{DRIVER} is in {home}/.ivy2.5.2")


def test_a_package_that_must_be_fetched_is_a_warning_that_says_how(home):
    for lost in (".m2/repository/org/apache/iceberg/iceberg-spark-runtime-4.1_2.13/1.12.0/", ".ivy2.5.2/"):
        for file in (home / lost).rglob("*"):
            if file.suffix in (".pom", ".xml"):
                file.unlink()
    found = list(examine_jars("engine spark", {"spark.jars.packages": f"{RUNTIME},{DRIVER}"}, home))
    assert short(found) == [(WARN, None)] * 2
    assert f"mvn dependency:get -Dartifact={DRIVER}" in found[1].remedy
    assert short(examine_jars("e", {"spark.jars.packages": "nothing"}, home)) == [(WARN, None)]


def test_ivys_folder_may_be_another(home):
    own = {"spark.jars.packages": DRIVER, "spark.jars.ivy": str(home / "cache")}
    assert short(examine_jars("e", own, home)) == [(WARN, None)]
    (home / ".ivy2.5.2").rename(home / "cache")
    assert short(examine_jars("e", own, home)) == [(OK, None)]


def test_each_jar_has_a_finding(home, tmp_path):
    good, bad = tmp_path / "good.jar", tmp_path / "bad.jar"
    with zipfile.ZipFile(good, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", "")
    bad.write_bytes(good.read_bytes()[:-8])
    declared = f"{good},{tmp_path}/lost.jar,{bad},https://repo.invalid/a.jar,{tmp_path}/go*.jar,{tmp_path}/x*.jar"
    found = list(examine_jars("engine spark", {"spark.jars": declared}, home))
    assert short(found) == [(OK, None), (FAIL, "RVT-108"), (WARN, None), (WARN, None), (OK, None), (WARN, None)]
    assert found[1].text == f"the jar {tmp_path}/lost.jar does not exist"
    assert found[2].text == f"{bad} is no jar"
    assert all(each.remedy for each in found if each.status != OK)


@pytest.mark.parametrize("wrong", ["iceberg-spark-runtime-4.0_2.13:1.11.0", "iceberg-spark-runtime-4.1_2.12:1.12.0"])
def test_a_runtime_for_another_spark_or_scala_fails_and_the_others_are_examined(home, wrong):
    found = examine_jars("e", {"spark.jars.packages": f"org.apache.iceberg:{wrong},{DRIVER}"}, home)
    assert short(found) == [(FAIL, "RVT-127"), (OK, None)]


def test_the_jar_of_this_machine_is_told_from_one_that_is_fetched():
    assert [jars.local_jar(jar) for jar in ("/a.jar", "file:/a.jar", "s3a://b/a.jar")] == ["/a.jar", "/a.jar", None]


# disks


def full(free: int, files: int = 9):
    return lambda path: os.statvfs_result((1, 1, 100 * 2**30, free, free, 10, files, files, 0, 255))


def test_little_space_is_a_warning(tmp_path, monkeypatch):
    monkeypatch.setattr(machine.os, "statvfs", full(2**30))
    assert list(little_space("catalog lake", tmp_path / "new/lake", "lake")) == []
    monkeypatch.setattr(machine.os, "statvfs", full(2**30 - 1))
    (found,) = little_space("catalog lake", tmp_path, "lake")
    assert (found.status, found.text) == (WARN, "lake: only 1023 MiB free")
    assert "Free space" in found.remedy
    monkeypatch.setattr(machine.os, "statvfs", full(2**40, files=0))
    (found,) = little_space("catalog lake", tmp_path, "lake")
    assert found.text == "lake: only 0 MiB free"


def test_sparks_local_folders_are_those_that_spark_takes(tmp_path):
    environ = {"SPARK_LOCAL_DIRS": f"{tmp_path}/a, {tmp_path}/b"}
    found = list(examine_local_folders("engine spark", {"spark.local.dir": "/proc/nowhere"}, environ))
    assert [each.text.partition(":")[0] for each in found if each.status == OK] == [
        f"Spark's local files in {tmp_path}/a", f"Spark's local files in {tmp_path}/b",
    ]  # fmt: skip
    assert list(tmp_path.iterdir()) == []


def test_a_local_folder_that_cannot_be_written_fails_if_it_is_the_only_one(tmp_path, monkeypatch):
    (found,) = examine_local_folders("engine spark", {"spark.local.dir": "/proc/nowhere"}, {})
    assert (found.status, found.code) == (FAIL, "RVT-502")
    assert "SPARK_LOCAL_DIRS" in found.remedy
    both = examine_local_folders("engine spark", {"spark.local.dir": f"/proc/nowhere,{tmp_path}"}, {})
    assert [status for status, _ in short(both)][:2] == [WARN, OK]


# servers


@pytest.fixture
def listening():
    """Yield a port of this machine that accepts connections."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
def closed():
    """Return a port of this machine that accepts none."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


def test_a_server_that_never_answers_is_given_up_after_a_short_time(monkeypatch):
    monkeypatch.setattr(machine, "SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        address = listener.getsockname()
        waiting = []  # the queue of connections that nobody accepts is full after a few
        for _ in range(3):
            other = socket.socket()
            other.setblocking(False)
            other.connect_ex(address)
            waiting.append(other)
        assert Server(*address).refusal() == "timed out"
        for other in waiting:
            other.close()


def test_the_master_of_a_cluster(listening, closed):
    assert short(examine_master("e", "local[2]", {})) == []
    (found,) = examine_master("e", f"spark://127.0.0.1:{listening}", {})
    assert (found.status, found.text) == (OK, f"the master answers at 127.0.0.1:{listening}")
    (found,) = examine_master("e", f"spark://127.0.0.1:{closed}", {})
    assert (found.status, found.code) == (FAIL, "RVT-502")
    assert found.text == f"no master answers at 127.0.0.1:{closed}: Connection refused"
    standby = examine_master("e", f"spark://127.0.0.1:{closed},127.0.0.1:{listening}", {})
    assert short(standby) == [(WARN, None), (OK, None)]
    assert short(examine_master("e", f"k8s://https://127.0.0.1:{closed}", {})) == [(FAIL, "RVT-502")]
    assert short(examine_master("e", "yarn", {})) == [(FAIL, "RVT-502")]
    assert short(examine_master("e", "yarn", {"HADOOP_CONF_DIR": "/etc/hadoop"})) == []


def test_hives_metastore_and_its_folders(tmp_path, listening, closed):
    def examined(**options):
        return list(SparkCatalog(CatalogSpec("hive", "spark", options), tmp_path).examine(publishes=True))

    (found,) = examined(metastore=f"thrift://127.0.0.1:{listening}")
    assert (found.status, found.text) == (OK, f"the metastore of Hive answers at 127.0.0.1:{listening}")
    (found,) = examined(metastore=f"thrift://127.0.0.1:{closed}")
    assert (found.status, found.code) == (FAIL, "RVT-403")
    two = examined(metastore=f"thrift://127.0.0.1:{closed},thrift://127.0.0.1:{listening}")
    assert short(two) == [(WARN, None), (OK, None)]
    folders = [found.text.partition(" can ")[0] for found in examined(metastore="meta", warehouse="tables")]
    assert folders[:1] + folders[-1:] == ["the metastore meta", "the warehouse tables"]
    assert short(examined(warehouse="/proc/nowhere")) == [(FAIL, "RVT-404")]
    assert examined() == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "options",
    [
        {"catalog": "rest", "uri": "http://127.0.0.1:{port}/catalog", "token": "hunter2hunter2"},
        {"catalog": "nessie", "uri": "http://127.0.0.1:{port}/api/v2", "warehouse": "lake"},
        {"catalog": "jdbc", "uri": "jdbc:postgresql://127.0.0.1:{port}/lake?password=hunter2hunter2", "warehouse": "w"},
        {"catalog": "hive", "uri": "thrift://127.0.0.1:{port}"},
        {"catalog": "hadoop", "warehouse": "lake", "s3.endpoint": "http://127.0.0.1:{port}"},
    ],
    ids=lambda options: options["catalog"],
)
def test_a_server_of_iceberg_that_is_down_is_found_before_a_client_tries_for_minutes(tmp_path, closed, options):
    given = {key: value.replace("{port}", str(closed)) for key, value in options.items()}
    catalog = IcebergCatalog(CatalogSpec("ice", "iceberg", given), tmp_path)
    (found,) = catalog.examine(publishes=True)
    assert (found.status, found.code) == (FAIL, "RVT-403")
    assert f"answers at 127.0.0.1:{closed}: Connection refused" in found.text
    assert "hunter2" not in found.text


def test_behind_a_proxy_the_server_itself_is_not_asked(monkeypatch):
    monkeypatch.setenv("https_proxy", "http://proxy.invalid:3128")
    assert web_servers("https://store.invalid") == ()
    assert web_servers("http://store.invalid:9000/x") == (Server("store.invalid", 9000),)
    monkeypatch.setenv("no_proxy", "store.invalid")
    assert web_servers("https://store.invalid") == (Server("store.invalid", 443),)


def test_an_examination_that_does_not_end_is_a_failure(monkeypatch):
    monkeypatch.setattr(doctor_command, "SECONDS", 0.1)
    go_on = socket.socketpair()

    def examine():
        yield in_order("catalog far", "has a name")
        go_on[0].recv(1)

    found = list(doctor_command._findings("catalog far", "RVT-403", examine))
    assert short(found) == [(OK, None), (FAIL, "RVT-403")]
    assert found[1].text == "no answer within 0.1 s"
    go_on[1].send(b".")


def test_an_examination_that_fails_ends_like_one_in_this_thread():
    def refused():
        yield in_order("catalog far", "has a name")
        raise RivetError("RVT-404", "no right to write")

    def defective():
        raise OSError(errno.EIO, "broken")

    assert short(doctor_command._findings("catalog far", "RVT-403", refused)) == [(OK, None), (FAIL, "RVT-404")]
    with pytest.raises(OSError, match="broken"):
        list(doctor_command._findings("catalog far", "RVT-403", lambda: defective()))
