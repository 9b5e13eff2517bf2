"""Iceberg's catalog of the kind ``nessie``, by the REST interface of Nessie itself."""
