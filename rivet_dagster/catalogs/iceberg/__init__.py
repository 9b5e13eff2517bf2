"""The catalog ``iceberg``: tables of Apache Iceberg in any of its catalogs."""

from rivet_dagster.catalogs.iceberg.environments.catalog import IcebergCatalog

__all__ = ["IcebergCatalog"]
