"""A test and the plan together: what is given and computed, and mistakes that only the plan shows."""

from __future__ import annotations

import pytest

from rivet_dagster import compile_directory
from rivet_dagster.errors import RivetError
from rivet_dagster.project_tests.parsing import read_tests
from rivet_dagster.project_tests.prepared import prepare

FILES = {
    "rivet.yaml": "profiles: profiles.yaml\nsources: sources\njoints: joints\nsinks: sinks\n",
    "profiles.yaml": "default:\n  catalogs:\n    lake: {type: filesystem, path: lake}\n"
    "  engines:\n    - {name: spark, type: pyspark, catalogs: [lake]}\n",
    "sources/orders.yaml": "type: source\ncatalog: lake\ntable: o\n"
    "options: {schema: 'id BIGINT, net DOUBLE, day DATE'}\n",
    "sources/loose.yaml": "type: source\ncatalog: lake\ntable: l\n",
    "sources/codes.yaml": "type: source\ncatalog: lake\ntable: c\n",
    "joints/paid.sql": "-- rivet:assert: not_null(id)\n-- rivet:assert: relationship(column=id, to=codes.id)\n"
    "SELECT id, net FROM orders",
    "joints/total.sql": "SELECT sum(net) AS net FROM paid, loose",
    "joints/later.sql": "SELECT id, day FROM orders\n"
    "{% if is_incremental() %}WHERE day > {{ watermark_value }}{% endif %}",
    "sinks/days.yaml": "type: sink\ncatalog: lake\ntable: days\nupstream: later\n"
    "write_strategy: {mode: merge, key_columns: id, watermark_column: day}\n",
}


@pytest.fixture
def prepared(tmp_path):
    def made(text: str):
        for name, content in {**FILES, "tests/t.test.yaml": text}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        (test,) = read_tests(tmp_path)
        return prepare(test, compile_directory(tmp_path).raise_errors(), tmp_path)

    return made


def test_an_input_has_the_columns_of_the_plan_and_its_values_their_types(prepared):
    rows = prepared("target: paid\ninputs: {orders: {rows: [{net: 1, DAY: '2026-01-02'}]}}\nexpected: {rows: []}\n")
    table = rows.fixtures["orders"]
    assert [(name, str(type_)) for name, type_ in table.columns] == [
        ("id", "bigint"),
        ("net", "double"),
        ("day", "date"),
    ]
    assert repr(table.rows) == "((None, 1.0, datetime.date(2026, 1, 2)),)"


def test_an_input_that_the_plan_knows_nothing_of_has_the_types_of_its_values(prepared):
    text = "target: total\ninputs: {{loose: {{rows: {}}}, paid: {{rows: []}}}}\nexpected: {{rows: []}}\n"
    columns = prepared(text.format("[{a: 1, b: x, c: null, d: [1.5], e: {f: true}}]")).fixtures["loose"].columns
    assert [str(type_) for _, type_ in columns] == ["bigint", "string", "void", "array<double>", "struct<f:boolean>"]


def test_in_a_graph_all_joints_up_to_the_given_ones_are_computed(prepared):
    text = "target: total\nscope: graph\nexpected: {{rows: []}}\n"
    text += "inputs: {{loose: {{rows: [{{id: 1}}]}}, {}: {{rows: []}}}}\n"
    assert prepared(text.format("orders")).computed == ("paid", "total")
    assert prepared(text.format("paid")).computed == ("total",)


def test_an_incremental_run_binds_its_watermark_with_the_type_of_the_column(prepared):
    text = "target: later\ninputs: {orders: {rows: []}}\nexpected: {rows: []}\nincremental: {watermark: '2026-01-02'}\n"
    rows = prepared(text)
    (value,) = rows.parameters.values()
    assert (str(value.value), value.type) == ("2026-01-02", "date")
    assert "WHERE day > :" in rows.texts["later"]
    assert prepared(text.replace("'2026-01-02'", "null")).parameters == {}


WRONG = {
    "target: totl\nerror: E\n": "RVT-306 tests/t.test.yaml:1: no joint is named 'totl'; did you mean 'total'?",
    "target: orders\nerror: E\n": "RVT-204 tests/t.test.yaml:1: the target 'orders' is a source",
    "target: paid\nerror: E\ninputs:\n  ordrs: {rows: []}\n": "RVT-306 tests/t.test.yaml:4: no joint is named 'ordrs'",
    "target: paid\nerror: E\n": "RVT-215 tests/t.test.yaml:1: the input 'orders' is missing, which 'paid' reads",
    "target: paid\nerror: E\ninputs:\n  orders: {rows: []}\n  loose: {rows: [{a: 1}]}\n": (
        "RVT-215 tests/t.test.yaml:5: the input 'loose' is no upstream of 'paid'"
    ),
    "target: total\nscope: graph\nerror: E\ninputs:\n  paid: {rows: []}\n": (
        "RVT-215 tests/t.test.yaml:4: the input 'loose' is missing: a source that the rows of 'total' come from"
    ),
    "target: paid\nerror: E\ninputs:\n  orders: {rows: [{idd: 1}]}\n": (
        "RVT-204 tests/t.test.yaml:4: `orders` has no column 'idd'; did you mean 'id'?"
    ),
    "target: paid\nerror: E\ninputs:\n  orders:\n    rows:\n      - {id: 1}\n      - {id: x}\n": (
        "RVT-204 tests/t.test.yaml:7: `orders`, column id: 'x' is no bigint"
    ),
    "target: paid\nerror: E\ninputs:\n  orders: {file: o.csv}\n": (
        "RVT-108 tests/t.test.yaml:4: `orders`: the file tests/o.csv does not exist"
    ),
    "target: paid\nerror: E\ninputs:\n  orders: {file: t.test.yaml}\n": (
        "RVT-204 tests/t.test.yaml:4: `orders`: tests/t.test.yaml is neither a CSV nor a Parquet file, by its name"
    ),
    "target: total\nerror: E\ninputs: {loose: {rows: []}, paid: {rows: []}}\n": (
        "RVT-204 tests/t.test.yaml:3: `loose` has no rows and no columns: give `schema`, or `columns`"
    ),
    "target: paid\ninputs: {orders: {rows: []}}\nchecks:\n  not_null_idd: passed\n": (
        "RVT-216 tests/t.test.yaml:4: 'paid' has no check 'not_null_idd'; did you mean 'not_null_id'?"
    ),
    "target: paid\ninputs: {orders: {rows: []}}\nchecks: {relationship_id: passed}\n": (
        "RVT-215 tests/t.test.yaml:2: the input 'codes' is missing, which a check reads"
    ),
    "target: paid\ninputs: {orders: {rows: []}}\nerror: E\nincremental: {watermark: 1}\n": (
        "RVT-204 tests/t.test.yaml:4: 'paid' has no incremental text: nothing in it asks is_incremental()"
    ),
    "target: later\ninputs: {orders: {rows: []}}\nerror: E\nincremental: {watermark: soon}\n": (
        "RVT-204 tests/t.test.yaml:4: `watermark`: 'soon' is no date like 2026-01-31"
    ),
    "target: later\ninputs: {orders: {rows: []}}\nerror: E\nincremental: {this: {rows: []}}\n": (
        "RVT-205 tests/t.test.yaml:4: `incremental` needs `watermark`, which the text reads; null means everything"
    ),
}


@pytest.mark.parametrize("text", WRONG)
def test_a_mistake_has_its_file_and_line(prepared, text):
    with pytest.raises(RivetError) as caught:
        prepared(text)
    assert WRONG[text] in str(caught.value).splitlines()[0]


def test_a_joint_in_another_sql_cannot_be_computed(prepared, tmp_path, monkeypatch):
    (tmp_path / "joints").mkdir()
    (tmp_path / "joints/own.sql").write_text("-- rivet:dialect: duckdb\nFROM orders SELECT id")
    profile = FILES["profiles.yaml"].replace("spark, type: pyspark", "duck, type: duckdb")
    monkeypatch.setitem(FILES, "profiles.yaml", profile)
    with pytest.raises(RivetError, match=r"RVT-329 .*'own' is written in the SQL of duckdb"):
        prepared("target: own\ninputs: {orders: {rows: [{id: 1}]}}\nexpected: {rows: [{id: 1}]}\n")
