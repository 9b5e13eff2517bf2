"""Tables of a database, read at one of its snapshots."""

from rivet_dagster.catalogs.jdbc.catalog import JdbcCatalog

__all__ = ["JdbcCatalog"]
