"""A directory of tables: files to read, and versioned Parquet tables to publish."""

from rivet_dagster.catalogs.filesystem.catalog import FilesystemCatalog

__all__ = ["FilesystemCatalog"]
