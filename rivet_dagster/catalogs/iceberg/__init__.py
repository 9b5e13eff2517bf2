"""The catalog ``iceberg``: tables of Apache Iceberg in any of its catalogs."""

from rivet_dagster.catalogs.iceberg.catalog import IcebergCatalog

__all__ = ["IcebergCatalog"]
