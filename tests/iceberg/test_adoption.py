"""Tables of Iceberg that somebody else has made, taken over; without a JVM."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform
from pyiceberg.types import LongType, NestedField, TimestampType
from support.adoption import adopt_of_iceberg, killed, reading
from support.iceberg_runs import NAMESPACE, TABLE, Work, run
from support.tables import refused

from rivet_dagster.catalogs.iceberg.commits import committing
from rivet_dagster.model.storage import CURRENT, OLDER
from rivet_dagster.model.write_plan import Append, ReplaceAll

NAME = (NAMESPACE, TABLE)
SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "net", LongType()))
ROWS = pa.table({"id": [1, 2], "net": [10, 20]})
APPEND = Append()


@pytest.fixture
def foreign(place):
    """Make a table as another tool does."""
    place.plain.create_namespace_if_not_exists(NAMESPACE)
    table = place.plain.create_table(NAME, SCHEMA, properties={"owner": "dbt"})
    table.append(ROWS.slice(0, 1))
    table.append(ROWS.slice(1, 1))
    return table


def content(place):
    """Return what readers see, and everything of the table's metadata but its properties of ours and its history."""
    table = place.plain.load_table(NAME)
    metadata = table.metadata.model_dump(exclude={"properties", "metadata_log", "last_updated_ms"})
    mine = {key: value for key, value in table.metadata.properties.items() if not key.startswith("rivet.")}
    return table.scan().to_arrow().sort_by("id").to_pydict(), metadata, mine


def test_a_table_of_another_tool_is_written_to_once_it_is_taken_over(place, foreign):
    before, snapshot = content(place), foreign.metadata.current_snapshot_id
    error = refused(place.catalog.begin, TABLE)
    assert error.code == "RVT-404"
    assert "rivet-dagster adopt JOINT" in str(error)
    assert place.catalog.existing(TABLE).statistics.rows == 2
    adopted = place.catalog.adopt(TABLE)
    assert (adopted.version, adopted.identity, adopted.statistics.rows) == (str(snapshot), "adopted", 2)
    assert content(place) == before
    assert (place.catalog.existing(TABLE), place.catalog.adopt(TABLE)) == (None, adopted)
    first, second = place.catalog.versions(TABLE)
    assert (first.state, first.identity, first.rows) == (CURRENT, "adopted", 2)
    assert (second.state, second.identity, second.rows) == (OLDER, "", 1)
    run(place.catalog, Work([5], 50, APPEND), place.root)
    assert content(place)[0]["id"] == [1, 2, 5]
    assert content(place)[2] == {"owner": "dbt"}
    current, *older = place.catalog.versions(TABLE)
    assert (current.rows, [version.identity for version in older]) == (3, ["adopted", ""])
    error = refused(place.catalog.give_up, TABLE)
    assert error.code == "RVT-404"
    assert f"'{place.catalog.access.open(TABLE).name}' is at the version {current.name}" in str(error)


def test_it_is_given_up_until_something_is_published(place, foreign):
    assert not place.catalog.give_up(TABLE)
    before = content(place)
    for _ in range(2):
        place.catalog.adopt(TABLE)
        assert place.catalog.give_up(TABLE)
        assert content(place) == before
        assert place.plain.load_table(NAME).metadata.properties == {"owner": "dbt"}
        assert refused(place.catalog.begin, TABLE).code == "RVT-404"


def test_rows_that_others_append_meanwhile_are_taken_over_or_refuse_it(place, foreign, monkeypatch):
    """The commit requires the snapshot that was read; it is made again upon the next one."""
    send, appended = committing.send, []

    def appending(request):
        if not appended:
            appended.append(foreign.append(pa.table({"id": [3], "net": [30]})))
            raise CommitFailedException("branch main has changed")
        return send(request)

    monkeypatch.setattr(committing, "send", appending)
    adopted = place.catalog.adopt(TABLE)
    assert (adopted.statistics.rows, adopted.identity) == (3, "adopted")


def test_the_layout_is_shown(place):
    schema = Schema(*SCHEMA.fields, NestedField(3, "at", TimestampType()))
    spec = PartitionSpec(
        PartitionField(3, 1000, DayTransform(), "at_day"),
        PartitionField(1, 1001, BucketTransform(4), "id_bucket"),
        PartitionField(2, 1002, IdentityTransform(), "net"),
    )
    place.plain.create_namespace_if_not_exists(NAMESPACE)
    order = SortOrder(SortField(1, IdentityTransform()))
    table = place.plain.create_table(NAME, schema, partition_spec=spec, sort_order=order)
    existing = place.catalog.existing(TABLE)
    assert (existing.uri, existing.statistics.rows) == (table.location(), 0)
    assert existing.statistics.columns == (("id", "bigint"), ("net", "bigint"), ("at", "timestamp_ntz"))
    assert existing.layout == {
        "format version": "2",
        "snapshot": "none",
        "partitions": "day(at), bucket[4](id), net",
        "sort order": "id asc",
    }
    assert place.catalog.adopt(TABLE) is None  # it has no version; a run publishes the first one
    place.catalog.begin(TABLE).abort()


def test_there_may_be_no_table_and_one_that_was_published_is_none_of_others(place):
    assert (place.catalog.existing(TABLE), place.catalog.adopt(TABLE)) == (None, None)
    run(place.catalog, Work([5], 50, ReplaceAll()), place.root)
    published = place.catalog.current(TABLE)
    place.plain.load_table(NAME).append(ROWS)
    assert (place.catalog.existing(TABLE), place.catalog.adopt(TABLE).statistics.rows) == (None, 3)
    assert refused(place.catalog.give_up, TABLE).code == "RVT-404"
    assert published.identity
    place.catalog.begin(TABLE).abort()


def test_a_table_of_a_later_format_is_refused(place, foreign):
    metadata = Path(foreign.metadata_location.removeprefix("file:"))
    metadata.write_text(json.dumps({**json.loads(metadata.read_text()), "format-version": 3, "next-row-id": 0}))
    for call in (place.catalog.existing, place.catalog.adopt):
        assert refused(call, TABLE).code == "RVT-402"


def test_a_kill_leaves_the_table_as_it_was_or_taken_over(place, foreign):
    """Before each change of the file system, beside a reader; the same command does what is left to do."""

    def read() -> list[int]:
        return sorted(place.plain.load_table(NAME).scan().to_arrow()["id"].to_pylist())

    changes, code = killed(place.root, adopt_of_iceberg, -1)
    assert code == 0
    outcomes = []
    for at in range(changes):
        assert place.catalog.give_up(TABLE) is (at == 0 or outcomes[-1])
        with reading(read) as seen:
            assert killed(place.root, adopt_of_iceberg, at) == (at + 1, -signal.SIGKILL)
        assert all(rows == [1, 2] for rows in seen), (at, seen)
        outcomes.append(place.catalog.existing(TABLE) is None)
    taken = outcomes.index(True)
    assert outcomes == [False] * taken + [True] * (changes - taken)
    assert place.catalog.adopt(TABLE).identity == "adopted"
