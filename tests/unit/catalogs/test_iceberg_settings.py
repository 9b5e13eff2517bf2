"""What follows from the declaration of an Iceberg catalog: errors, Spark's settings, and PyIceberg's."""

import gc
import os
import shutil
import sys
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog
from sqlalchemy.engine import make_url
from support.folders import MANIFEST, PROFILES, ProjectFolder
from support.plugins import install

from rivet_dagster import compile_directory
from rivet_dagster.catalogs.contract import Catalog
from rivet_dagster.catalogs.filesystem import FilesystemCatalog
from rivet_dagster.catalogs.iceberg import IcebergCatalog
from rivet_dagster.catalogs.iceberg.settings.connection import (
    connect_catalog,
    packages,
    pyiceberg_properties,
    spark_needs,
)
from rivet_dagster.catalogs.iceberg.settings.options import KINDS, OPTIONS, wrong_options
from rivet_dagster.entry_points import refuse_wrong_options
from rivet_dagster.errors import RivetError
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.secrets.variables import mask_secrets

VALID = {
    "hadoop": {"warehouse": "lake"},
    "rest": {"uri": "https://catalog/api", "warehouse": "sales"},
    "jdbc": {"uri": "jdbc:postgresql://db/sales", "warehouse": "lake"},
    "hive": {"uri": "thrift://hive:9083"},
    "glue": {"warehouse": "s3://bucket/lake"},
    "nessie": {"uri": "http://nessie:19120/api/v2", "warehouse": "s3://bucket/lake", "ref": "main"},
}
PROJECT = Path("/project")


def declared(kind: str, **more: object) -> dict[str, object]:
    return {"catalog": kind, **VALID[kind], **more}


def spark(kind: str, **more: object) -> dict[str, str]:
    """Return Spark's settings of the catalog ``lake``, by their keys within it."""
    config = spark_needs("lake", declared(kind, **more), PROJECT).config
    return {key.removeprefix("spark.sql.catalog.lake").removeprefix("."): value for key, value in config.items()}


def properties(kind: str, **more: object) -> dict[str, str]:
    return pyiceberg_properties("lake", declared(kind, **more), PROJECT)


# Declarations


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_right_with_what_it_needs_alone(kind):
    assert wrong_options(declared(kind)) == {}
    assert wrong_options(declared(kind, publish="group", **{"default-namespace": "marts", "clients": 4})) == {}
    for key in VALID[kind].keys() - {"ref"}:
        options = declared(kind)
        del options[key]
        wrong = wrong_options(options)
        if (kind, key) == ("rest", "warehouse"):
            assert wrong == {}
        else:
            assert wrong == {key: f"is missing: a {kind} catalog needs it"}


@pytest.mark.parametrize(
    ("options", "key", "sentence"),
    [
        ({}, "catalog", "is missing: it is one of hadoop, rest, jdbc, hive, glue, nessie"),
        ({"catalog": 3}, "catalog", "must be one of hadoop"),
        ({"catalog": "nesie"}, "catalog", "not 'nesie'; did you mean 'nessie'?"),
        (declared("hadoop", warehouse=["a"]), "warehouse", "must be a text, not a list"),
        (
            declared("hadoop", warehouse="s3://bucket/lake"),
            "warehouse",
            "must be a folder of this machine, not 's3://bucket/lake': "
            "tables in an object store need another kind of catalog",
        ),
        (declared("hadoop", uri="http://x"), "uri", "has no meaning for a hadoop catalog"),
        (declared("rest", uri="catalog:8181"), "uri", "must be an address like https://host/catalog, not 'catalog"),
        (declared("jdbc", uri="jdbc:sqlite::memory:"), "uri", "jdbc:postgresql://host/database or jdbc:sqlite:file"),
        (declared("hive", uri="http://hive"), "uri", "must be an address like thrift://host:9083"),
        (declared("nessie", uri="http://nessie:19120"), "uri", "must be an address like https://host:19120/api/v2"),
        (declared("hive", publish="rum"), "publish", "must be group or run, not 'rum'"),
        (declared("hive", clients={"a": 1}), "clients", "must be a text, a number or a boolean, not a mapping"),
        (declared("hive", **{"catalog-impl": "org.X"}), "catalog-impl", "cannot stand beside `catalog`"),
    ],
)
def test_wrong_declarations(options, key, sentence):
    assert sentence in wrong_options(options)[key]


def test_no_password_stands_in_an_error_and_unknown_values_are_not_judged():
    wrong = wrong_options(declared("jdbc", uri="jdbc:mysql://db/x?user=ann&password=hunter22"))
    assert "hunter22" not in wrong["uri"]
    assert wrong_options({"catalog": "${KIND}", "publish": "${PUBLISH}"}) == {}
    assert wrong_options(declared("jdbc", uri="${URI}", publish="${PUBLISH}")) == {}


class Lake(Catalog):
    """A catalog that takes the options of Iceberg's."""

    options = OPTIONS
    other_options = True

    @classmethod
    def check(cls, options):
        return wrong_options(options)


def test_other_keys_are_allowed_but_misspelt_ones_are_refused_when_compiled_and_when_run(monkeypatch, tmp_path):
    install(monkeypatch, tmp_path / "site", catalogs={"lake": f"{__name__}:Lake"})
    found = {"lake": Lake, "filesystem": FilesystemCatalog}
    monkeypatch.setattr("rivet_dagster.catalogs.registry.plugin_class", lambda group, type_, base: found[type_])
    options = declared("hadoop", warehouse="lake", warehous="lake", **{"s3.region": "eu", "clients": 2})
    catalogs = {"ice": {"type": "lake", **options}}
    engine = PROFILES["default"]["engines"][0] | {"catalogs": ["ice"]}
    profile = {"default": {"catalogs": catalogs, "engines": [engine]}}
    made = ProjectFolder(tmp_path / "project", {"rivet.yaml": MANIFEST, "profiles.yaml": profile})
    wanted = "RVT-103", "catalog 'ice' has the unknown option 'warehous'; did you mean 'warehouse'?"
    assert [(error.code, error.message) for error in compile_directory(made.root).errors] == [wanted]
    with pytest.raises(RivetError) as caught:
        refuse_wrong_options(Lake, "catalog 'ice'", options)
    assert [(error.code, error.message) for error in caught.value.diagnostics] == [wanted]


# Spark


@pytest.mark.parametrize("kind", KINDS)
def test_spark_gets_the_kind_and_every_key_as_it_is(kind):
    settings = spark(kind, **{"default-namespace": "marts", "clients": 4, "s3.path-style-access": True})
    assert settings[""] == "org.apache.iceberg.spark.SparkCatalog"
    assert settings["type"] == kind
    assert settings["clients"] == "4"
    assert settings["s3.path-style-access"] == "true"
    assert settings["default-namespace"] == "marts"
    assert settings["cache-enabled"] == "false"
    assert settings.get("uri") == VALID[kind].get("uri")
    assert settings.get("ref") == VALID[kind].get("ref")
    assert not settings.keys() & {"catalog", "publish"}
    assert settings["spark.sql.extensions"].endswith(".IcebergSparkSessionExtensions")
    assert spark(kind, **{"cache-enabled": True})["cache-enabled"] == "true"


def test_places_start_at_the_project_unless_a_server_names_them():
    local = {kind: spark(kind, warehouse="lake")["warehouse"] for kind in KINDS}
    assert local == {kind: "lake" if kind == "rest" else "file:///project/lake" for kind in KINDS}
    for given, wanted in {"/abs/x": "file:///abs/x", "file:/abs/x": "file:///abs/x", "s3a://b/x": "s3a://b/x"}.items():
        assert spark("hadoop", warehouse=given)["warehouse"] == wanted
        assert properties("hadoop", warehouse=given)["warehouse"] == wanted
    assert "warehouse" not in spark("hive")
    assert spark("jdbc", uri="jdbc:sqlite:a/b.db")["uri"] == "jdbc:sqlite:/project/a/b.db"


def test_the_packages_of_each_kind():
    runtime = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
    aws = "org.apache.iceberg:iceberg-aws-bundle:1.12.0"
    wanted = {
        "hadoop": (runtime,),
        "rest": (runtime,),
        "jdbc": (runtime, "org.postgresql:postgresql:42.7.14"),
        "hive": (runtime,),
        "glue": (runtime, aws),
        "nessie": (runtime, aws),
    }
    assert {kind: packages(declared(kind), "4.1.4") for kind in KINDS} == wanted
    sqlite = declared("jdbc", uri="jdbc:sqlite:x.db")
    assert packages(sqlite, "4.1.4") == (runtime, "org.xerial:sqlite-jdbc:3.54.1.0")
    assert packages(declared("rest", **{"io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}), "4.1.4") == (runtime, aws)
    assert packages(declared("hadoop"), "4.0.1") == ("org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",)
    # A Spark that has no runtime is refused when it starts; unless the engine names one of its own.
    assert packages(declared("hadoop"), "4.9.0") == packages(declared("hadoop"), None) == (runtime,)


def test_hadoop_does_not_know_s3():
    s3 = "org.apache.iceberg.aws.s3.S3FileIO"
    for kind in ("jdbc", "hive", "nessie"):
        assert spark(kind, warehouse="s3://b/lake")["io-impl"] == s3
        assert spark(kind, warehouse="s3://b/lake", **{"io-impl": "org.Mine"})["io-impl"] == "org.Mine"
        assert "io-impl" not in spark(kind, warehouse="s3a://b/lake")


# PyIceberg


@pytest.mark.parametrize("kind", KINDS)
def test_pyiceberg_gets_all_but_what_is_spark_s_or_ours(kind):
    store = {"s3.endpoint": "http://store", "client.region": "eu", "io-impl": "org.X", "cache-enabled": True}
    given = properties(kind, **store, publish="group")
    assert given["py-io-impl"] == "pyiceberg.io.pyarrow.PyArrowFileIO"
    assert given["s3.endpoint"] == "http://store"
    assert given["client.region"] == "eu"
    assert not given.keys() & {"io-impl", "cache-enabled", "catalog", "publish"}
    types = {"rest": "rest", "jdbc": "sql", "hive": "hive", "glue": "glue"}
    assert given.get("type") == types.get(kind)
    assert given.get("warehouse") == spark(kind).get("warehouse")


def test_a_rest_catalog_has_its_login():
    login = {"token": "t", "credential": "id:pw", "scope": "all", "oauth2-server-uri": "https://login", "header.X": "y"}
    assert properties("rest", **login) == login | properties("rest")


@pytest.mark.parametrize(
    ("uri", "more", "wanted"),
    [
        (
            "jdbc:postgresql://db:5433/sales",
            {"jdbc.user": "ann", "jdbc.password": "p@s/s:w%d"},
            {"username": "ann", "password": "p@s/s:w%d", "host": "db", "port": 5433, "database": "sales"},
        ),
        (
            "jdbc:postgresql://db/sales?user=a%40b&password=x%2By&sslmode=require&currentSchema=ice&socketTimeout=9",
            {},
            {
                "username": "a@b",
                "password": "x+y",
                "host": "db",
                "query": {"sslmode": "require", "options": "-csearch_path=ice", "connect_timeout": "10"},
            },
        ),
        ("jdbc:postgresql:sales", {}, {"host": "localhost", "database": "sales", "username": None}),
    ],
)
def test_a_jdbc_url_becomes_one_of_sqlalchemy(uri, more, wanted):
    url = make_url(properties("jdbc", uri=uri, **more)["uri"])
    assert url.drivername == "postgresql+psycopg2"
    assert {key: getattr(url, key) for key in wanted} == wanted
    assert not [key for key in properties("jdbc", uri=uri, **more) if key.startswith("jdbc.")]


def test_nessie_is_reached_by_its_own_interface():
    login = {"authentication.type": "BEARER", "authentication.token": "tk"}
    given = properties("nessie", **login)
    assert given.items() >= {"uri": "http://nessie:19120/api/v2", "ref": "main", **login}.items()


def test_a_catalog_in_sqlite_is_opened(tmp_path):
    options = {"catalog": "jdbc", "uri": "jdbc:sqlite:catalog.db", "warehouse": "lake"}
    catalog = connect_catalog("lake", options, tmp_path)
    catalog.create_namespace("marts")
    again = load_catalog("lake", **pyiceberg_properties("lake", options, tmp_path))
    assert again.list_namespaces() == [("marts",)]
    assert (tmp_path / "catalog.db").is_file()


def test_connections_to_a_database_are_closed_with_their_catalog(tmp_path):
    options = {"catalog": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/catalog.db", "warehouse": str(tmp_path)}
    spec = CatalogSpec("lake", "iceberg", options)
    IcebergCatalog(spec, tmp_path).current("shop.orders")  # what creates the database's tables leaves a cycle
    gc.collect()
    gc.disable()
    try:
        for _ in range(5):
            IcebergCatalog(spec, tmp_path).current("shop.orders")
            opened = [os.path.realpath(path) for path in Path("/proc/self/fd").iterdir()]
            assert str(tmp_path / "catalog.db") not in opened
    finally:
        gc.enable()


def test_a_catalog_that_does_not_answer_is_an_error():
    with pytest.raises(RivetError, match=r"RVT-403 the Iceberg catalog 'lake' cannot be reached: .*Connection refused"):
        connect_catalog("lake", {"catalog": "rest", "uri": "http://127.0.0.1:1"}, PROJECT)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "module", "remedy"),
    [
        ("rest", "pyiceberg.catalog", r"pip install 'rivet_dagster\[iceberg\]'$"),
        ("jdbc", "sqlalchemy", r"pip install 'rivet_dagster\[iceberg\]'$"),
        ("hive", "thrift.protocol", r"pip install 'rivet_dagster\[iceberg\]' 'pyiceberg\[hive\]'$"),
        ("glue", "boto3", r"pip install 'rivet_dagster\[iceberg\]' 'pyiceberg\[glue\]'$"),
    ],
)
def test_a_missing_package_is_named(kind, module, remedy, monkeypatch):
    own = "rivet_dagster.catalogs.iceberg.sql_catalog"
    for loaded in (own, "pyiceberg.catalog.sql", "pyiceberg.catalog.hive", "pyiceberg.catalog.glue"):
        monkeypatch.delitem(sys.modules, loaded, raising=False)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(RivetError, match=rf"RVT-123 the Iceberg catalog 'lake' needs .*\n    {remedy}"):
        connect_catalog("lake", declared(kind), PROJECT)


def test_a_doctor_without_pyiceberg_names_the_extra(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyiceberg"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyiceberg", None)
    catalog = IcebergCatalog(CatalogSpec("lake", "iceberg", declared("hadoop")), PROJECT)
    (finding,) = catalog.examine(publishes=True)
    assert finding.code == "RVT-123"
    assert "the Iceberg catalog 'lake' needs a package that is not installed" in finding.text
    assert finding.remedy == "pip install 'rivet_dagster[iceberg]'"


def test_a_doctor_tries_to_write_a_warehouse_of_folders(tmp_path):
    def examined(folder: str, publishes: bool = True) -> list[tuple[str | None, str]]:
        catalog = IcebergCatalog(CatalogSpec("lake", "iceberg", declared("hadoop", warehouse=folder)), tmp_path)
        return [(finding.code, finding.text.partition(",")[0]) for finding in catalog.examine(publishes)]

    (tmp_path / "file").touch()
    assert examined("new/lake") == examined(".") == [(None, "answers")]
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    ((code, text),) = examined("file/lake")
    assert code == "RVT-404"
    assert "Not a directory" in text
    assert examined("/proc/lake")[0][0] == "RVT-404"
    assert examined("file/lake", publishes=False) == [(None, "answers")]


def test_the_plan_is_the_same_whatever_spark_is_installed(tmp_path, monkeypatch):
    lake = {"type": "iceberg", "catalog": "hadoop", "warehouse": "lake"}
    profile = {"catalogs": {"lake": lake}, "engines": [{"name": "spark", "type": "pyspark", "catalogs": ["lake"]}]}
    files = {"rivet.yaml": MANIFEST, "profiles.yaml": {"default": profile}, "joints/one.sql": "SELECT 1 AS id"}
    root = ProjectFolder(tmp_path / "project", files).root
    plans = set()
    for version in (None, "3.5.9", "4.1.4", "4.3.0"):
        for module in ("catalogs.iceberg.settings.connection", "engines.pyspark.spark_home"):
            monkeypatch.setattr(f"rivet_dagster.{module}.spark_version", lambda version=version: version)
        shutil.rmtree(root / ".rivet", ignore_errors=True)  # with the plan of the last time
        compiled = compile_directory(root)
        assert compiled.success
        plans.add(compiled.to_json())
    assert len(plans) == 1


# Secrets


def test_every_secret_of_iceberg_is_masked_and_nothing_else():
    secrets = """
        token credential jdbc.password s3.secret-access-key s3.access-key-id s3.session-token header.Authorization
        header.X-Api-Key authentication.token authentication.oauth2.client-secret gcs.oauth2.token adls.sas-token
        client.secret-access-key glue.secret-access-key hadoop.fs.s3a.secret.key
    """.split()
    plain = """
        uri warehouse ref jdbc.user scope audience oauth2-server-uri s3.endpoint s3.region client.region
        client.credentials-provider authentication.type token-expires-in-ms token-refresh-enabled
        token-exchange-enabled rest.authorization-url jdbc.schema-version table-default.write.format.default
    """.split()
    shown = mask_secrets(dict.fromkeys([*secrets, *plain], "visible"))
    assert [key for key, value in shown.items() if value == "***"] == secrets
    url = "jdbc:postgresql://db/x?user=ann&password=hunter22"
    assert mask_secrets({"uri": url}) == {"uri": url.replace("hunter22", "***")}
