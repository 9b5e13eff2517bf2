"""``rivet-dagster doctor``: whether the machine, the project, its storage and the Dagster instance are fit for runs."""
