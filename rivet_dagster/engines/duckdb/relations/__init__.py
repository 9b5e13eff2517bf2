"""Reading files with the meaning that they have for Spark, one module for each format."""
