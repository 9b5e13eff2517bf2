"""Environments of Iceberg catalogs: how errors of the catalog are told."""

from __future__ import annotations

from contextlib import AbstractContextManager

from rivet_dagster.catalogs.environments.catalog import KeepsEnvironments
from rivet_dagster.catalogs.iceberg.reaching import reaching


class IcebergEnvironments(KeepsEnvironments):
    """Environments of an Iceberg catalog."""

    def looking_at_environments(self) -> AbstractContextManager[None]:
        """Turn errors of PyIceberg, and of what it uses, into RVT-403."""
        return reaching(self.name)

    def changing_environments(self, name: str | None = None) -> AbstractContextManager[None]:
        """Turn errors of PyIceberg, and of what it uses, into RVT-404."""
        return reaching(self.name, code="RVT-404")
