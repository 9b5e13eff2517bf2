"""What is refused on Sail before it starts, and what the client does for it, without a server."""

from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from support.folders import ProjectFolder, sink, source

from rivet_dagster import compile_directory
from rivet_dagster.cli.main import main
from rivet_dagster.engines.chosen import on_one_engine
from rivet_dagster.engines.pyspark import PySparkEngine, SailEngine
from rivet_dagster.engines.pyspark.sail.examining import examine_sail
from rivet_dagster.engines.pyspark.sail.messages import sail_error
from rivet_dagster.engines.pyspark.server import sail_version
from rivet_dagster.engines.pyspark.server.sail_settings import server_variables
from rivet_dagster.engines.registry import declared_class, open_engine
from rivet_dagster.errors import RivetError
from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.model.relations import ArrowRows, Files
from rivet_dagster.project.load import read_project


def spec(**options) -> EngineSpec:
    return EngineSpec("spark", "pyspark", options={"remote": "sail", **options})


def project(root: Path, files, engine=None) -> ProjectFolder:
    profile = {
        "catalogs": {
            "raw": {"type": "filesystem", "path": "data", "format": "csv"},
            "lake": {"type": "filesystem", "path": "lake"},
            "store": {"type": "filesystem", "path": "s3a://bucket/raw"},
            "ice": {"type": "iceberg", "catalog": "hadoop", "warehouse": "ice", "default-namespace": "shop"},
        },
        "engines": [
            {
                "name": "spark",
                "type": "pyspark",
                "catalogs": ["raw", "lake", "store", "ice"],
                **({"remote": "sail"} if engine is None else engine),
            }
        ],
    }
    orders = {"data/orders.csv": "id,v\n1,2\n", "sources/orders.yaml": source("orders.csv", "id INT, v INT")}
    return ProjectFolder(root, {"profiles.yaml": {"default": profile}, **orders, **files})


def errors(root: Path, **options) -> list[tuple[str, str]]:
    return [(error.code, error.message) for error in compile_directory(root, **options).errors]


def test_the_class_follows_from_the_options():
    assert declared_class(spec()) is SailEngine
    assert declared_class(EngineSpec("s", "pyspark", options={"config": {"spark.remote": "sail"}})) is SailEngine
    for options in ({}, {"remote": "local"}, {"remote": "sc://host"}):
        assert declared_class(EngineSpec("s", "pyspark", options=options)) is PySparkEngine
    assert (SailEngine.reads, SailEngine.writes) == (frozenset({Files, ArrowRows}), frozenset({Files}))
    assert PySparkEngine.sql_support(spec()) == SailEngine.sql_support(spec()) == "sail"
    assert PySparkEngine.sql_support(EngineSpec("s", "pyspark")) is None


def test_a_remote_that_only_the_environment_knows_is_refused(tmp_path):
    declared = EngineSpec("s", "pyspark", options={"remote": "${WHERE}"})
    with pytest.raises(RivetError, match=r"RVT-104 .*depends on the value of a variable"):
        open_engine(declared, tmp_path, {"WHERE": "sail"})
    assert open_engine(declared, tmp_path, {"WHERE": "local"}).name == "s"


@pytest.mark.parametrize(
    "option", ["master", "packages", "jars", "spark_home", "class_archive", "app_name"], ids=lambda option: option
)
def test_options_of_a_jvm_are_refused(option):
    value = ["x"] if option in ("packages", "jars") else "x"
    with pytest.raises(RivetError, match=f"RVT-104 engine 'spark': `{option}` has no effect on Sail"):
        SailEngine(spec(**{option: value}))


@pytest.mark.parametrize(
    ("setting", "value"),
    [("spark.sql.shuffle.partitions", 4), ("spark.sql.ansi.enabled", False), ("spark.driver.memory", "2g")],
)
def test_settings_without_effect_are_refused(setting, value):
    with pytest.raises(RivetError, match=f"RVT-104 engine 'spark': `config` {setting} has no effect on Sail"):
        SailEngine(spec(config={setting: value}))


def test_settings_that_have_effect_are_passed_on():
    taken = {"spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": True, "sail.execution.batch_size": 100}
    engine = SailEngine(spec(config=taken, idle_timeout="5m"))
    assert engine.server.settings == {"sail.execution.batch_size": "100"}
    assert engine.server.idle_seconds == 300
    assert server_variables(engine.server.settings)["SAIL_EXECUTION__BATCH_SIZE"] == "100"
    assert engine.jvm() is None
    assert engine.server.files.folder.parts[-2:] == (".rivet", "sail")


def test_what_sail_cannot_do_is_refused_by_the_compiler(tmp_path):
    files = {
        "sources/events.yaml": {"type": "source", "catalog": "raw", "table": "events.json"},
        "sources/old.yaml": {"type": "source", "catalog": "raw", "table": "old.orc"},
        "sources/far.yaml": {"type": "source", "catalog": "store", "table": "far.csv"},
        "sources/ice.yaml": {"type": "source", "catalog": "ice", "table": "ice"},
        "sources/guessed.yaml": source("guessed.csv", "a INT", options={"inferSchema": True}),
        "sources/dates.yaml": source("dates.csv", "a DATE", options={"dateFormat": "dd.MM.yyyy"}),
        "sources/raw.yaml": source("raw.csv", "a BINARY"),
        "joints/both.sql": "-- rivet:options: {config: {spark.sql.shuffle.partitions: 3}}\nSELECT 1 AS a",
        "sinks/into_ice.yaml": {**sink("into_ice", "orders"), "catalog": "ice"},
        "sinks/split.yaml": sink("split", "orders", options={"maxRecordsPerFile": 10}),
    }
    found = errors(project(tmp_path, files).root)
    for code, part in [
        ("RVT-328", "reads no JSON files as Spark does"),
        ("RVT-328", "reads no ORC files as Spark does"),
        ("RVT-328", "has only files of this machine, and none of a store"),
        ("RVT-328", "reads no tables of the catalog 'ice' (iceberg)"),
        ("RVT-328", "does not take the option `inferSchema`"),
        ("RVT-328", "does not take the option `dateFormat`"),
        ("RVT-328", "no column of the type binary"),
        ("RVT-204", "`spark.sql.shuffle.partitions` has no effect on Sail"),
        ("RVT-328", "writes no tables of the catalog 'ice' (iceberg)"),
        ("RVT-328", "does not take the option `maxRecordsPerFile` of a sink"),
    ]:
        assert any(known == code and part in message for known, message in found), (part, found)


def test_errors_as_data_are_refused(tmp_path):
    ((code, message),) = errors(project(tmp_path, {"sinks/a.yaml": sink("a", "orders", on_error="quarantine")}).root)
    assert (code, "cannot separate the errors of rows" in message) == ("RVT-329", True)


def test_what_sail_can_do_compiles(tmp_path):
    assert (
        errors(project(tmp_path, {"sinks/out.yaml": sink("out", "orders", options={"compression": "zstd"})}).root) == []
    )


def test_all_joints_are_on_the_engine_of_a_command(tmp_path):
    config = {
        "spark.sql.shuffle.partitions": 3,
        "spark.sql.session.timeZone": "Asia/Tokyo",
        "spark.driver.memory": "1g",
    }
    made = project(tmp_path, {"joints/a.sql": "SELECT id FROM orders"}, {"master": "local[2]", "config": config})
    chosen = on_one_engine(read_project(made.root, None, None, ()), "sail")
    (engine,) = chosen.profile.engines
    assert (engine.name, engine.options["remote"]) == ("sail", "sail")
    assert engine.options["config"] == {"spark.sql.session.timeZone": "Asia/Tokyo"}
    assert {joint.engine for joint in chosen.joints} == {"sail"}
    assert errors(made.root, engine="sail") == []
    with pytest.raises(RivetError, match=r"RVT-308 .*has no engine 'sial'"):
        compile_directory(made.root, engine="sial")


def test_settings_that_rows_depend_on_are_refused_for_the_engine_of_a_command(tmp_path):
    made = project(tmp_path, {}, {"config": {"spark.sql.ansi.enabled": False}})
    assert any(
        code == "RVT-104" and "spark.sql.ansi.enabled" in text for code, text in errors(made.root, engine="sail")
    )


@pytest.mark.parametrize(("installed", "told"), [(None, "pysail is not installed"), ("0.6.9", "pysail is 0.6.9, and")])
def test_a_missing_or_other_sail_is_named_with_the_remedy(tmp_path, monkeypatch, capsys, installed, told):
    def version(name: str) -> str:
        if installed is None:
            raise PackageNotFoundError(name)
        return installed

    monkeypatch.setattr(sail_version, "version", version)
    made = project(tmp_path, {})
    with pytest.raises(RivetError, match=f"RVT-123 {told}") as caught:
        open_engine(spec(), made.root, {}).session()
    assert caught.value.diagnostics[0].remediation == "pip install 'rivet_dagster[sail]'"
    assert main(["-p", str(made.root), "spark", "start"]) != 0
    assert told in capsys.readouterr().err


def test_doctor_says_that_others_can_use_the_server(tmp_path):
    engine = open_engine(spec(), tmp_path, {})
    texts = [finding.text for finding in examine_sail("engine spark", engine.server)]
    assert any("without a JVM; its server starts with the first run" in text for text in texts)
    assert any("asks for no token" in text for text in texts)


def test_an_engine_is_declared_from_the_command_line(tmp_path, capsys):
    made = project(tmp_path, {})
    create = ["-p", str(made.root), "engine", "create", "fast", "--type", "pyspark", "--option", "remote=sail"]
    assert main(create) == 0, capsys.readouterr().err
    assert main([*create[:4], "slow", "--type", "pyspark", "--option", "remote=sail", "--option", "master=local"]) != 0
    assert "`master` has no effect on Sail" in capsys.readouterr().err


def test_status_of_a_server_that_does_not_run(tmp_path, capsys):
    made = project(tmp_path, {})
    assert main(["-p", str(made.root), "spark", "status"]) == 0
    assert capsys.readouterr().out == "engine spark: no Sail server runs\n"


def test_a_query_that_sail_cannot_plan_is_refused():
    error = sail_error(AnalysisException('No field named "#134". Did you mean \'"#140"\'?'))
    assert error is not None
    assert error.code == "RVT-329"
    assert "cannot plan this query" in str(error)
    assert "engine with Spark" in str(error)
