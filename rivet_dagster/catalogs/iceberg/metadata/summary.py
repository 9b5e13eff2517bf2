"""The facts of a publication as properties of its snapshot, plain text that any reader of Iceberg can see."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rivet_dagster.catalogs.versions.manifest import inputs_from_json, landed_as_json, positions_as_json
from rivet_dagster.model.inputs import Inputs
from rivet_dagster.model.storage import Record

IDENTITY, MADE_BY, RUN = "rivet.identity", "rivet.made-by", "rivet.run-id"
INPUTS, LANDED, CODE_VERSIONS = "rivet.inputs", "rivet.landed", "rivet.code-versions"
DATA_SNAPSHOT, ERRORS_OF, ERRORS = "rivet.data-snapshot-id", "rivet.errors-of", "rivet.errors-table"
"""Of an error table: the snapshot of the rows beside it, and their table; of the rows: the name of the error table."""

ENVIRONMENT = "rivet.environment"
"""Of a snapshot that was published in an environment, on a branch of the base's table: the environment's name."""

ENVIRONMENT_OF = "rivet.environment-of"
"""Of a table that only an environment has: the name, as JSON, that it will have in the base."""

OVERRIDE = "rivet.watermark-override"
"""The table property with the watermark that a person set, and the version for which it was set."""

ADOPTED_SNAPSHOT = "rivet.adopted-snapshot-id"
"""The property of a table that somebody else has made: the snapshot that was current when it was taken over."""

SPEC, ORDER = "rivet.spec-id", "rivet.sort-order-id"
"""The partition spec and the sort order that the table had with a snapshot, which itself says its columns alone."""

STAGED_FOR = "rivet.staged-for"
"""Of a staging table: the table that it is for."""

TEXT_BOUNDS = "rivet.text-bounds"
"""The data files, by ranges of sequence numbers, whose short texts are in their bounds as they are."""

TextBounds = tuple[tuple[int, int | None], ...]

_ROWS, _BEFORE = "rivet.rows", "rivet.rows-before"
_INSERTED, _UPDATED, _DELETED = "rivet.rows-inserted", "rivet.rows-updated", "rivet.rows-deleted"
_BYTES = "rivet.bytes-written"


@dataclass(frozen=True)
class PublicationFacts:
    """The facts recorded with a version: who published and who made it, from what, and how its rows came about.

    ``unknown_before`` is an expired snapshot of another engine before which nothing is known; it is never recorded.
    """

    identity: str
    made_by: str
    rows: int
    rows_before: int
    record: Record
    inputs: Inputs = field(default_factory=dict)
    code_versions: Mapping[str, str] = field(default_factory=dict)
    text_bounds: TextBounds = ()
    unknown_before: str | None = None

    def again(self, identity: str, rows_before: int) -> PublicationFacts:
        """Return the facts of the same version, published once more, by ``identity``; who made it stays known."""
        made_by = self.made_by or self.identity
        return replace(self, identity=identity, made_by=made_by, rows_before=rows_before, unknown_before=None)

    def properties(self) -> dict[str, str]:
        """Return the properties of the snapshot.

        >>> PublicationFacts("1f/orders", "", 3, 1, Record(2, bytes=9)).properties()["rivet.run-id"]
        '1f'
        """
        texts = {
            IDENTITY: self.identity,
            RUN: self.identity.partition("/")[0],
            INPUTS: _json(positions_as_json(self.inputs)),
            _ROWS: str(self.rows),
            _BEFORE: str(self.rows_before),
            _INSERTED: str(self.record.inserted),
            _UPDATED: str(self.record.updated),
            _DELETED: str(self.record.deleted),
        }
        landed = landed_as_json(self.inputs)
        if landed:
            texts[LANDED] = _json(landed)
        if self.code_versions:
            texts[CODE_VERSIONS] = _json(dict(self.code_versions))
        if self.made_by not in ("", self.identity):
            texts[MADE_BY] = self.made_by
        if self.text_bounds:
            texts[TEXT_BOUNDS] = _json(self.text_bounds)
        if self.record.bytes is not None:
            texts[_BYTES] = str(self.record.bytes)
        return texts


def publication_of(properties: Mapping[str, str | None]) -> PublicationFacts | None:
    """Return the publication that these properties of a snapshot record; None for a snapshot of another writer.

    >>> publication = PublicationFacts("1f/orders", "", 3, 1, Record(2, bytes=9))
    >>> publication_of(publication.properties()) == publication, publication_of({})
    (True, None)
    """
    if _ROWS not in properties:
        return None
    known = {key: value or "" for key, value in properties.items()}
    written = known.get(_BYTES)
    return PublicationFacts(
        identity=known.get(IDENTITY, ""),
        made_by=known.get(MADE_BY, ""),
        rows=int(known[_ROWS]),
        rows_before=int(known[_BEFORE]),
        record=Record(
            int(known[_INSERTED]),
            int(known[_UPDATED]),
            int(known[_DELETED]),
            int(written) if written is not None else None,
        ),
        inputs=inputs_from_json(json.loads(known.get(LANDED, "{}")), json.loads(known.get(INPUTS, "{}"))),
        code_versions=json.loads(known.get(CODE_VERSIONS, "{}")),
        text_bounds=tuple((first, last) for first, last in json.loads(known.get(TEXT_BOUNDS, "[]"))),
    )


def names_publisher(properties: Mapping[str, str | None], identity: str) -> bool:
    """Return whether a retry of the run ``identity`` must find the snapshot with these properties, as ``is_by`` does.

    >>> names_publisher(PublicationFacts("1f/orders", "", 3, 1, Record(2)).properties(), "1f/orders")
    True
    """
    return identity != "" and identity in (properties.get(IDENTITY), properties.get(MADE_BY))


def foreign_publication(properties: Mapping[str, str | None], rows: int, rows_before: int) -> PublicationFacts:
    """Return what the summary of another writer's snapshot says of its write."""

    def number(key: str) -> int:
        return int(properties.get(key) or 0)

    updated = number("spark.merge-into.num-target-rows-updated")
    inserted = properties.get("spark.merge-into.num-target-rows-inserted")
    if inserted is not None:
        record = Record(int(inserted), updated, number("spark.merge-into.num-target-rows-deleted"))
    else:
        added = max(number("added-records"), rows - rows_before)
        record = Record(added, 0, max(0, rows_before + added - rows))
    return PublicationFacts("", "", rows, rows_before, record)


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)
