"""The columns of a joint's result, as far as they are known."""

from __future__ import annotations

from dataclasses import dataclass

INTROSPECTED, INFERRED, PARTIAL, NONE = "introspected", "inferred", "partial", "none"
"""Confidence, best first: read from the data; every name and type follows; names alone; nothing."""


@dataclass(frozen=True, slots=True)
class Field:
    """One column; ``type`` is Spark's name of the type, None where it is not known."""

    name: str
    type: str | None = None


Schema = tuple[Field, ...]
