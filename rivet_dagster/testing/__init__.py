"""Conformance suites that authors of plugins run with pytest: the behaviour on which rivet_dagster relies."""

from contextlib import suppress

with suppress(ImportError):  # the catalog in memory needs no pytest
    import pytest

    for module in ("catalog", "engine", "error_tables"):
        pytest.register_assert_rewrite(f"rivet_dagster.testing.{module}")
