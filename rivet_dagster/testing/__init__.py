"""Conformance suites that authors of plugins run with pytest: the behaviour on which rivet_dagster relies."""
