"""What `dagster dev -f definitions.py` loads: the whole project, as Dagster definitions."""

from pathlib import Path

from rivet_dagster import load_definitions

defs = load_definitions(Path(__file__).parent)
