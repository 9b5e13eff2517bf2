"""Iceberg's metadata, read and written as data, without an engine."""
