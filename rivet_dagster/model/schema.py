"""The columns of a joint's result, as far as they are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rivet_dagster.errors import Diagnostic

ANALYZED, INTROSPECTED, INFERRED, PARTIAL, NONE = CONFIDENCES = (
    "analyzed",
    "introspected",
    "inferred",
    "partial",
    "none",
)
"""The confidence of a schema, best first.

- analyzed: the engine's own analyzer returned every name and type.
- introspected: the catalog returned every name and type; for a sink, of at least one of its upstreams.
- inferred: every name and type follows from declarations and queries; for a sink, of at least one of its upstreams.
- partial: the names are known, but not every type; or the schema is None because of a conflict: two upstreams of a
  sink, or the two queries of a template, have different columns or types.
- none: nothing is known, and the schema is None.
"""


@dataclass(frozen=True, slots=True)
class Field:
    """One column; ``type`` is Spark's name of the type, None where it is not known."""

    name: str
    type: str | None = None


Schema = tuple[Field, ...]


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
