"""The upkeep of a table: Iceberg's own procedures, run by Spark, and what must be known of versions around them."""
