"""``rivet-dagster test``: its runs, its watching, and its output."""
