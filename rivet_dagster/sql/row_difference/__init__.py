"""The query of the difference of two versions of a table."""
