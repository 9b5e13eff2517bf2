"""The declaration of an Iceberg catalog, and the settings by which Spark and PyIceberg reach it."""
