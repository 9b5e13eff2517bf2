"""What Iceberg's metadata says: read and written as data, without an engine."""
