"""The columns of sources, as catalogs return them before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rivet_dagster.errors import Diagnostic
from rivet_dagster.model.schema import Schema


@dataclass(frozen=True)
class Introspection:
    """The columns of the sources' tables by joint, before their inline transforms, and warnings of missing ones.

    The columns of the joints in ``earlier`` are from an earlier introspection: the tables may have changed since.
    """

    tables: Mapping[str, Schema] = field(default_factory=dict)
    warnings: tuple[Diagnostic, ...] = ()
    earlier: frozenset[str] = frozenset()

    def with_earlier(self, previous: Introspection) -> Introspection:
        """Add the columns of an earlier introspection for joints without current ones."""
        earlier = {name: schema for name, schema in previous.tables.items() if name not in self.tables}
        return Introspection({**earlier, **self.tables}, self.warnings, frozenset(earlier))
