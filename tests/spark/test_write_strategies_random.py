"""Random batches, one after another, give the results of a Python model: rows, counts, columns and errors."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from support.batches import Table, in_order
from support.folders import ProjectFolder
from support.strategy_model import ModelTable, Refused
from support.torture import examples

TYPES = {"id": "INT", "part": "STRING", "at": "INT", "val": "STRING", "extra": "BIGINT"}
CHANGES = [{}, {"on_schema_change": "add"}, {"on_schema_change": "ignore"}]
STRATEGIES: list[dict[str, Any]] = [
    {"mode": "replace"},
    {"mode": "truncate_insert"},
    {"mode": "append"},
    {"mode": "merge", "key_columns": ["id"]},
    {"mode": "merge", "key_columns": ["id"], "order_by": ["at"]},
    {"mode": "merge", "key_columns": ["part", "id"], "watermark_column": "at"},
    {"mode": "delete_insert", "key_columns": ["id"]},
    {"mode": "delete_insert", "partition_by": ["part", "at"]},
    {"mode": "snapshot", "partition_column": "part"},
    {"mode": "incremental_append", "watermark_column": "at"},
]
VALUES = {
    "id": st.sampled_from([None, 1, 2, 3, 40]),
    "part": st.sampled_from([None, "x", "y"]),
    "at": st.sampled_from([None, 1, 2, 3]),
    "val": st.sampled_from([None, "a", "b"]),
    "extra": st.sampled_from([None, 7]),
}
EXAMPLES = examples(5, 15)


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[str], list[dict[str, Any]]]:
    """Generate columns in some order, mostly those of the table, and rows."""
    shape = draw(st.sampled_from(["same", "same", "same", "lacks", "more"]))
    columns = [c for c in TYPES if c != "extra" or shape == "more"]
    if shape == "lacks":
        columns.remove("val")
    columns = draw(st.permutations(columns))
    rows = draw(st.lists(st.fixed_dictionaries({c: VALUES[c] for c in columns}), max_size=6))
    return columns, rows


@st.composite
def histories(draw: st.DrawFn) -> tuple[bool, dict[str, Any], list[tuple[list[str], list[dict[str, Any]], bool]]]:
    """Generate whether a sink writes, a strategy, and one to six batches, some of them twice, some full refreshes."""
    strategy = draw(st.sampled_from(STRATEGIES))
    if strategy["mode"] != "replace":
        strategy = strategy | draw(st.sampled_from(CHANGES))
    incoming = draw(st.lists(batches(), min_size=1, max_size=4))
    again = draw(st.lists(st.sampled_from(incoming), max_size=2))
    refreshes = st.sampled_from([False, False, True])
    return draw(st.booleans()), strategy, [(*batch, draw(refreshes)) for batch in incoming + again]


@pytest.mark.nightly
def test_random_batches_give_the_rows_of_the_model(tmp_path_factory, application, request):
    chosen = request.config.getoption("--examples")

    @settings(
        max_examples=chosen or EXAMPLES,
        deadline=None,
        derandomize=chosen is None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(histories())
    def compare(history):
        as_sink, strategy, incoming = history
        table = Table(ProjectFolder(tmp_path_factory.mktemp("random") / "project", {}), strategy, "", as_sink)
        model = ModelTable(strategy)
        for columns, rows, full_refresh in incoming:
            note(f"{strategy}: {columns} {rows} {full_refresh}")
            ddl = ", ".join(f"{column} {TYPES[column]}" for column in columns)
            batch = [[row[column] for column in columns] for row in rows]
            try:
                expected = model.refresh(columns, rows) if full_refresh else model.write(columns, rows)
            except Refused as refused:
                expected = str(refused)
            if isinstance(expected, str):
                assert table.refuse(batch, ddl, full_refresh=full_refresh).code == expected
                continue
            assert table.write(batch, ddl, full_refresh=full_refresh) == expected
            assert list(table.types) == model.columns
            assert table.rows == in_order(tuple(row.values()) for row in model.rows)

    compare()


def test_the_model_detects_a_wrong_merge():
    """A model that accepts anything would prove nothing."""
    model = ModelTable({"mode": "merge", "key_columns": ["id"]})
    assert model.write(["id", "val"], [{"id": None, "val": "a"}]) == (1, 0, 0, 1)
    assert model.write(["id", "val"], [{"id": None, "val": "b"}]) == (0, 1, 0, 1)
    with pytest.raises(Refused, match="RVT-515"):
        model.write(["id", "val"], [{"id": 1, "val": "a"}, {"id": 1, "val": "b"}])
