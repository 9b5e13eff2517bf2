"""How an Iceberg catalog is reached: opened with PyIceberg, and by the settings and packages of a Spark session."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from rivet_dagster.catalogs.iceberg.nessie.server import NessieNotFoundError, NessieTooOldError
from rivet_dagster.catalogs.iceberg.reaching import first_line
from rivet_dagster.catalogs.iceberg.settings.options import (
    GLUE,
    HADOOP,
    HIVE,
    JDBC,
    NESSIE,
    OWN_OPTIONS,
    SQLITE,
    is_on_s3,
    uri,
    warehouse,
)
from rivet_dagster.engines.pyspark.jars import GROUP, iceberg_version, runtime_package
from rivet_dagster.engines.pyspark.spark_home import spark_version
from rivet_dagster.errors import RivetError
from rivet_dagster.model import convert
from rivet_dagster.model.session_needs import SessionNeeds

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


_REMEDY = "Correct the catalog's options, or start what answers at its `uri`."
_REMEDIES = {
    NessieTooOldError: "Update the Nessie server, or correct the catalog's `uri`, which ends with /api/v2.",
    NessieNotFoundError: "Correct the catalog's `ref`, or make that branch on the server.",
}

_EXTRA = "pip install 'rivet_dagster[iceberg]'"


def connect_catalog(name: str, options: Mapping[str, Any], root: Path) -> Catalog:
    """Return PyIceberg's catalog of that ``name``; ``options`` are valid, with ``${VAR}`` expanded.

    A REST catalog asks its server for settings here, a Nessie catalog for its branch; a JDBC catalog looks for its
    tables in the database, and makes them where there are none; the others contact nothing yet. PyIceberg's own
    configuration files are not used, since Spark would not know of them. Raises RVT-123 if a package is missing,
    RVT-403 if the catalog cannot be reached.
    """
    kind, properties = options["catalog"], pyiceberg_properties(name, options, root)
    try:
        from pyiceberg.catalog import AVAILABLE_CATALOGS, CatalogType
        from pyiceberg.exceptions import NotInstalledError
    except ImportError as error:
        raise _missing(name, kind, error) from error
    logging.getLogger("pyiceberg.catalog.sql").addFilter(_tells_more_than_old_tables)
    try:
        if kind == HADOOP:
            from rivet_dagster.catalogs.iceberg.hadoop.hadoop_catalog import HadoopCatalog

            return HadoopCatalog(name, **properties)
        if kind == NESSIE:
            from rivet_dagster.catalogs.iceberg.nessie.nessie_catalog import NessieCatalog

            nessie = NessieCatalog(name, **properties)
            nessie.server.require_version()
            nessie.server.reference(nessie.ref)
            return nessie
        type_ = CatalogType(properties["type"])
        if type_ == CatalogType.REST:
            from rivet_dagster.catalogs.iceberg.rest_catalog import PatientRestCatalog

            return PatientRestCatalog(name, **properties)
        if type_ == CatalogType.SQL:
            from rivet_dagster.catalogs.iceberg.sql_catalog import DatabaseCatalog

            return DatabaseCatalog(name, **properties)
        return AVAILABLE_CATALOGS[type_](name, properties)
    except (ImportError, NotInstalledError) as error:
        raise _missing(name, kind, error) from error
    except Exception as error:  # of any client: of HTTP, of a database, of Thrift or of AWS
        message = f"the Iceberg catalog '{name}' cannot be reached: {first_line(error)}"
        remedy = next((text for kind, text in _REMEDIES.items() if isinstance(error, kind)), _REMEDY)
        raise RivetError("RVT-403", message, remediation=remedy) from error


def _missing(name: str, kind: str, error: Exception) -> RivetError:
    further = f" 'pyiceberg[{kind}]'" if kind in (HIVE, GLUE) else ""
    message = f"the Iceberg catalog '{name}' needs a package that is not installed: {first_line(error)}"
    return RivetError("RVT-123", message, remediation=f"{_EXTRA}{further}")


def _tells_more_than_old_tables(record: logging.LogRecord) -> bool:
    """Return whether a record is other than the note that tables, as Java makes them, have no column for views."""
    return "v0 schema" not in record.getMessage()


_TYPES = {JDBC: "sql"}
"""PyIceberg's types of catalog, where they have other names."""

_OF_JAVA = frozenset({"io-impl", "cache-enabled", "type"})
"""Keys that have no meaning, or another one, for PyIceberg."""


def pyiceberg_properties(name: str, options: Mapping[str, Any], root: Path) -> dict[str, str]:
    """Return the properties of the catalog ``name`` for ``pyiceberg.catalog``; ``options`` are valid.

    Those of a Hadoop or Nessie catalog, for which PyIceberg has no type, are without one.

    >>> options = {"catalog": "rest", "uri": "https://catalog", "warehouse": "sales", "s3.region": "eu-1"}
    >>> for entry in pyiceberg_properties("lake", options, Path("/project")).items():
    ...     print(*entry)
    py-io-impl pyiceberg.io.pyarrow.PyArrowFileIO
    s3.region eu-1
    type rest
    uri https://catalog
    warehouse sales
    """
    kind = options["catalog"]
    left_out = OWN_OPTIONS | _OF_JAVA
    texts = {key: convert.setting(value) for key, value in options.items() if key not in left_out}
    properties = {"py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO", **texts}
    if kind not in (HADOOP, NESSIE):
        properties["type"] = _TYPES.get(kind, kind)
    places = {"warehouse": warehouse(options, root), "uri": uri(options, root)}
    properties |= {key: location for key, location in places.items() if location is not None}
    if kind == JDBC:
        properties = _sql(properties)
    return dict(sorted(properties.items()))


def _sql(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a JDBC catalog for SQLAlchemy."""
    others = {key: value for key, value in properties.items() if not key.startswith("jdbc.")}
    of_driver = {key.removeprefix("jdbc."): value for key, value in properties.items() if key.startswith("jdbc.")}
    if "init-catalog-tables" in of_driver:
        others["init_catalog_tables"] = of_driver["init-catalog-tables"]
    return others | {"uri": sqlalchemy_url(properties["uri"], of_driver)}


_PARAMETERS = {
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "connectTimeout": "connect_timeout",
    "ApplicationName": "application_name",
}
"""Parameters of PostgreSQL's JDBC driver, by their names in libpq; others are about that driver alone."""

_SECONDS = "10"
"""The seconds that a connection may take unless the options say; libpq by itself waits for minutes."""


def sqlalchemy_url(jdbc: str, properties: Mapping[str, str]) -> str:
    """Return SQLAlchemy's URL of a JDBC URL of PostgreSQL or SQLite; ``properties`` are the driver's, such as ``user``.

    >>> sqlalchemy_url("jdbc:postgresql://db:5433/sales?sslmode=require", {"user": "ann", "password": "a@b/c"})
    'postgresql+psycopg2://ann:a%40b%2Fc@db:5433/sales?connect_timeout=10&sslmode=require'
    >>> sqlalchemy_url("jdbc:sqlite:/lake/catalog.db?busy_timeout=9", {})
    'sqlite:////lake/catalog.db'
    """
    if jdbc.startswith(SQLITE):
        return f"sqlite:///{jdbc.removeprefix(SQLITE).partition('?')[0]}"
    # Without a host JDBC means this machine's port, libpq its socket.
    address = urlsplit(jdbc.removeprefix("jdbc:"))
    host, database = address.netloc or "localhost", address.path.removeprefix("/")
    given = {**properties, **dict(parse_qsl(address.query))}
    login = ":".join(quote(given[key], safe="") for key in ("user", "password") if key in given)
    query = {"connect_timeout": _SECONDS} | {
        ours: given[theirs] for theirs, ours in _PARAMETERS.items() if theirs in given
    }
    if "currentSchema" in given:
        query["options"] = f"-csearch_path={given['currentSchema']}"
    return f"postgresql+psycopg2://{login}{'@' if login else ''}{host}/{database}?{urlencode(query)}"


EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"

_DRIVERS = {"jdbc:postgresql:": "org.postgresql:postgresql:42.7.14", SQLITE: "org.xerial:sqlite-jdbc:3.54.1.0"}


def spark_needs(name: str, options: Mapping[str, Any], root: Path) -> SessionNeeds:
    """Return the settings and packages of the catalog ``name``, its paths relative to ``root``; ``options`` are valid.

    >>> needs = spark_needs("lake", {"catalog": "hadoop", "warehouse": "lake", "clients": 4}, Path("/project"))
    >>> for setting in needs.config.items():
    ...     print(*setting)
    spark.sql.catalog.lake org.apache.iceberg.spark.SparkCatalog
    spark.sql.catalog.lake.cache-enabled false
    spark.sql.catalog.lake.clients 4
    spark.sql.catalog.lake.type hadoop
    spark.sql.catalog.lake.warehouse file:///project/lake
    spark.sql.extensions org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions
    """
    catalog = f"spark.sql.catalog.{name}"
    settings = {f"{catalog}.{key}": value for key, value in sorted(_settings(options, root).items())}
    config = {catalog: "org.apache.iceberg.spark.SparkCatalog", **settings, "spark.sql.extensions": EXTENSIONS}
    return SessionNeeds(packages(options, spark_version()), config=config)


def packages(options: Mapping[str, Any], spark: str | None) -> tuple[str, ...]:
    """Return the Maven coordinates of what a catalog needs on a version of Spark.

    >>> packages({"catalog": "glue", "warehouse": "s3://lake"}, "4.0.1")
    ('org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0', 'org.apache.iceberg:iceberg-aws-bundle:1.11.0')
    """
    aws = (f"{GROUP}:iceberg-aws-bundle:{iceberg_version(spark)}",) if is_on_s3(options) else ()
    address = options.get("uri", "")
    drivers = tuple(driver for prefix, driver in _DRIVERS.items() if address.startswith(prefix))
    return (runtime_package(spark), *aws, *drivers)


def _settings(options: Mapping[str, Any], root: Path) -> dict[str, str]:
    # Other processes commit, too: a cached table would hide their snapshots.
    settings = {"cache-enabled": "false"}
    if options["catalog"] in (JDBC, HIVE, NESSIE) and str(options.get("warehouse")).startswith("s3://"):
        settings["io-impl"] = "org.apache.iceberg.aws.s3.S3FileIO"  # Hadoop's own, the default, knows no s3://
    settings |= {key: convert.setting(value) for key, value in options.items() if key not in OWN_OPTIONS}
    places = {"warehouse": warehouse(options, root), "uri": uri(options, root)}
    return (
        settings
        | {"type": options["catalog"]}
        | {key: location for key, location in places.items() if location is not None}
    )
