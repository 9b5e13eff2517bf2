"""PostgreSQL as the catalog knows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rivet_dagster.catalogs.jdbc.options import wrong_source, wrong_target
from rivet_dagster.catalogs.jdbc.postgres.columns import wrong_casts
from rivet_dagster.catalogs.jdbc.postgres.connection import PostgresDatabase
from rivet_dagster.catalogs.jdbc.postgres.examining import examine
from rivet_dagster.catalogs.jdbc.postgres.kind import PostgresKind
from rivet_dagster.catalogs.jdbc.postgres.reading import DRIVER, PACKAGE, PostgresReader, PostgresSnapshot
from rivet_dagster.catalogs.jdbc.product import Product
from rivet_dagster.model.plugins import Wrong

_SCHEMA = "public"


def _wrong_source(options: Mapping[str, Any], own: Mapping[str, Any]) -> Iterator[Wrong]:
    yield from wrong_source(own)
    yield from wrong_casts(own.get("casts"))


POSTGRESQL = Product(
    name="PostgreSQL",
    driver=DRIVER,
    package=PACKAGE,
    kind=PostgresKind(),
    database=PostgresDatabase,
    schema=lambda options: str(options.get("schema", _SCHEMA)),
    reader=PostgresReader,  # type: ignore[arg-type]
    snapshot=lambda reader, tables, connections, _: PostgresSnapshot(reader, tables, connections),  # type: ignore[arg-type]
    examine=examine,  # type: ignore[arg-type]
    wrong_source=_wrong_source,
    wrong_target=lambda _, own: wrong_target(own),
    refuses=lambda _: None,
)
