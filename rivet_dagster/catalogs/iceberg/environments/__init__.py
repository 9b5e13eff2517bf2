"""Environments of an Iceberg catalog on Nessie: a branch of the catalog for each of them."""
