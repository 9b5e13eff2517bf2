"""A version of a published table as the database stores it, and what its publication does."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rivet_dagster.catalogs.versions.facts import describe_version
from rivet_dagster.catalogs.versions.manifest import Manifest, manifest_from
from rivet_dagster.model.storage import CURRENT, Version
from rivet_dagster.model.storage import STAGED as IS_STAGED
from rivet_dagster.model.storage import WITHHELD as IS_WITHHELD
from rivet_dagster.sql.database_trees import Name

BUILDING, STAGED, WITHHELD, PUBLISHED = "building", "staged", "withheld", "published"
"""The states of a version."""

_STATES = {PUBLISHED: CURRENT, STAGED: IS_STAGED, WITHHELD: IS_WITHHELD}


@dataclass(frozen=True)
class Statement:
    """A statement of a publication, in the database's SQL.

    ``counts`` says what the number of its rows is: ``inserted``, ``updated``, ``deleted``, or nothing that is told. Of
    ``upserted`` it is a query whose one row has the numbers of inserted and of updated rows.
    """

    sql: str
    counts: str = ""


@dataclass(frozen=True)
class PlannedWrite:
    """The steps of a publication in its one transaction, which first makes sure that the ``staged`` rows are there.

    Tables are by schema and name, the staged ones with the number of their rows. A table whose rows all go becomes the
    table ``rows``, with the ``columns``, as Spark has them, and an index on the ``keys`` where the database needs one;
    else the ``statements`` say what becomes of it. Where an environment has no table yet, it is made ``like`` that of
    the base. ``errors`` are the staged tables of row errors, and ``whole`` is the query of all rows that the table will
    have, where these are not the staged ones. ``requires`` is the query of a value that must be true, else another run
    has been faster. With ``keeps_record`` the counts of changed rows are those that the version has had in its
    environment. With ``swaps`` the table ``rows`` takes the place of the old one.
    """

    staged: tuple[tuple[str, str, int], ...]
    statements: tuple[Statement, ...] = ()
    rows: Name | None = None
    columns: tuple[tuple[str, str], ...] = ()
    like: Name | None = None
    errors: tuple[Name, ...] = ()
    whole: str | None = None
    requires: str | None = None
    keeps_record: bool = False
    swaps: bool = False
    keys: tuple[str, ...] = ()

    def as_json(self) -> str:
        """Return it as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> PlannedWrite:
        """Return it from its JSON."""
        return cls(
            tuple((schema, name, rows) for schema, name, rows in fields["staged"]),
            tuple(Statement(**one) for one in fields["statements"]),
            _name(fields["rows"]),
            tuple((name, kind) for name, kind in fields["columns"]),
            _name(fields["like"]),
            tuple((schema, name) for schema, name in fields["errors"]),
            fields["whole"],
            fields["requires"],
            fields["keeps_record"],
            fields["swaps"],
            tuple(fields["keys"]),
        )


@dataclass(frozen=True)
class StoredVersion:
    """A row of ``rivet_versions``; ``table`` and ``errors`` are schema and name with a dot between them.

    ``upon`` is the version of the table that it was begun upon; ``built_upon``, in an environment, the version of the
    base that the first version there was.
    """

    version: str
    table: str
    state: str
    number: int | None = None
    upon: str | None = None
    identity: str = ""
    made_by: str = ""
    published_at: Any = None
    manifest: Manifest | None = None
    write: PlannedWrite | None = None
    errors: str | None = None
    watermark: Mapping[str, Any] | None = None
    built_upon: str | None = None

    @property
    def name(self) -> str:
        """The name of the version."""
        return self.version

    @property
    def is_staged(self) -> bool:
        """Whether a run has staged it for its last step."""
        return self.state == STAGED

    def describe(self) -> Version:
        """Return it as a list of versions tells it; a published one is the current one."""
        manifest = self.manifest
        assert manifest is not None
        at = manifest.published_at if self.state == PUBLISHED else None
        return describe_version(manifest, self.version, _STATES[self.state], at)

    @classmethod
    def of(cls, columns: Mapping[str, Any]) -> StoredVersion:
        """Return it from the columns of its row, by the names of the fields; JSON may be parsed already, or text."""
        columns = {**columns, **{name: _parsed(columns[name]) for name in ("manifest", "write", "watermark")}}
        manifest, write = columns["manifest"], columns["write"]
        parsed = {
            "manifest": manifest_from(dict(manifest)) if manifest is not None else None,
            "write": PlannedWrite.of(write) if write is not None else None,
        }
        return cls(**{**columns, **parsed})


def key_of(name: Name) -> str:
    """Return the text by which a table is known in the tables of the versions.

    >>> key_of(("shop", "orders")), name_of("shop.orders")
    ('shop.orders', ('shop', 'orders'))
    """
    return ".".join(name)


def name_of(key: str) -> Name:
    """Return schema and name of the table with that text: neither of them has a dot."""
    schema, _, name = key.partition(".")
    return schema, name


def _parsed(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


def _name(parts: Sequence[str] | None) -> Name | None:
    return None if parts is None else (parts[0], parts[1])
