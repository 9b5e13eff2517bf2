"""Watermarks: how far a table has come, and what a person set in place of that."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from rivet_dagster.catalogs.capabilities.targets import HasTargets
from rivet_dagster.model.storage import Published
from rivet_dagster.model.watermark import Override


class HasWatermarks(HasTargets):
    """keeps a watermark that a person sets."""

    @abstractmethod
    def max_of(self, published: Published, column: str) -> Any:
        """Return the greatest value of a column of that version, read without an engine; None where all are NULL.

        NaN is greater than all others; a TIMESTAMP has a time zone, a TIMESTAMP_NTZ none. Raises RVT-401, RVT-407.
        """

    @abstractmethod
    def watermark_override(self, published: Published) -> Override | None:
        """Return what a person set in place of the watermark of that version."""

    @abstractmethod
    def override_watermark(self, published: Published, override: Override) -> None:
        """Set it, to hold until another version is published. Raises RVT-404, and RVT-405 where one has been."""
