"""The kinds of quality checks, one a file."""
