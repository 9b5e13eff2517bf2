"""The Dagster definitions of the project, as its users load them."""

from pathlib import Path

from rivet_dagster import load_definitions

defs = load_definitions(Path(__file__).parent)
