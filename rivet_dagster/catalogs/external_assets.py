"""The catalog ``dagster``: the values of external assets, stored as tables of the project's workspace."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rivet_dagster.catalogs.capabilities import capable
from rivet_dagster.catalogs.capabilities.sources import ListsTables
from rivet_dagster.catalogs.capabilities.targets import HasTargets, HasVersions
from rivet_dagster.errors import RivetError
from rivet_dagster.model.external_assets import Part, external_table, key_path, partition_suffix, parts_of
from rivet_dagster.model.partitions import Window
from rivet_dagster.model.relations import Files, Relation
from rivet_dagster.model.schema import Field, Schema
from rivet_dagster.model.storage import Published
from rivet_dagster.sql.write_strategies.alignment import SchemaChange, align_columns

Columns = tuple[tuple[str, str], ...]
"""Names and types."""


@dataclass(frozen=True)
class ExternalRows:
    """The rows of an external asset with ``columns``; a column that a part lacks is NULL in its rows.

    ``parts`` are relations with their own columns. Files are one part, whose relation has ``columns`` already.
    """

    columns: Columns
    parts: tuple[tuple[Relation, Columns], ...]

    @property
    def relation(self) -> Relation | None:
        """The one relation that has all rows; None where there are several."""
        return self.parts[0][0] if len(self.parts) == 1 else None


@dataclass(frozen=True)
class ExternalAssets:
    """The rows of external assets, which are stored in the catalog ``workspace``.

    An asset is stored as one table or, if it has partitions, as one table for each partition.
    """

    workspace: HasTargets

    def source(self, table: str, window: Window | None = None) -> ExternalRows:
        """Return the rows of the asset whose key is ``table``. Raises RVT-401, RVT-411.

        If the asset was stored with the partitions definition of ``window``, only the partitions in ``window`` are
        read.
        """
        return self.rows(key_path(table), self.read(table, window))

    def read(self, table: str, window: Window | None = None) -> tuple[Published, ...]:
        """Return the versions that ``source`` reads. Raises RVT-401."""
        path = key_path(table)
        tables = self._tables(parts_of(path, window.definition)) if window is not None else ()
        if window is not None and any(self._current(table) is not None for table in tables):
            return self.partitions(path, window.keys)
        return self.whole(path)

    def data_version(self, table: str, options: Mapping[str, Any]) -> str:
        """Return a hash of the names and versions of its tables. Raises RVT-401."""
        versions = [f"{one.table}/{one.version}" for one in self.whole(key_path(table))]
        return hashlib.sha256("\n".join(versions).encode()).hexdigest()[:16]

    def columns(self, table: str, options: Mapping[str, Any]) -> Schema:
        """Return the columns of all its tables. Raises RVT-401, RVT-411."""
        path = key_path(table)
        return tuple(Field(*column) for column in _columns(path, self.whole(path)))

    def whole(self, path: Sequence[str]) -> tuple[Published, ...]:
        """Return the published versions of all tables of an asset. Raises RVT-401 if there are none."""
        # While the first partition is published, the table without partitions exists; it counts until it is evicted.
        one = self.workspace.current(external_table(path))
        if one is not None:
            return (one,)
        currents = (self.workspace.current(table) for table in self._parts(path).values())
        versions = tuple(version for version in currents if version is not None)
        if not versions:
            raise _missing(path, "has never been materialized")
        return versions

    def partitions(
        self, path: Sequence[str], keys: Collection[str], *, all_of_them: bool = True
    ) -> tuple[Published, ...]:
        """Return partitions of an asset. Raises RVT-401 if none exists or, with ``all_of_them``, if any is missing."""
        tables = self._parts(path)
        versions = {key: self._current(tables.get(partition_suffix(key))) for key in keys}
        lacking = [key for key, version in versions.items() if version is None]
        if lacking and (all_of_them or len(lacking) == len(versions)):
            more = f" and {len(lacking) - 5} more" if len(lacking) > 5 else ""
            raise _missing(path, f"has never been materialized for {', '.join(lacking[:5])}{more}")
        return tuple(version for version in versions.values() if version is not None)

    def replaced_by(self, path: Sequence[str], part: Part | None) -> tuple[Published, ...]:
        """Return the versions to evict when the asset, or a partition of it, has been published.

        They exist if the asset had no partitions before, has none any more, or now has another partitions definition.
        """
        current = external_table(path, part)
        tables = [*self._tables(parts_of(path)), external_table(path)]
        if part is not None:
            tables = [
                name
                for name in tables
                if name.endswith(f"_{partition_suffix(part.key)}") or name == external_table(path)
            ]
        versions = (self._current(name) for name in tables if name != current)
        return tuple(version for version in versions if version is not None)

    def rows(self, path: Sequence[str], versions: Sequence[Published]) -> ExternalRows:
        """Return the rows of several versions, columns matched by name, missing ones NULL. Raises RVT-411."""
        columns = _columns(path, versions)
        relations = [self.workspace.read(version) for version in versions]
        files = [relation for relation in relations if isinstance(relation, Files)]
        if len(files) == len(relations):
            return ExternalRows(columns, ((_together(files, columns, versions), columns),))
        stored_columns = (version.statistics.columns for version in versions)
        return ExternalRows(columns, tuple(zip(relations, stored_columns, strict=True)))

    def _parts(self, path: Sequence[str]) -> dict[str, str]:
        """Return the tables of an asset's partitions by the ends of their names."""
        prefix = parts_of(path)
        by_ending: dict[str, list[str]] = {}
        for name in self._tables(prefix):
            by_ending.setdefault(name.removeprefix(prefix).partition("_")[2], []).append(name)
        # Tables of an earlier partitions definition are evicted as soon as one of the new definition is published.
        return {end: max(names, key=self._since) if len(names) > 1 else names[0] for end, names in by_ending.items()}

    def _since(self, table: str) -> str:
        versions = capable(self.workspace, HasVersions).versions(table)
        return next((version.published_at or "" for version in versions), "")

    def _tables(self, prefix: str) -> tuple[str, ...]:
        return capable(self.workspace, ListsTables).tables(prefix)

    def _current(self, table: str | None) -> Published | None:
        return self.workspace.current(table) if table is not None else None


def _together(relations: Sequence[Files], columns: Columns, versions: Sequence[Published]) -> Files:
    """Return one relation of all files, so that an engine reads them in one scan."""
    paths = tuple(path for relation in relations for path in relation.paths)
    same = all(version.statistics.columns == columns for version in versions)
    ddl = ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in columns)
    return Files(relations[0].format, paths, {} if same else {"schema": ddl})


def _columns(path: Sequence[str], versions: Sequence[Published]) -> Columns:
    """Return the columns of all versions, each with the wider of two types."""
    columns, *others = dict.fromkeys(version.statistics.columns for version in versions)
    try:
        for other in others:
            columns = tuple(align_columns(columns, other, "add"))
    except SchemaChange as change:
        message = f"the partitions of the asset {'/'.join(path)} do not fit together: {change}"
        raise RivetError("RVT-411", message) from None
    return columns


def _missing(path: Sequence[str], why: str) -> RivetError:
    remedy = "Materialize the asset first, with this project's IO manager as its `io_manager_key`."
    return RivetError("RVT-401", f"the asset {'/'.join(path)} {why}", remediation=remedy)
