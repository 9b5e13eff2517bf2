"""The Dagster definitions of the project with its profile `server`."""

from pathlib import Path

from rivet_dagster import load_definitions

defs = load_definitions(Path(__file__).parent, profile="server")
