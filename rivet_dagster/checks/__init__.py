"""The built-in kinds of quality checks, one in each file."""
