"""What goes after a run: archived files, evicted tables, what dead runs left."""
