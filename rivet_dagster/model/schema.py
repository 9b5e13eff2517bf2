"""The columns of a joint's result, as far as they are known."""

from __future__ import annotations

from dataclasses import dataclass

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
