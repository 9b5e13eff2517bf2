"""Refusals of what folders cannot hold: views, properties of namespaces, tables outside of their name's folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import PropertiesUpdateSummary
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.view import View
    from pyiceberg.view.metadata import ViewVersion


class CatalogOfFolders(MetastoreCatalog):
    """A catalog of PyIceberg in which these methods raise NotImplementedError."""

    def update_namespace_properties(
        self, namespace: str | Identifier, removals: set[str] | None = None, updates: Properties = EMPTY_DICT
    ) -> PropertiesUpdateSummary:
        """Raise NotImplementedError."""
        raise NotImplementedError("a namespace of a hadoop catalog is a folder and has no properties")

    def register_table(self, identifier: str | Identifier, metadata_location: str, overwrite: bool = False) -> Table:
        """Raise NotImplementedError."""
        raise NotImplementedError("a hadoop catalog cannot register a table: tables are the folders below it")

    def rename_table(self, from_identifier: str | Identifier, to_identifier: str | Identifier) -> Table:
        """Raise NotImplementedError."""
        raise NotImplementedError("a hadoop catalog cannot rename a table, whose metadata names its folder")

    def view_exists(self, identifier: str | Identifier) -> bool:
        """Raise NotImplementedError."""
        _no_views()

    def list_views(self, namespace: str | Identifier) -> list[Identifier]:
        """Raise NotImplementedError."""
        _no_views()

    def load_view(self, identifier: str | Identifier) -> View:
        """Raise NotImplementedError."""
        _no_views()

    def register_view(self, identifier: str | Identifier, metadata_location: str) -> View:
        """Raise NotImplementedError."""
        _no_views()

    def drop_view(self, identifier: str | Identifier) -> None:
        """Raise NotImplementedError."""
        _no_views()

    def create_view(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        view_version: ViewVersion,
        location: str | None = None,
        properties: Properties = EMPTY_DICT,
    ) -> View:
        """Raise NotImplementedError."""
        _no_views()


def _no_views() -> NoReturn:
    raise NotImplementedError("a hadoop catalog has no views")
