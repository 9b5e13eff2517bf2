"""A table's new version, from its first file until it is published."""
