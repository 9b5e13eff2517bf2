"""Environments of an Iceberg catalog: on Nessie a branch of the catalog, elsewhere a branch of each table."""
