"""The catalog ``iceberg``: Iceberg tables, with PyIceberg for their metadata and an engine for their rows."""
