"""The layout that a sink's options declare, and what it changes in a table."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import (
    BooleanType,
    DateType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)
from support.folders import ProjectFolder, sink
from support.iceberg_folders import profiles

from rivet_dagster import compile_directory
from rivet_dagster.catalogs.iceberg.metadata.declared_layout import PartitionText, SortText, partition_text, sort_text
from rivet_dagster.catalogs.iceberg.metadata.layout import (
    IcebergLayout,
    layout_updates,
    order_of,
    parse_layout,
    retain_layout,
    spec_of,
    table_properties,
    wrong_layout,
)
from rivet_dagster.errors import RivetError

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "Day", DateType()),
    NestedField(3, "at", TimestamptzType()),
    NestedField(4, "name", StringType()),
    NestedField(5, "place", StructType(NestedField(6, "city", StringType()), NestedField(7, "zip code", StringType()))),
    NestedField(8, "list", ListType(9, LongType())),
)


def layout(
    partitioned_by: list[str] | None = None, sort_order: list[str] | None = None, **properties: Any
) -> IcebergLayout:
    options = {"partitioned_by": partitioned_by, "sort_order": sort_order, "properties": properties}
    return parse_layout({key: value for key, value in options.items() if value is not None})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("day", PartitionText(("day",))),
        ("identity(day)", PartitionText(("day",))),
        (" days ( at ) ", PartitionText(("at",), "day")),
        ("DAY(at)", PartitionText(("at",), "day")),
        ("date_hour(at)", PartitionText(("at",), "hour")),
        ("month(place.at)", PartitionText(("place", "at"), "month")),
        ("bucket(4, id)", PartitionText(("id",), "bucket", 4)),
        ("truncate(name, 10)", PartitionText(("name",), "truncate", 10)),
        ("truncate(10, name)", PartitionText(("name",), "truncate", 10)),
        ("`a.b (c)`", PartitionText(("a.b (c)",))),
        ("years(`a``(b)`.c)", PartitionText(("a`(b)", "c"), "year")),
        ("größe", PartitionText(("größe",))),
        ("1st", PartitionText(("1st",))),
    ],
)
def test_fields_of_partitions_are_written_as_in_ddl(text: str, expected: PartitionText) -> None:
    assert partition_text(text) == expected


@pytest.mark.parametrize(
    ("text", "descending", "nulls_last"),
    [
        ("id", False, False),
        ("id asc", False, False),
        ("id DESC", True, True),
        ("id desc nulls first", True, False),
        ("id Nulls Last", False, True),
        ("bucket(4, id) DESC", True, True),
    ],
)
def test_nulls_are_where_spark_has_them(text: str, descending: bool, nulls_last: bool) -> None:
    found = sort_text(text)
    assert (found.descending, found.nulls_last) == (descending, nulls_last)
    assert found.field.column == ("id",)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ({"partition_by": ["a"]}, "RVT-203", "unknown option 'partition_by'; did you mean 'partitioned_by'?"),
        ({"retris": 1}, "RVT-203", "did you mean 'retries'"),
        ({"partitioned_by": "day"}, "RVT-204", "must be a list of texts"),
        ({"partitioned_by": ["day", 3]}, "RVT-204", "3 is no text"),
        ({"partitioned_by": ["day at"]}, "RVT-204", "'day at' is no column"),
        ({"partitioned_by": [""]}, "RVT-204", "'' is no column"),
        ({"partitioned_by": ["days(at"]}, "RVT-204", "is no column"),
        ({"partitioned_by": ["dys(at)"]}, "RVT-204", "unknown transform 'dys'; did you mean 'days'"),
        ({"partitioned_by": ["days(at, 3)"]}, "RVT-204", "must be written like days(column)"),
        ({"partitioned_by": ["bucket(id)"]}, "RVT-204", "must be written like bucket(4, column)"),
        ({"partitioned_by": ["bucket(4, id, 4)"]}, "RVT-204", "must be written like bucket(4, column)"),
        ({"partitioned_by": ["bucket(-1, id)"]}, "RVT-204", "-1 as its number of buckets"),
        ({"partitioned_by": ["truncate(9999999999, id)"]}, "RVT-204", "which must be from 1 to 2147483647"),
        ({"partitioned_by": ["day", "day"]}, "RVT-204", "of the same column and kind"),
        ({"partitioned_by": ["days(at)", "hours(AT)"]}, "RVT-204", "of the same column and kind"),
        ({"sort_order": ["id upwards"]}, "RVT-204", "is no column like `day`"),
        ({"sort_order": ["id", "id DESC"]}, "RVT-204", "of the same column and kind"),
        ({"properties": ["a"]}, "RVT-204", "must be a mapping"),
        ({"properties": {"rivet.properties": "a"}}, "RVT-204", "is set by rivet_dagster itself"),
        ({"properties": {"current-schema": "a"}}, "RVT-204", "is reserved by Iceberg"),
        ({"properties": {"format-version": 3}}, "RVT-204", "must be 2, not 3"),
        ({"properties": {"a": None}}, "RVT-204", "must be a text, a number, true or false"),
        ({"properties": {"a,b": 1}}, "RVT-204", "no property is called 'a,b'"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], code: str, message: str) -> None:
    (wrong,) = wrong_layout(options)
    assert wrong.code == code
    assert message in wrong.message
    with pytest.raises(RivetError) as caught:
        parse_layout(options)
    assert caught.value.code == code


def test_what_is_not_expanded_is_not_judged() -> None:
    options = {"partitioned_by": ["${DAY}", "id"], "sort_order": "${ORDER}", "properties": {"format-version": "${V}"}}
    assert not list(wrong_layout(options))
    good = {"partitioned_by": [], "sort_order": [], "properties": {"write.data.path": "x", "a": True, "b": 1.5, "c": 2}}
    assert not list(wrong_layout(good))
    assert parse_layout(good) == IcebergLayout((), (), {"write.data.path": "x", "a": "true", "b": "1.5", "c": "2"})
    assert parse_layout({}) == IcebergLayout(properties={})


@pytest.mark.parametrize(
    ("fields", "messages"),
    [
        (
            {},
            ["`partitioned_by` names dy, which the table does not have; did you mean 'day'?", "`sort_order` names ix"],
        ),
        ({"write_strategy": "append"}, ["`partitioned_by` names dy", "`sort_order` names ix"]),
        ({"write_strategy": {"mode": "append", "on_schema_change": "add"}}, []),  # the table may have it
        ({"upstream": ["anything"]}, []),
    ],
)
def test_columns_of_a_layout_are_looked_up_when_compiling(
    tmp_path: Path, fields: dict[str, Any], messages: list[str]
) -> None:
    options = {"partitioned_by": ["DAY", "days(dy)", "${MORE}"], "sort_order": ["id", "place.x DESC", "bucket(4, ix)"]}
    files = {
        "profiles.yaml": profiles(),
        "sources/unknown.yaml": {"type": "source", "catalog": "raw", "table": "x.csv"},
        "joints/anything.sql": "SELECT * FROM unknown",
        "joints/days.sql": "SELECT 1 AS id, DATE'2024-01-31' AS day, named_struct('y', 1) AS place",
        "sinks/out.yaml": sink("out", "days", options=options) | fields,
    }
    errors = compile_directory(ProjectFolder(tmp_path, files).root).errors
    assert [error.code for error in errors] == ["RVT-324"] * len(messages)
    assert all(message in error.message for error, message in zip(errors, messages, strict=True)), errors
    assert {(error.joint, error.file) for error in errors} <= {("out", "sinks/out.yaml")}


def test_specs_and_orders() -> None:
    wanted = layout(
        ["day", "days(at)", "bucket(4, ID)", "truncate(2, name)", "place.city"],
        ["place.`zip code`", "bucket(8, id) DESC NULLS FIRST"],
    )
    spec = spec_of(wanted, SCHEMA, None, None)
    assert [(field.field_id, field.name, field.source_id, str(field.transform)) for field in spec.fields] == [
        (1000, "Day", 2, "identity"),
        (1001, "at_day", 3, "day"),
        (1002, "id_bucket", 1, "bucket[4]"),
        (1003, "name_trunc", 4, "truncate[2]"),
        (1004, "place.city", 6, "identity"),
    ]
    order = order_of(wanted, SCHEMA, None)
    assert [str(field) for field in order.fields] == ["7 ASC NULLS FIRST", "bucket[8](1) DESC NULLS FIRST"]
    assert spec_of(wanted, SCHEMA, spec, 1004) is spec
    assert order_of(wanted, SCHEMA, order) is order
    assert (spec_of(layout(), SCHEMA, spec, 1004), order_of(layout(), SCHEMA, order)) == (spec, order)
    assert (spec_of(layout(), SCHEMA, None, None).fields, order_of(layout(), SCHEMA, None).fields) == ((), [])
    changed = spec_of(layout(["bucket(8, id)", "days(at)"]), SCHEMA, spec, 1010)
    fields = [(field.field_id, field.name) for field in changed.fields]
    assert (changed.spec_id, fields) == (1, [(1011, "id_bucket_8"), (1001, "at_day")])


def test_letter_case_decides_between_columns_that_differ_in_nothing_else() -> None:
    schema = Schema(*SCHEMA.fields, NestedField(10, "day", DateType()), NestedField(11, "DAY", DateType()))
    for name, source in (("Day", 2), ("day", 10), ("DAY", 11), ("dAY", 2)):
        assert [field.source_id for field in spec_of(layout([name]), schema, None, None).fields] == [source]


def test_the_name_of_a_field_is_not_that_of_a_column() -> None:
    schema = Schema(*SCHEMA.fields, NestedField(10, "at_day", LongType()))
    assert [field.name for field in spec_of(layout(["days(at)"]), schema, None, None).fields] == ["at_day_1000"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Days", "the table has no column 'Days'; did you mean 'Day'?"),
        ("place.cty", "no column 'place.cty'; did you mean 'place.city'"),
        ("id.x", "no column 'id.x'"),
        ("list.element", "no column 'list.element'"),
        ("days(name)", "a column of the type string does not have 'day(name)'"),
        ("place", "does not have 'place'"),
    ],
)
def test_columns_that_do_not_fit_are_refused(text: str, message: str) -> None:
    with pytest.raises(RivetError) as caught:
        spec_of(layout([text]), SCHEMA, None, None)
    assert caught.value.code == "RVT-514"
    assert message in str(caught.value)
    with pytest.raises(RivetError, match="`sort_order`"):
        order_of(layout(sort_order=[text]), SCHEMA, None)


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("shop")
    yield catalog.create_table("shop.orders", SCHEMA, properties={"theirs": "1"})
    catalog.close()


def apply(table: Table, wanted: IcebergLayout) -> list[str]:
    """Give a table a layout, and return the actions that it took."""
    updates = layout_updates(wanted, table.metadata)
    table.catalog.commit_table(table, (), updates)
    table.refresh()
    assert layout_updates(wanted, table.metadata) == ()
    return [update.action for update in updates]


def test_a_table_follows_its_layout(table: Table) -> None:
    spec = ["add-spec", "set-default-spec"]
    order = ["add-sort-order", "set-default-sort-order"]
    assert apply(table, layout(["days(at)"], ["id DESC"])) == [*spec, *order]
    assert apply(table, layout(["days(at)"], ["id"])) == order
    assert apply(table, layout(["bucket(4, id)"])) == spec
    assert apply(table, layout(["days(at)", "bucket(4, id)"])) == spec
    assert apply(table, layout()) == []
    fields = [(field.field_id, field.name) for field in table.spec().fields]
    assert fields == [(1000, "at_day"), (1001, "id_bucket")]
    assert apply(table, layout(["days(at)"], ["id desc"])) == [spec[1], order[1]]
    assert apply(table, layout([], [])) == [spec[1], order[1]]
    assert (table.spec().fields, table.sort_order().fields) == ((), [])
    table.append(pa.table({"id": [1]}))
    assert len(table.scan().to_arrow()) == 1


def test_partitions_of_columns_that_go_are_of_those_with_their_names_if_these_fit(table: Table) -> None:
    texts = ["bucket(4, id)", "truncate(2, place.city)"], ["bucket(8, id) DESC"]
    apply(table, layout(*texts))
    place = NestedField(32, "place", StructType(NestedField(33, "city", LongType())))
    found = retain_layout(IcebergLayout(), Schema(NestedField(31, "id", StringType()), place), table.metadata)
    assert found == replace(layout(*texts), properties=None)
    for columns, why in (
        ([NestedField(31, "ID", BooleanType())], "would be of the type boolean"),
        ([place], "it would not have"),
    ):
        with pytest.raises(RivetError) as caught:
            retain_layout(IcebergLayout(), Schema(*columns), table.metadata)
        assert f"RVT-514 the table is partitioned by 'bucket(4, id)', which {why}" in str(caught.value)


def test_properties_that_are_no_longer_declared_are_removed(table: Table) -> None:
    assert table_properties(layout(b="2", a=True)) == {"a": "true", "b": "2", "rivet.properties": "a,b"}
    assert apply(table, layout(b="2", a=True, **{"format-version": 2})) == ["set-properties"]
    assert table.properties == {"theirs": "1", "a": "true", "b": "2", "rivet.properties": "a,b"}
    assert apply(table, layout(b="3")) == ["set-properties", "remove-properties"]
    assert table.properties == {"theirs": "1", "b": "3", "rivet.properties": "b"}
    assert apply(table, layout()) == ["remove-properties"]
    assert table.properties == {"theirs": "1"}


def test_partitions_of_the_first_format(tmp_path: Path, table: Table) -> None:
    old = table.catalog.create_table("shop.old", SCHEMA, properties={"format-version": "1"})
    with pytest.raises(RivetError, match="format 1 cannot be changed"):
        layout_updates(layout(["id"]), old.metadata)
    assert apply(old, layout(["id"], **{"format-version": "2"}))[0] == "upgrade-format-version"
    assert old.metadata.format_version == 2


def test_sort_texts_have_fields() -> None:
    assert sort_text("truncate(name, 3) desc") == SortText(PartitionText(("name",), "truncate", 3), True, True)
