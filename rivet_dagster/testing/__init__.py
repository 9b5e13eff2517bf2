"""Conformance suites that authors of plugins run with pytest: the behaviour on which rivet_dagster relies."""

from contextlib import suppress

with suppress(ImportError):  # the catalog in memory needs no pytest
    import pytest

    pytest.register_assert_rewrite("rivet_dagster.testing.catalog", "rivet_dagster.testing.engine")
