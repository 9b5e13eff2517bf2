"""Catalogs of Iceberg tables, whose metadata is read and committed without a JVM."""
