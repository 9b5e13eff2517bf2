"""Opening an Iceberg catalog with PyIceberg."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.iceberg.nessie.server import NessieNotFoundError, NessieTooOldError
from rivet_dagster.catalogs.iceberg.reaching import first_line
from rivet_dagster.catalogs.iceberg.settings.options import GLUE, HADOOP, HIVE, NESSIE
from rivet_dagster.catalogs.iceberg.settings.pyiceberg_settings import pyiceberg_properties
from rivet_dagster.errors import RivetError

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_REMEDY = "Correct the catalog's options, or start what answers at its `uri`."
_REMEDIES = {
    NessieTooOldError: "Update the Nessie server, or correct the catalog's `uri`, which ends with /api/v2.",
    NessieNotFoundError: "Correct the catalog's `ref`, or make that branch on the server.",
}

_EXTRA = "pip install 'rivet_dagster[iceberg]'"


def connected(name: str, options: Mapping[str, Any], root: Path) -> Catalog:
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
