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
        """Return why the files of ``table`` of a catalog with these ``options`` cannot be told; None where they can.

        A value that still holds ``${`` is not judged.
        """
        return None

    @abstractmethod
    def files(self, table: str, options: Mapping[str, Any]) -> tuple[LandedFile, ...]:
        """Return the files that ``table`` is read from now, in order; none where the first has yet to come.

        Raises RVT-403.
        """
