"""The traits of the catalog ``iceberg``, which follow from options and names of tables, without opening it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from rivet_dagster.catalogs.capabilities.targets import PlanType
from rivet_dagster.catalogs.iceberg.metadata.declared_layout import columns_named, wrong_layout
from rivet_dagster.catalogs.iceberg.names import wrong_name
from rivet_dagster.catalogs.iceberg.settings.options import NESSIE, OPTIONS, uri, warehouse, wrong_options
from rivet_dagster.entry_points import is_unexpanded
from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.model.convert import show
from rivet_dagster.model.plugins import Wrong
from rivet_dagster.model.relations import CatalogTable, Kinds
from rivet_dagster.model.step_options import STEP_OPTIONS
from rivet_dagster.model.target import Location
from rivet_dagster.model.write_plan import WritePlan

if TYPE_CHECKING:
    from pyiceberg.table import Table


class IcebergTraits:
    """Its options, and the methods that the compiler calls on the class."""

    type: ClassVar[str] = "iceberg"
    gives: ClassVar[Kinds] = frozenset({CatalogTable})
    write_plans: ClassVar[frozenset[PlanType]] = frozenset(get_args(WritePlan))
    options: ClassVar[frozenset[str]] = OPTIONS
    other_options: ClassVar[bool] = True

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> Mapping[str, str]:
        """Return what is wrong with the values of ``options``, by key."""
        return wrong_options(options)

    @classmethod
    def check_table(
        cls, options: Mapping[str, Any], table: str, joint_options: Mapping[str, Any], is_written: bool
    ) -> Iterable[Wrong]:
        """Check the name of a table, and the layout of a sink or the state that a source names."""
        return _wrong_table(options, table, joint_options, is_written)

    @classmethod
    def columns_named(cls, joint_options: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
        """Return the columns of the partitions and of the sort order."""
        return columns_named(joint_options)

    @classmethod
    def in_one_commit(cls, options: Mapping[str, Any]) -> bool:
        """Return whether the catalog is one of Nessie."""
        return options.get("catalog") == NESSIE

    @classmethod
    def wants_upkeep(cls, options: Mapping[str, Any]) -> bool:
        """Return whether the option ``upkeep`` is not off."""
        return options.get("upkeep") is not False

    @classmethod
    def resolved(cls, options: Mapping[str, Any], root: Path) -> Mapping[str, Any]:
        """Return the options with absolute paths."""
        places = {"warehouse": warehouse(options, root), "uri": uri(options, root)}
        return {**options, **{key: location for key, location in places.items() if location is not None}}

    @classmethod
    def written_locations(cls, options: Mapping[str, Any], table: str) -> Iterable[Location]:
        """Return the address of the catalog, and the table's name in it."""
        return _locations(options, table)

    @classmethod
    def read_locations(cls, options: Mapping[str, Any], table: str, look: bool = False) -> Iterable[Location]:
        """Return the same as of a table that is written."""
        return _locations(options, table)


def _wrong_table(
    options: Mapping[str, Any], table: str, joint_options: Mapping[str, Any], is_written: bool
) -> Iterator[Wrong]:
    namespace = options.get("default-namespace")
    why = None if is_unexpanded(table) else wrong_name(table, None if namespace is None else str(namespace))
    if why is not None:
        yield Wrong(
            "RVT-204", "table", why, "Write it as `namespace.table`, or give the catalog a `default-namespace`."
        )
    yield from wrong_layout(joint_options) if is_written else wrong_source(joint_options)


def _locations(options: Mapping[str, Any], table: str) -> Iterator[Location]:
    address = [str(options.get(key, "")) for key in ("catalog", "uri", "warehouse")]
    if any(is_unexpanded(part) for part in (*address, table)):
        return
    namespace = () if "." in table else (str(options.get("default-namespace", "")),)
    yield ("iceberg", *map(escape, (*address, *namespace, *table.split("."))))


BRANCH, TAG, SNAPSHOT, TIME = STATES = ("branch", "tag", "snapshot_id", "as_of")


def wrong_source(options: Mapping[str, Any]) -> Iterator[Wrong]:
    """Yield the errors of a source's options.

    >>> [problem.message for problem in wrong_source({"snapshot_id": "x"})]
    ["`snapshot_id` must be a whole number, not 'x'"]
    """
    for key, value in options.items():
        if key not in STATES:
            hint = nearest(key, (*STATES, *STEP_OPTIONS), listed=False) or f"; known: {', '.join(STATES)}"
            yield Wrong("RVT-203", f"options.{key}", f"unknown option '{key}'{hint}")
        elif not is_unexpanded(value) and (why := _wrong_value(key, value)) is not None:
            yield Wrong("RVT-204", f"options.{key}", f"`{key}` must be {why}, not {show(value)}")
    several = [f"`{key}`" for key in STATES if key in options]
    if len(several) > 1:
        message = f"only one of {', '.join(several)} can say which state of the table is read"
        yield Wrong("RVT-204", "options", message)


def snapshot_read(table: Table, options: Mapping[str, Any]) -> int | None:
    """Return the snapshot that a source with ``options`` reads now; None for a table without snapshots.

    Raises RVT-403 if there is no such state of the table, or not any more.
    """
    if SNAPSHOT in options:
        return _known_snapshot(table, int(options[SNAPSHOT]))
    if TIME in options:
        return _snapshot_at(table, _time(str(options[TIME])))
    for kind in (BRANCH, TAG):
        if kind in options:
            return _ref(table, kind, str(options[kind]))
    current = table.metadata.current_snapshot_id
    return None if current is None else int(current)


def _known_snapshot(table: Table, snapshot: int) -> int:
    if table.snapshot_by_id(snapshot) is None:
        raise _missing(table, f"has no snapshot {snapshot}, or it has expired")
    return snapshot


def _snapshot_at(table: Table, moment: datetime) -> int:
    snapshot = table.snapshot_as_of_timestamp(round(moment.timestamp() * 1000))
    if snapshot is None or table.snapshot_by_id(snapshot.snapshot_id) is None:
        raise _missing(table, f"has no snapshot of {moment.isoformat()}, or it has expired")
    return int(snapshot.snapshot_id)


def _ref(table: Table, kind: str, name: str) -> int:
    refs = {known: ref for known, ref in table.metadata.refs.items() if ref.snapshot_ref_type.value == kind}
    if name not in refs:
        raise _missing(table, f"has no {kind} '{name}'{nearest(name, list(refs))}")
    return int(refs[name].snapshot_id)


def _missing(table: Table, why: str) -> RivetError:
    remedy = "Correct `branch`, `tag`, `snapshot_id` or `as_of` of the source's `options`."
    return RivetError("RVT-403", f"the table {'.'.join(table.name())} {why}", remediation=remedy)


def _wrong_value(key: str, value: Any) -> str | None:
    if key == SNAPSHOT:
        is_number = not isinstance(value, bool) and str(value).isdecimal()
        return None if is_number else "a whole number"
    if key == TIME:
        try:
            _time(str(value))
        except ValueError:
            return "a time like 2024-01-31T12:00:00Z"
        return None
    return None if isinstance(value, str) and value else "a name"


def _time(text: str) -> datetime:
    """Return a time of ISO 8601; without an offset it is in UTC."""
    if len(text) < len("2024-01-31"):
        raise ValueError(text)
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
