"""The columns of a joint's result, as far as they are known."""

from __future__ import annotations

from dataclasses import dataclass

INTROSPECTED, INFERRED, PARTIAL, NONE = CONFIDENCES = "introspected", "inferred", "partial", "none"
"""How sure a schema is, best first.

- introspected: the catalog gave every name and type; for a sink, of one of its upstreams at least.
- inferred: every name and type follows from declarations and queries; for a sink, of one of its upstreams at least.
- partial: the names are known, but not every type; or there is a conflict, and the schema is None: two upstreams of a
  sink, or the two texts of a template, have different columns or types.
- none: nothing is known, and the schema is None.
"""


@dataclass(frozen=True, slots=True)
class Field:
    """One column; ``type`` is Spark's name of the type, None where it is not known."""

    name: str
    type: str | None = None


Schema = tuple[Field, ...]
