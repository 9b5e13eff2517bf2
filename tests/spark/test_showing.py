"""``show``: rows of any joint, computed now as one query, and nothing written."""

from __future__ import annotations

import csv
import io
import json

import pytest
from support.folders import sink, source

from rivet_dagster.cli.main import main
from rivet_dagster.execution.showing import shown_rows

SHOP = {
    "data/orders.csv": "id,customer,amount\n1,ann,10\n2,bob,0\n3,,5\n4,ann,7\n",
    "sources/orders.yaml": {**source("orders.csv", "id INT, customer STRING, amount INT"), "filter": "id < 9"},
    "joints/stored.sql": "-- rivet:eager: true\nSELECT *, current_date() AS day FROM orders",
    "joints/doubled.py": "import pyarrow.compute as pc\n\n\ndef transform(stored):\n    rows = stored.to_arrow()\n"
    "    return rows.set_column(2, 'amount', pc.multiply(rows['amount'], 2))\n",
    "joints/checked.sql": "-- rivet:assert: unique(customer)\nSELECT customer, sum(amount) AS total,"
    " map('n', count(*)) AS counts FROM doubled GROUP BY customer",
    "joints/ratios.sql": "-- rivet:on_error: quarantine\nSELECT id, 100 div amount AS ratio FROM orders",
    "sinks/out.yaml": sink("out", "checked"),
    "sinks/both.yaml": {**sink("both", "a"), "upstream": ["low", "high"]},
    "sinks/ratios_out.yaml": {**sink("ratios_out", "ratios"), "on_error": "quarantine"},
    "joints/low.sql": "SELECT id, amount FROM orders WHERE amount < 6",
    "joints/high.sql": "SELECT amount, id FROM orders WHERE amount >= 6",
}


@pytest.fixture
def shop(project):
    return project(SHOP)


def rows(shop, name, limit=20, where=None):
    return [dict(row) for row in shown_rows(shop.runtime, name, limit, where).rows]


def test_what_a_run_would_store_is_computed_too_and_nothing_is_written(shop):
    found = shown_rows(shop.runtime, "out", 20)
    assert found.columns == (("customer", "string"), ("total", "bigint"), ("counts", "map<string,bigint>"))
    assert {row["customer"]: (row["total"], row["counts"]) for row in found.rows} == {
        "ann": (34, {"n": 2}),
        "bob": (0, {"n": 1}),
        None: (10, {"n": 1}),
    }
    assert not (shop.root / "lake").exists()
    assert not list((shop.root / ".rivet").rglob("*.parquet"))


def test_a_sink_shows_the_union_of_its_upstream(shop):
    assert {(row["id"], row["amount"]) for row in rows(shop, "both")} == {(1, 10), (2, 0), (3, 5), (4, 7)}


def test_the_condition_comes_before_the_limit(shop):
    assert [row["id"] for row in rows(shop, "orders", 1, "amount = 7 -- the last")] == [4]
    assert len(rows(shop, "orders", 2)) == 2
    assert rows(shop, "orders", 0) == []


def test_rows_that_cannot_be_evaluated_are_left_out_where_a_run_leaves_them_out(shop):
    assert {row["id"]: row["ratio"] for row in rows(shop, "ratios_out")} == {1: 10, 3: 20, 4: 14}


def test_joints_that_fuse_are_one_query(shop, sql_executions):
    sql_executions.since()
    rows(shop, "low")
    assert sql_executions.since() == 1


def test_rows_are_computed_with_the_settings_of_the_step(project):
    at = "SELECT id, date_format(TIMESTAMP '2026-01-01 00:00:00Z', 'HH') AS hour FROM orders"
    config = "-- rivet:options: {config: {spark.sql.session.timeZone: Asia/Tokyo}}\n-- rivet:eager: true\n"
    shop = project({**SHOP, "joints/low.sql": config + at, "joints/high.sql": at})
    assert {row["hour"] for row in rows(shop, "low")} == {"09"}


def test_formats(shop, capfd):
    def shown(*arguments):
        capfd.readouterr()
        assert main(["show", "checked", "-p", str(shop.root), *arguments]) == 0
        return capfd.readouterr().out

    found = json.loads(shown("--format", "json"))
    assert found["columns"][0] == {"name": "customer", "type": "string"}
    assert {"customer": "ann", "total": 34, "counts": {"n": 2}} in found["rows"]
    table = list(csv.DictReader(io.StringIO(shown("--format", "csv", "--where", "customer IS NULL"))))
    assert table == [{"customer": "", "total": "10", "counts": '{"n": 1}'}]
    lines = shown("--where", "customer = 'bob'").splitlines()
    assert [line.split() for line in lines] == [["customer", "total", "counts"], ["bob", "0", '{"n":', "1}"]]
    assert "NULL" in shown("--where", "customer IS NULL")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("chcked",), 1, "did you mean 'checked'?"),
        (("checked", "--where", "1 = 1) OR (1 = 1"), 1, "RVT-207 the condition holds a )"),
        (("checked", "--where", "nowhere = 1"), 1, "RVT-503"),
        (("checked", "--limit", "-1"), 10, "--limit"),
    ],
)
def test_wrong_calls(shop, capfd, arguments, code, words):
    found = main(["show", *arguments, "-p", str(shop.root)])
    out, err = capfd.readouterr()
    assert (found, out, words in err) == (code, "", True), err


def test_an_error_is_at_its_joint_and_line(project):
    wrong = project({**SHOP, "joints/low.sql": "SELECT id,\n nowhere(amount) AS amount FROM stored"})
    with pytest.raises(Exception, match=r"RVT-503 joints/low\.sql:2: joint low: "):
        shown_rows(wrong.runtime, "both", 3)
