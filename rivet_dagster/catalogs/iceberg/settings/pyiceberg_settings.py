"""The properties with which PyIceberg opens an Iceberg catalog."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rivet_dagster.catalogs.iceberg.settings.options import HADOOP, JDBC, NESSIE, OWN_OPTIONS, uri, warehouse
from rivet_dagster.catalogs.iceberg.settings.sqlalchemy_url import sqlalchemy_url
from rivet_dagster.model import convert

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
    properties |= {key: place for key, place in places.items() if place is not None}
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
