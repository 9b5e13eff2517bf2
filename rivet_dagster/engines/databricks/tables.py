"""Tables that an engine ``databricks`` does not read, or write: found by what a joint declares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from rivet_dagster.engines.duckdb.writing import CODECS
from rivet_dagster.model.plugins import Wrong
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.model.relations import CatalogTable, Relation

_CODE = "RVT-328"
_OTHER = "Run the joint on another engine, which reads what the joints on Databricks have stored."
_CONNECT = "Use an engine `pyspark` with `remote: sc://...`, whose sessions have the settings of that catalog."
_OWN = "spark_catalog"
"""The catalog in the names of tables of a session's own catalog."""


def refused_on_cluster(catalog: CatalogSpec) -> Iterator[Wrong]:
    """Yield why a cluster cannot read or write the tables of ``catalog``.

    >>> [wrong.message for wrong in refused_on_cluster(CatalogSpec("lake", "iceberg"))]
    ["does not reach the catalog 'lake' (iceberg): its cluster has the tables of its own catalog, and files"]
    """
    if catalog.type not in ("spark", "filesystem"):
        message = f"does not reach the catalog '{catalog.name}' ({catalog.type})"
        yield Wrong(_CODE, "catalog", f"{message}: its cluster has the tables of its own catalog, and files", _CONNECT)


def refused_on_warehouse(catalog: CatalogSpec, own: Mapping[str, Any], is_written: bool) -> Iterator[Wrong]:
    """Yield why a SQL warehouse cannot read the tables of ``catalog``, or why its rows cannot be stored there.

    >>> lake = CatalogSpec("lake", "filesystem", {"path": "lake"})
    >>> [wrong.message for wrong in refused_on_warehouse(lake, {}, is_written=False)]
    ["reads no tables of the catalog 'lake' (filesystem): a warehouse has those of its own catalog alone"]
    """
    if not is_written:
        if catalog.type != "spark":
            message = f"reads no tables of the catalog '{catalog.name}' ({catalog.type})"
            yield Wrong(_CODE, "catalog", f"{message}: a warehouse has those of its own catalog alone", _OTHER)
        return
    path = str(catalog.options.get("path", ""))
    if catalog.type != "filesystem" or ("://" in path and not path.startswith("file:")):
        message = f"stores nothing in the catalog '{catalog.name}' ({catalog.type})"
        remedy = "Store it in a catalog `filesystem` with a folder, from which another engine publishes it elsewhere."
        yield Wrong(_CODE, "catalog", f"{message}: its rows become Parquet files of this machine", remedy)
    for key, value in own.items():
        if key.lower() != "compression" or str(value).lower() not in CODECS:
            message = f"does not take the option `{key}: {value}` of a sink"
            yield Wrong(_CODE, f"options.{key}", message, f"`compression` is one of {', '.join(CODECS)}.")


def in_catalog(relation: Relation, catalog: str) -> Relation:
    """Return a table of the session's own catalog as one of ``catalog``, any other relation as it is.

    >>> in_catalog(CatalogTable(("spark_catalog", "sales", "orders")), "main").identifier
    ('main', 'sales', 'orders')
    """
    if isinstance(relation, CatalogTable) and relation.identifier[0] == _OWN:
        return replace(relation, identifier=(catalog, *relation.identifier[1:]))
    return relation
