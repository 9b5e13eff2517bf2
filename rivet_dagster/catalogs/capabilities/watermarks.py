"""Watermarks: the maximum of a column of a published version, and the value that a person set in place of it."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from rivet_dagster.catalogs.capabilities.targets import HasTargets
from rivet_dagster.model.storage import Published
from rivet_dagster.model.watermark import Override


class HasWatermarks(HasTargets):
    """stores a watermark that a person sets."""

    @abstractmethod
    def max_of(self, published: Published, column: str) -> Any:
        """Return the maximum of a column of that version, read without an engine; None if all values are NULL.

        NaN counts as the greatest value. A TIMESTAMP is returned with a time zone, a TIMESTAMP_NTZ without. Raises
        RVT-401, RVT-407.
        """

    @abstractmethod
    def watermark_override(self, published: Published) -> Override | None:
        """Return the value that a person set in place of the watermark of that version; None if nobody has."""

    @abstractmethod
    def override_watermark(self, published: Published, override: Override) -> None:
        """Set the watermark until another version is published. Raises RVT-404, and RVT-405 if one has been already."""
