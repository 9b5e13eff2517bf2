"""What catalogs tell of the sources' columns before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rivet_dagster.errors import Diagnostic
from rivet_dagster.model.schema import Schema


@dataclass(frozen=True)
class Introspection:
    """The columns of the sources' tables by joint, without their inline transforms, and why some are missing.

    Those of the joints in ``earlier`` are what a catalog told at another time: the tables may have changed since.
    """

    tables: Mapping[str, Schema] = field(default_factory=dict)
    warnings: tuple[Diagnostic, ...] = ()
    earlier: frozenset[str] = frozenset()

    def with_earlier(self, told: Introspection) -> Introspection:
        """Add what catalogs told earlier of the joints of which they tell nothing now."""
        left = {name: schema for name, schema in told.tables.items() if name not in self.tables}
        return Introspection({**left, **self.tables}, self.warnings, frozenset(left))
