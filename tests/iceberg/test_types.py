"""The types of Spark and Iceberg, and the ids of columns that a table has already."""

import json
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import (
    FixedType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    UUIDType,
)

from rivet_dagster.catalogs.iceberg.metadata.types import iceberg_schema, same_columns, sql_columns
from rivet_dagster.errors import RivetError


def field(name: str, type_: Any, comment: str | None = None) -> dict[str, Any]:
    metadata = {"comment": comment} if comment else {}
    return {"name": name, "type": type_, "nullable": False, "metadata": metadata}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def schema(*fields: dict[str, Any], base: Schema | None = None, first: int = 1) -> Schema:
    return iceberg_schema(json.dumps(struct(*fields)), base, first)


PLACE = struct(field("city", "string", "town"), field("at", "timestamp"))
WIDE = (
    field("a", "byte"),
    field("b", "short"),
    field("c", "varchar(3)"),
    field("d", "timestamp_ntz"),
    field("e", "decimal(5,2)"),
    field("place", PLACE),
    field("f", {"type": "array", "elementType": PLACE, "containsNull": False}),
    field("g", {"type": "map", "keyType": "string", "valueType": PLACE, "valueContainsNull": False}),
    field("h", {"type": "udt", "class": "x", "sqlType": "long"}),
    field("i", "binary"),
)


def all_ids(schema: Schema) -> list[int]:
    return sorted(schema._lazy_id_to_field)


def test_columns_of_a_new_table() -> None:
    made = schema(*WIDE)
    place = "struct<city:string,at:timestamp>"
    types = ["int", "int", "string", "timestamp_ntz", "decimal(5,2)", place, f"array<{place}>"]
    types += [f"map<string,{place}>", "bigint", "binary"]
    assert sql_columns(made) == tuple(zip("a b c d e place f g h i".split(), types, strict=True))
    assert all_ids(made) == list(range(1, 20))
    required = [field.name for field in made._lazy_id_to_field.values() if field.required]
    assert required == ["key"]
    assert made.find_field("place.city").doc == "town"
    arrow = schema_to_pyarrow(made, include_field_ids=False)
    assert arrow.field("f").type.value_type.field("at").type == pa.timestamp("us", "UTC")


@pytest.mark.parametrize("type_", ["void", "variant", "interval day to second", "time(6)", "geometry(4326)"])
def test_types_without_another_are_refused(type_: str) -> None:
    with pytest.raises(RivetError) as caught:
        schema(field("place", struct(field("x", type_))))
    assert caught.value.code == "RVT-514"
    assert f"place.x is of the type {type_}" in str(caught.value)


def test_columns_of_a_table_keep_their_ids() -> None:
    base = schema(*WIDE, field("n", "integer", "number"), field("r", "float"), field("gone", "long"))
    batch = (*WIDE[:4], field("E", "decimal(7,2)"), *WIDE[5:], field("N", "long"), field("r", "double", "real"))
    made = schema(*batch, base=base, first=50)
    assert all_ids(made) == sorted({*all_ids(base)} - {base.find_field("gone").field_id})
    for old, new in [("place.city", "place.city"), ("e", "E"), ("n", "N"), ("f.element.at", "f.element.at")]:
        assert base.find_field(old).field_id == made.find_field(new).field_id
    assert [made.find_field(name).doc for name in ("N", "r", "place.city")] == ["number", "real", "town"]
    assert dict(sql_columns(made))["E"] == "decimal(7,2)"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("long", "integer"),
        ("string", "long"),
        ("decimal(5,2)", "decimal(6,3)"),
        ("decimal(5,2)", "decimal(4,2)"),
        ("integer", "double"),
        ("date", "timestamp_ntz"),
        (PLACE, struct(field("city", "string"), field("at", "date"))),
    ],
)
def test_a_column_of_another_type_is_a_new_one(old: Any, new: Any) -> None:
    base = schema(field("a", "long"), field("b", old))
    made = schema(field("b", new), field("c", "long"), field("a", "long"), base=base, first=10)
    assert [made.find_field(name).field_id for name in "bca"] == [10, 13 if isinstance(new, dict) else 11, 1]


def test_types_that_only_other_writers_use_stay() -> None:
    base = Schema(
        NestedField(1, "key", UUIDType(), required=True),
        NestedField(2, "hash", FixedType(8)),
        NestedField(3, "list", ListType(4, StructType(NestedField(5, "x", IntegerType(), required=True)))),
        NestedField(6, "map", MapType(7, StringType(), 8, LongType(), value_required=True)),
        identifier_field_ids=[1],
    )
    columns = (("key", "string"), ("hash", "binary"), ("list", "array<struct<x:int>>"), ("map", "map<string,bigint>"))
    assert sql_columns(base) == columns
    x = {"type": "array", "elementType": struct(field("x", "integer"))}
    map_ = {"type": "map", "keyType": "string", "valueType": "long"}
    made = schema(field("key", "string"), field("hash", "binary"), field("list", x), field("map", map_), base=base)
    assert [str(field.field_type) for field in made.fields[:2]] == ["uuid", "fixed[8]"]
    assert [field.field_id for field in made._lazy_id_to_field.values() if field.required] == [7]
    assert all_ids(made) == all_ids(base)


def test_the_same_columns_have_the_same_names_types_and_order() -> None:
    made = schema(field("a", "integer"), field("b", {"type": "array", "elementType": "short"}), field("c", "string"))
    assert same_columns(made, (("a", "tinyint"), ("b", "array<smallint>"), ("c", "varchar(3)")))
    assert not same_columns(made, (("A", "int"), ("b", "array<int>"), ("c", "string")))
    assert not same_columns(made, (("b", "array<int>"), ("a", "int"), ("c", "string")))
    assert not same_columns(made, (("a", "int"), ("b", "array<int>")))
