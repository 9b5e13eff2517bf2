"""The operations of the commit that merges tables of an environment, and the metadata files that they name."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.serializers import FromInputFile
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata

from rivet_dagster.catalogs.environments.errors import changed_on_both_sides
from rivet_dagster.catalogs.iceberg.environments.nessie.branch import EnvironmentBranch
from rivet_dagster.catalogs.iceberg.environments.nessie.three_way import ConflictError, merged
from rivet_dagster.catalogs.iceberg.nessie.nessie_catalog import NessieCatalog, namespace_content, table_content
from rivet_dagster.catalogs.iceberg.nessie.server import Content, Key, Reference, put


@dataclass
class TableMerge:
    """The merge of tables of an environment into the branch of ``catalog`` as it is at ``base``."""

    catalog: NessieCatalog
    environment: EnvironmentBranch
    base: Reference
    _written: list[str] = field(default_factory=list)

    def operations(self, keys: list[Key]) -> list[dict[str, Any]]:
        """Return the operations for those ``keys`` that the environment has, and for namespaces that they need.

        Raises RVT-405 for tables of which both sides have changed the same.
        """
        there, of_base = self.environment.contents(keys), self._of_base(keys)
        found, conflicts = [], {}
        for key in (key for key in keys if key in there):
            try:
                content = self._merged(key, of_base.get(key), there[key])
            except ConflictError as error:
                conflicts[".".join(key)] = error.changed
                continue
            if content is not None:
                found.append(put(key, content))
        if conflicts:
            self.discard()
            raise changed_on_both_sides(self.environment.name, conflicts)
        above = list(dict.fromkeys(key[:length] for key in there for length in range(1, len(key))))
        known = self._of_base(above)
        return [*(put(key, namespace_content(key, {})) for key in above if key not in known), *found]

    def discard(self) -> None:
        """Remove the metadata files that were written, after a commit that was refused."""
        for path in self._written:
            with suppress(OSError):
                self.catalog._load_file_io(location=path).delete(path)
        self._written.clear()

    def _of_base(self, keys: list[Key]) -> Mapping[Key, Content]:
        return self.environment.server.contents(f"{self.base.name}@{self.base.hash}", keys)[1]

    def _merged(self, key: Key, base: Content | None, ours: Content) -> Content | None:
        """Return the new content of a table of the base; None if the environment has changed nothing."""
        if base is None:
            return {name: value for name, value in ours.items() if name != "id"}
        seed = self.environment.seed(key)
        fork = (seed.metadata if seed is not None else "") or base["metadataLocation"]
        if ours["metadataLocation"] == fork:
            return None
        if base["metadataLocation"] == fork and base["id"] == ours["id"]:
            return ours
        of_base, of_ours = self._metadata(base["metadataLocation"]), self._metadata(ours["metadataLocation"])
        if of_base.table_uuid != of_ours.table_uuid:
            raise ConflictError(["the table itself, which was made anew"])
        made = merged(self._metadata(fork), of_base, of_ours)
        number = self.catalog._parse_metadata_version(base["metadataLocation"]) + 1
        location = load_location_provider(made.location, made.properties).new_table_metadata_file_location(number)
        self.catalog._write_metadata(made, self.catalog._load_file_io(made.properties, location), location)
        self._written.append(location)
        return {"id": base["id"], **table_content(made, location)}

    def _metadata(self, location: str) -> TableMetadata:
        return FromInputFile.table_metadata(self.catalog._load_file_io(location=location).new_input(location))
