"""Needs of catalogs that an engine gets before its session starts, and passes on to Dagster."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from support.folders import MANIFEST, PROFILES, ProjectFolder
from support.plugins import install

from rivet_dagster.catalogs.filesystem import FilesystemCatalog
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.resources.engines import engine_resources
from rivet_dagster.definitions.resources.rivet_executor import rivet_executor
from rivet_dagster.engines.contract import Engine, EngineSession
from rivet_dagster.engines.pyspark import PySparkEngine
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.model.session_needs import SessionNeeds
from rivet_dagster.secrets.redaction import redacted


class LakeCatalog(FilesystemCatalog):
    """A catalog that needs settings and a package in Spark's session."""

    def session_needs(self, engine_type):
        if engine_type != "pyspark":
            return SessionNeeds()
        config = {f"spark.sql.catalog.{self.name}": "org.lake.Catalog", "spark.sql.extensions": "org.lake.Extensions"}
        return SessionNeeds(("org.lake:runtime:2",), ("/jars/lake.jar",), config)


class OtherCatalog(LakeCatalog):
    """A catalog that needs another value of the same setting."""

    def session_needs(self, engine_type):
        return SessionNeeds(("org.lake:runtime:1",), config={"spark.sql.extensions": "org.other.Extensions"})


@pytest.fixture
def project(tmp_path, monkeypatch):
    catalogs = {name: f"{__name__}:{name.title()}Catalog" for name in ("lake", "other")}
    module = {"lake": LakeCatalog, "other": OtherCatalog}
    install(monkeypatch, tmp_path / "site", catalogs=catalogs)
    monkeypatch.setattr(
        "rivet_dagster.catalogs.registry.plugin_class", lambda group, type_, base: module.get(type_, FilesystemCatalog)
    )

    def make(types: dict[str, str], reached: list[str], **options) -> ProjectFolder:
        declared = {name: {"type": type_, "path": name} for name, type_ in types.items()}
        spark = {**PROFILES["default"]["engines"][0], "catalogs": reached, **options}
        profile = {"default": {"catalogs": declared, "engines": [spark]}}
        return ProjectFolder(tmp_path / "project", {"rivet.yaml": MANIFEST, "profiles.yaml": profile})

    return make


def config(made: ProjectFolder) -> dict[str, str]:
    return Runtime(made.assembly, made.root).engine("spark").session_config()


def test_an_engine_gets_the_needs_of_its_catalogs(project):
    found = config(project({"a": "lake", "b": "lake", "unreached": "other"}, ["a", "b"]))
    assert found["spark.jars.packages"] == "org.lake:runtime:2"
    assert found["spark.jars"] == "/jars/lake.jar"
    assert found["spark.sql.extensions"] == "org.lake.Extensions"
    assert found["spark.sql.catalog.a"] == found["spark.sql.catalog.b"] == "org.lake.Catalog"
    assert "spark.sql.catalog.unreached" not in found


def test_the_users_own_settings_win(project):
    own = {"config": {"spark.sql.extensions": "mine"}, "packages": ["org.lake:runtime:3", "a:b:1"]}
    found = config(project({"a": "lake", "b": "other"}, ["a", "b"], **own))
    assert found["spark.sql.extensions"] == "mine,org.lake.Extensions,org.other.Extensions"
    assert found["spark.jars.packages"] == "org.lake:runtime:3,a:b:1"


def test_a_jar_of_the_engine_replaces_the_package_of_a_catalog(project):
    own = {"config": {"spark.jars": "/a/first-1.jar", "spark.jars.packages": "x:y:1"}, "jars": ["libs/runtime-9.jar"]}
    made = project({"a": "lake", "b": "other"}, ["a", "b"], **own)
    found = config(made)
    assert found["spark.jars.packages"] == "x:y:1"
    assert found["spark.jars"] == f"{made.root}/libs/runtime-9.jar,/a/first-1.jar,/jars/lake.jar"


def test_paths_of_jars_start_at_the_project(project, monkeypatch):
    monkeypatch.setenv("JARS", "libs")
    uris = ["hdfs://store/a.jar", "file:/b.jar"]
    made = project({"a": "filesystem"}, ["a"], jars=["${JARS}/x.jar", "/y.jar", *uris])
    assert config(made)["spark.jars"].split(",") == [f"{made.root}/libs/x.jar", "/y.jar", *uris]
    assert redacted(f"{made.root}/libs") == f"{made.root}/libs"
    (only,) = made.assembly.engines
    assert only.options["jars"][0] == "${JARS}/x.jar"


def test_conflicting_needs_of_catalogs_are_an_error(project):
    made = project({"a": "lake", "b": "other"}, ["a", "b"])
    with pytest.raises(RivetError, match=r"RVT-126 two catalogs of one engine want org\.lake:runtime to be"):
        config(made)


def test_a_server_gets_only_the_settings(project):
    made = project({"a": "lake"}, ["a"])
    profile = {"default": {"catalogs": {"a": {"type": "lake", "path": "a"}}, "engines": [
        {"name": "spark", "type": "pyspark", "catalogs": ["a"], "remote": "sc://spark:15002"}
    ]}}  # fmt: skip
    found = config(made.write({"profiles.yaml": profile}))
    assert found["spark.sql.catalog.a"] == "org.lake.Catalog"
    assert not [key for key in found if key.startswith("spark.jars")]


def test_the_dagster_resource_has_them_too(project, monkeypatch):
    made = project({"a": "lake"}, ["a"])
    made_of = []
    monkeypatch.setattr(
        "rivet_dagster.definitions.resources.engines.import_module",
        lambda name: SimpleNamespace(LazyPySparkResource=lambda **arguments: made_of.append((name, arguments))),
    )
    definitions = engine_resources(RivetProject.load(made.root))
    assert list(definitions) == ["rivet_engine_spark"]
    definitions["rivet_engine_spark"].resource_fn(None)
    ((module, arguments),) = made_of
    assert module == "dagster_pyspark"
    assert arguments["spark_config"]["spark.jars.packages"] == "org.lake:runtime:2"


def test_no_secret_of_a_catalog_is_given_to_the_command_line_of_spark():
    settings = {"uri": "jdbc:postgresql://db/x?user=ann&password=hunter22", "jdbc.password": "hunter22", "type": "jdbc"}
    needs = [SessionNeeds(config={f"spark.sql.catalog.lake.{key}": value for key, value in settings.items()})]
    engine = PySparkEngine(EngineSpec("spark", "pyspark"), needs=needs)
    assert engine.session_config().items() >= needs[0].config.items()
    assert "hunter22" not in str(engine.resource_arguments())
    assert engine.resource_arguments()["spark_config"]["spark.sql.catalog.lake.type"] == "jdbc"


def test_an_engine_that_connects_by_itself_has_no_resource(project, monkeypatch, tmp_path: Path):
    made = project({"a": "filesystem"}, ["a"])
    install(monkeypatch, tmp_path / "duck", engines={"duck": "support.duckdb_engine:DuckDBEngine"})
    profile = {"default": {"catalogs": {"a": {"type": "filesystem", "path": "a"}}, "engines": [
        {"name": "duck", "type": "duck", "catalogs": ["a"]}
    ], "default_engine": "duck"}}  # fmt: skip
    made.write({"profiles.yaml": profile})
    rivet = RivetProject.load(made.root)
    assert engine_resources(rivet) == {}
    assert rivet_executor(rivet).name == "multiprocess"


def test_a_missing_method_of_a_plugin_is_an_error_at_construction():
    class Half(EngineSession):
        def load(self, relation, projection=None): ...

    class Nothing(Engine): ...

    with pytest.raises(TypeError, match="abstract"):
        Half()
    with pytest.raises(TypeError, match="abstract"):
        Nothing()
