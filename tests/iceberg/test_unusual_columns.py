"""Names of fields that need quotes, and texts with a collation, by each strategy, on Iceberg and in folders."""

from dataclasses import replace

import pytest
from support.iceberg import declared
from support.iceberg_runs import lake
from support.tables import catalog as folders

from rivet_dagster.catalogs.capabilities.transaction import WriteContext
from rivet_dagster.model.write_plan import Append, DeleteInsert, History, ReplaceAll, ReplacePartitions, Upsert

PLANS = (
    Append(),
    Upsert(keys=("id",)),
    DeleteInsert(columns=("id",)),
    ReplacePartitions(column="id"),
    History(keys=("id",)),
    ReplaceAll(),
)
NESTED = "array(named_struct('a:b', map('k', named_struct('x,y>', {0}, 'a`b', 'é'))))"
STRUCT = f"named_struct('order-id', {{0}}, '@type', {NESTED}, '1', CAST({{0}} AS STRING), 'date', 1)"


@pytest.fixture(params=["hadoop", "folders"])
def place(request, iceberg_session, tmp_path):
    options = declared("hadoop", tmp_path / "hadoop")
    session = iceberg_session(lake=options)
    return (lake(options, tmp_path) if request.param == "hadoop" else folders(tmp_path)), session


def written(place, table: str, plan, sql: str) -> list:
    catalog, session = place
    with catalog.begin(table, session) as transaction:
        transaction.write(plan, session.query(sql), WriteContext(identity="run/x"))
        transaction.commit(f"run/{sql}")
    return read(place, table)


def read(place, table: str) -> list:
    catalog, session = place
    rows = session.to_arrow(session.load(catalog.read(catalog.current(table)))).to_pylist()
    return sorted(rows, key=str)


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: type(plan).__name__)
def test_names_of_fields_that_need_quotes_and_texts_with_a_collation(place, plan):
    def batch(number: int, text: str, n: str = "1", key: int = 1) -> str:
        row = STRUCT.format(number)
        if isinstance(plan, History):  # compares whole rows, which Spark does not with maps in them
            row = row.replace("map('k', ", "named_struct('k-k', ")
        texts = f"'{text}' COLLATE UTF8_LCASE AS name, array('{text}' COLLATE UNICODE_CI) AS names"
        return f"SELECT {key} AS id, {row} AS s, {n} AS n, {texts}"

    assert [row["s"]["order-id"] for row in written(place, "orders", plan, batch(1, "B"))] == [1]
    rows = written(place, "orders", plan, batch(1, "b"))  # is another row, though the texts compare as equal
    assert ("b", ["b"]) in [(row["name"], row["names"]) for row in rows]
    wider = not isinstance(plan, ReplaceAll | History)
    last = batch(2, "b", "2L" if wider else "2", 2) + (f", {STRUCT.format(3)} AS t" if wider else "")
    rows = written(place, "orders", replace(plan, schema_change="add") if wider else plan, last)
    assert max(row["s"]["order-id"] for row in rows) == 2
    if wider:
        assert [row["t"]["@type"][0]["a:b"] for row in rows if row["t"]] == [[("k", {"x,y>": 3, "a`b": "é"})]]


@pytest.mark.nightly(but=1)
def test_keys_are_compared_as_bytes_whatever_their_collation(place):
    by_name = Upsert(keys=("name",))
    written(place, "keys", by_name, "SELECT 'a' COLLATE UTF8_LCASE AS name, 1 AS n")
    rows = written(place, "keys", by_name, "SELECT 'A' COLLATE UTF8_LCASE AS name, 2 AS n")
    assert [(row["name"], row["n"]) for row in rows] == [("A", 2), ("a", 1)]
