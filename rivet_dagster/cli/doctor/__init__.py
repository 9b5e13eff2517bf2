"""``rivet-dagster doctor``: whether machine, project, storage and Dagster instance are fit for runs."""
