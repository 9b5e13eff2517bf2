"""``rivet-dagster run``: its request, the Dagster run in this process, and what it shows."""
