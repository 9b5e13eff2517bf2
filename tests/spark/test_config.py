"""The settings that follow from an engine's declaration, before anything starts."""

from pathlib import Path

import pytest

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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"master": "local", "remote": "sc://x"}, "`remote` cannot stand beside `master`"),
        ({"remote": "sc://x", "packages": ["a:b:1"]}, "`packages` has no effect with `remote`"),
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
        assert not PySparkEngine.embedded(EngineSpec("spark", "pyspark", options=options))


def test_values_that_are_not_known_yet_are_not_checked():
    assert PySparkEngine.check({"master": "${MASTER}", "app_name": "${NAME}"}) == {}
    assert PySparkEngine.embedded(EngineSpec("s", "pyspark", options={"master": "local[2]"}))
    for options in ({"master": "${MASTER}"}, {"master": "yarn"}, {"remote": "sc://x"}):
        assert not PySparkEngine.embedded(EngineSpec("s", "pyspark", options=options))


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


def test_an_unreachable_server_is_reported_at_once(monkeypatch):
    for name in ("http_proxy", "https_proxy", "grpc_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    engine = PySparkEngine(EngineSpec("far", "pyspark", options={"remote": "sc://localhost:1"}))
    monkeypatch.setattr("rivet_dagster.engines.pyspark.launch._running_application", lambda: None)
    with pytest.raises(RivetError, match="RVT-502 no Spark server answers at localhost:1"):
        engine.session()
