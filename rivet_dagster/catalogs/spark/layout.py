"""The layout of a published Hive table on disk: the versions lie beside each other, and the metastore names one.

For the table ``shop.orders``, in a database at ``/warehouse/shop.db``::

    /warehouse/shop.db/orders/00000001-5be2f7c3/      flat Parquet files
    /warehouse/shop.db/orders/00000001-5be2f7c3.json  the manifest
    /warehouse/shop.db/orders/00000002-9c41d0aa/      the location of the table
    /warehouse/shop.db/orders/00000002-9c41d0aa.json
    /warehouse/shop.db/orders/lock

The other files are those of ``filesystem.versions.layout``. A manifest is written before the location is switched, and
says who published the version and from what. So the metastore holds nothing but the location and the columns, and a
version whose run died before the switch was never published.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from rivet_dagster.catalogs.filesystem.sources.source_schema import parquet_in
from rivet_dagster.catalogs.filesystem.versions.layout import TableLayout, is_version_name
from rivet_dagster.catalogs.spark.metastore import Metastore
from rivet_dagster.catalogs.spark.names import TableName
from rivet_dagster.errors import RivetError


@dataclass(frozen=True)
class HiveLayout(TableLayout):
    """The paths of one table, whose versions are in ``folder``, and the table's place in the metastore."""

    has_link: ClassVar[bool] = False

    metastore: Metastore
    hive_name: TableName

    @property
    def home(self) -> Path:
        """The folder that contains the versions."""
        return self.folder

    @property
    def link(self) -> Path:
        """The folder that contains the versions: readers open no link."""
        return self.folder

    def published(self) -> str | None:
        """Return the version that is the table's location, None if there is no table.

        Raises RVT-404 if the table is at another location, or a view; RVT-403 if it cannot be looked up.
        """
        described = self.metastore.describe(self.hive_name)
        if described is None:
            return None
        folder = described.folder
        if folder is not None and folder.parent == self.folder and is_version_name(folder.name):
            return folder.name
        what = f"a table at {described.location}" if described.location else "a view"
        raise RivetError(
            "RVT-404",
            f"{self.hive_name} is {what}, which was not published here",
            remediation="Drop it, or choose another table name.",
        )

    def switch(self, version: str) -> None:
        """Make the version the table's location, in one change of the metastore."""
        folder = self.data(version)
        files = parquet_in(folder, self.name)
        self.metastore.switch(self.hive_name, folder, files)

    def unpublish(self) -> None:
        """Drop the table; its versions stay."""
        self.metastore.drop(self.hive_name)
