"""The Dagster definitions of the whole project, loaded by `dagster dev -f definitions.py`."""

from pathlib import Path

from rivet_dagster import load_definitions

defs = load_definitions(Path(__file__).parent)
