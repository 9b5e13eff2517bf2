"""The file beside a version that says what it is, who published it and upon what."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from rivet_dagster.catalogs.filesystem.readings import readings_from_json
from rivet_dagster.model.storage import Published, Reading, Record, Statistics


@dataclass(frozen=True)
class Manifest:
    """One version; ``base`` is the version it came after and ``rows_before`` how many rows that held.

    ``landed`` says by landing zone what it was made of.
    """

    version: str
    base: str | None
    identity: str
    rows: int
    rows_before: int
    bytes: int
    columns: tuple[tuple[str, str], ...]
    published_at: str
    record: Record
    landed: Mapping[str, Reading] = field(default_factory=dict)

    @classmethod
    def now(
        cls,
        version: str,
        base: Manifest | None,
        identity: str,
        statistics: Statistics,
        record: Record | None = None,
        landed: Mapping[str, Reading] | None = None,
    ) -> Manifest:
        """The manifest of a version that is about to come after ``base``, all rows replaced unless ``record`` says."""
        return cls(
            version=version,
            base=base.version if base else None,
            identity=identity,
            rows=statistics.rows,
            rows_before=base.rows if base else 0,
            bytes=statistics.bytes,
            columns=statistics.columns,
            published_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            record=record or Record(statistics.rows, 0, base.rows if base else 0, statistics.bytes),
            landed=landed or {},
        )

    @property
    def statistics(self) -> Statistics:
        """What it says of the data."""
        return Statistics(self.rows, self.bytes, self.columns)

    def published(self, catalog: str, table: str, uri: str) -> Published:
        """The version as that of a table of a catalog."""
        return Published(
            catalog,
            table,
            self.version,
            uri,
            self.statistics,
            self.rows_before,
            self.identity,
            self.record,
            self.landed,
        )

    def write(self, path: Path) -> None:
        """Put it on disk for good."""
        with open(path, "w", encoding="utf-8") as file:
            json.dump(asdict(self), file, indent=2)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())


def read_manifest(path: Path) -> Manifest | None:
    """The manifest in ``path``, None where there is none."""
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    fields["columns"] = tuple((name, type_) for name, type_ in fields["columns"])
    replaced = Record(fields["rows"], 0, fields["rows_before"])  # all that the first release could do
    fields["record"] = Record(**fields["record"]) if "record" in fields else replaced
    fields["landed"] = readings_from_json(fields.get("landed", {}))
    return Manifest(**fields)
