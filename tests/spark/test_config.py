"""The settings that follow from an engine's declaration, before anything starts."""

import os
from pathlib import Path

import pytest
from support.fake_spark import fake_spark

from rivet_dagster.engines.pyspark import PySparkEngine
from rivet_dagster.engines.pyspark.launch import prepare
from rivet_dagster.errors import RivetError
from rivet_dagster.model.profile import EngineSpec


def config(**options: object) -> dict[str, str]:
    return PySparkEngine(EngineSpec("spark", "pyspark", options=options)).session_config()


def test_the_users_settings_override_all_others():
    assert config()["spark.master"] == "local[*]"
    found = config(
        app_name="nightly",
        packages=["a:b:1", "c:d:2"],
        config={"spark.ui.showConsoleProgress": True, "spark.sql.shuffle.partitions": 4, "spark.master": "yarn"},
    )
    assert found["spark.app.name"] == "nightly"
    assert found["spark.jars.packages"] == "a:b:1,c:d:2"
    assert found["spark.ui.showConsoleProgress"] == "true"
    assert found["spark.sql.shuffle.partitions"] == "4"
    assert found["spark.master"] == "yarn"


def test_a_server_has_its_own_master():
    found = config(remote="sc://spark:15002")
    assert found["spark.remote"] == "sc://spark:15002"
    assert "spark.master" not in found


def test_the_projects_own_server_starts_with_all_settings():
    found = config(remote="local", master="local[3]", packages=["a:b:1"], config={"spark.driver.memory": "3g"})
    for key, value in {
        "remote": "local", "master": "local[3]", "jars.packages": "a:b:1", "driver.memory": "3g"
    }.items():  # fmt: skip
        assert found[f"spark.{key}"] == value
    local = EngineSpec("spark", "pyspark", options={"remote": "local"})
    assert PySparkEngine.on_this_machine(local)
    assert PySparkEngine(local).session_config()["spark.master"] == "local[*]"
    assert PySparkEngine(local).server is not None
    # Other code gets no server that pyspark starts inside its process.
    assert "spark.remote" not in PySparkEngine(local).resource_arguments()["spark_config"]
    for options in ({}, {"master": "yarn"}, {"remote": "sc://x"}):
        assert PySparkEngine(EngineSpec("spark", "pyspark", options=options)).server is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"remote": "local[2]"}, "`remote` must be an address like sc://host:15002 or"),
        ({"remote": "sc://x", "spark_home": "/opt/spark"}, "`spark_home` has no effect with `remote`"),
        ({"remote": "sc://x", "idle_timeout": "1h"}, "`idle_timeout` has a meaning with `remote: local` alone"),
        ({"idle_timeout": "1h"}, "`idle_timeout` has a meaning with `remote: local` alone"),
        ({"remote": "local", "idle_timeout": "soon"}, "`idle_timeout` must be a duration like 30s"),
        ({"master": "local", "remote": "sc://x"}, "`remote` cannot stand beside `master`"),
        ({"remote": "sc://x", "packages": ["a:b:1"]}, "`packages` has no effect with `remote`"),
        ({"config": {"spark.remote": "sc://x"}, "jars": ["a.jar"]}, "`jars` has no effect with `remote`"),
        ({"jars": [3]}, "`jars` must be a list of texts, not a list"),
        ({"master": 3}, "`master` must be a text, not 3"),
        ({"config": ["a"]}, "`config` must be a mapping, not a list"),
        ({"config": {"spark.x": None}}, "`config` spark.x must be a text, a number or a boolean, not nothing"),
        ({"max_fusion_depth": 0}, "`max_fusion_depth` must be a whole number of at least 1, not 0"),
        ({"max_fusion_depth": "${DEPTH}"}, "`max_fusion_depth` must be a whole number of at least 1, not '${DEPTH}'"),
        ({"remote": "sc://x:1;token=hunter2"}, "`remote` must be an address like sc://host:15002"),
        ({"remote": "sc://[x/;token=hunter2"}, "`remote` must be an address like sc://host:15002"),
        ({"config": {"spark.remote": "sc://x/;hunter2"}}, "`config` must be an address like sc://host:15002"),
        ({"mastr": "local"}, "engine 'spark' has the unknown option 'mastr'; did you mean 'master'?"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(RivetError) as caught:
        config(**options)
    assert message in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert caught.value.exit_code == 10
    if PySparkEngine.check(options):
        assert not PySparkEngine.on_this_machine(EngineSpec("spark", "pyspark", options=options))


def test_values_that_are_not_known_yet_are_not_checked():
    assert PySparkEngine.check({"master": "${MASTER}", "app_name": "${NAME}"}) == {}
    assert PySparkEngine.check({"remote": "${REMOTE}", "master": "local", "packages": ["a:b:1"]}) == {}
    assert PySparkEngine.on_this_machine(EngineSpec("s", "pyspark", options={"master": "local[2]"}))
    for options in ({"master": "${MASTER}"}, {"master": "yarn"}, {"remote": "sc://x"}):
        assert not PySparkEngine.on_this_machine(EngineSpec("s", "pyspark", options=options))


def test_the_launcher_does_not_override_environment_variables_of_the_user(monkeypatch, tmp_path):
    java = "rivet_dagster.engines.pyspark.launch."
    monkeypatch.setattr(java + "find_java", lambda environ: "java")
    monkeypatch.setattr(java + "prepare_java", lambda found, environ: environ.update(JAVA_HOME=found))
    local = {"spark.master": "local[2]"}

    def prepared(config: dict[str, str], **environ: str) -> dict[str, str]:
        prepare(config, environ)
        return environ

    found = prepared(local)
    assert found["JAVA_HOME"] == "java"
    assert Path(found["LOG4J_CONFIGURATION_FILE"]).is_file()
    assert "PYSPARK_PYTHON" in found
    assert "PYSPARK_PYTHON" not in prepared({"spark.master": "yarn"})
    assert prepared(local, PYSPARK_PYTHON="python9")["PYSPARK_PYTHON"] == "python9"
    assert "JAVA_HOME" not in prepared(local, PYSPARK_GATEWAY_PORT="1")
    (tmp_path / "log4j2.xml").touch()
    for config, environ in [
        (local, {"SPARK_CONF_DIR": str(tmp_path)}),
        (local | {"spark.log.level": "INFO"}, {}),
        (local | {"spark.driver.extraJavaOptions": "-Dlog4j2.configurationFile=mine"}, {}),
    ]:
        assert "LOG4J_CONFIGURATION_FILE" not in prepared(config, **environ)
    assert prepared(local, LOG4J_CONFIGURATION_FILE="mine")["LOG4J_CONFIGURATION_FILE"] == "mine"


def refusal(monkeypatch: pytest.MonkeyPatch, spark: str = "4.1.4", **options: object) -> RivetError:
    """Return the error of a session that does not begin, before a JVM is looked for."""
    launch = "rivet_dagster.engines.pyspark.launch."
    monkeypatch.setattr(launch + "_running_application", lambda: None)
    monkeypatch.setattr(launch + "spark_version", lambda: spark)
    monkeypatch.setattr(launch + "prepare", lambda config, environ: None)
    monkeypatch.setattr(launch + "_build", exited)
    with pytest.raises(RivetError) as caught:
        PySparkEngine(EngineSpec("spark", "pyspark", options=options)).session()
    return caught.value


def exited(config: dict[str, str]) -> None:
    raise RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.")


def test_jars_and_packages_are_checked_before_spark_starts(monkeypatch, tmp_path):
    there = tmp_path / "there.jar"
    there.touch()
    lost = refusal(monkeypatch, jars=[str(there), str(tmp_path / "lost.jar"), "hdfs://store/other.jar"])
    assert lost.code == "RVT-108"
    assert f"the jar {tmp_path}/lost.jar does not exist" in str(lost)

    runtime = "org.apache.iceberg:iceberg-spark-runtime-{}:1.11.0"
    for spark, named, remedy in [
        ("4.1.4", "4.0_2.13", "Use org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"),
        ("4.0.2", "4.0_2.12", "Use org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0"),
        ("4.3.0", "4.1_2.13", "Install a Spark that has one: pip install 'rivet_dagster[iceberg]' or 'pyspark==4.1.*'"),
    ]:
        unfit = refusal(monkeypatch, spark, packages=[runtime.format(named)])
        assert unfit.code == "RVT-127"
        assert remedy in str(unfit)
        assert ("Iceberg has runtimes for Spark 4.0 and 4.1" in str(unfit)) == (spark == "4.3.0")
    file = tmp_path / "iceberg-spark-runtime-3.5_2.13-1.9.0.jar"
    file.touch()
    assert refusal(monkeypatch, config={"spark.jars": f"file:{file}"}).code == "RVT-127"


def test_another_distribution_is_checked_before_spark_starts_from_it(monkeypatch, tmp_path):
    monkeypatch.setenv("SPARK_HOME", "/before")
    monkeypatch.delenv("SPARK_CONNECT_MODE_ENABLED", raising=False)
    monkeypatch.setattr("rivet_dagster.engines.pyspark.spark_home.spark_version", lambda: "4.1.4")
    none = refusal(monkeypatch, spark_home=str(tmp_path))
    assert (none.code, f"there is no Spark in {tmp_path}" in str(none)) == ("RVT-108", True)
    other = refusal(monkeypatch, spark_home=str(fake_spark(tmp_path / "other", "4.0.1")))
    assert other.code == "RVT-128"
    assert "`spark_home` is Spark 4.0.1, and pyspark is 4.1.4" in str(other)
    assert os.environ["SPARK_HOME"] == "/before"
    same = fake_spark(tmp_path / "same", "4.1.2")
    assert refusal(monkeypatch, spark_home=str(same)).code == "RVT-502"  # where Spark would start
    assert os.environ["SPARK_HOME"] == str(same)


def test_packages_that_spark_may_not_have_fetched_are_named(monkeypatch):
    fitting = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.99.0"
    failed = refusal(monkeypatch, packages=[fitting, "a:b:1"])
    assert failed.code == "RVT-502"
    assert f"it was to fetch {fitting}, a:b:1: [JAVA_GATEWAY_EXITED]" in str(failed)
    assert "fetch" not in str(refusal(monkeypatch))


def test_an_unreachable_server_is_reported_at_once(monkeypatch):
    for name in ("http_proxy", "https_proxy", "grpc_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    engine = PySparkEngine(EngineSpec("far", "pyspark", options={"remote": "sc://localhost:1"}))
    monkeypatch.setattr("rivet_dagster.engines.pyspark.launch._running_application", lambda: None)
    with pytest.raises(RivetError, match="RVT-502 no Spark server answers at localhost:1"):
        engine.session()
