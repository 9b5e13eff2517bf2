"""Conformance suites that authors of plugins run with pytest: what the rest of rivet_dagster relies on."""
