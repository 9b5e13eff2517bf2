"""Tables whose files can be listed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from rivet_dagster.catalogs.contract import Catalog
from rivet_dagster.model.inputs import LandedFile


class ListsFiles(Catalog):
    """lists the files of a table."""

    @classmethod
    def refuses_listing(cls, options: Mapping[str, Any], table: str) -> str | None:
        """Return why the files of ``table`` of a catalog with these ``options`` cannot be listed; None if they can.

        A value with an unexpanded ``${`` is not checked.
        """
        return None

    @abstractmethod
    def files(self, table: str, options: Mapping[str, Any]) -> tuple[LandedFile, ...]:
        """Return the files that ``table`` consists of now, in order; none as long as the first has not arrived.

        Raises RVT-403.
        """
