"""Joints that are published where they are declared, and the joints that read their tables."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from support.folders import WORKSPACE, ProjectFolder, in_order, sink, source

from rivet_dagster.cli.main import main
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.clean_up import evict
from rivet_dagster.execution.reading.inputs import reference
from rivet_dagster.execution.showing import shown_rows

MERGE = "-- rivet:catalog: lake\n-- rivet:write_strategy: {mode: merge, key_columns: [id], watermark_column: at}\n"
RAW = source("raw.csv", "id INT, name STRING, at INT")
ORDERS = MERGE + "SELECT * FROM raw {% if is_incremental() %} WHERE at > {{ watermark_value }} {% endif %}"
TOTAL = "-- rivet:catalog: lake\n-- rivet:table: totals\nSELECT count(*) AS n, max(at) AS at FROM orders"


def csv(*rows: str) -> str:
    return "\n".join(["id,name,at", *rows]) + "\n"


@pytest.fixture
def shop(project) -> ProjectFolder:
    return project({
        "data/raw.csv": csv("1,a,1", "2,b,2"),
        "sources/raw.yaml": RAW,
        "joints/orders.sql": ORDERS,
        "joints/total.sql": TOTAL,
        "quality/orders.yaml": {
            "assertions": [{"type": "not_null", "columns": ["name"]}],
            "audits": [{"type": "row_count", "max": 3}],
        },
    })  # fmt: skip


def test_readers_read_the_whole_table_that_a_run_has_published(shop):
    results = shop.run_all()
    assert [(name, r.rows.inserted, r.rows.total) for name, r in results.items()] == [("orders", 2, 2), ("total", 1, 1)]
    shop.write({"data/raw.csv": csv("2,B,3", "3,c,3", "1,unread,2")})
    results = shop.run_all()
    assert (results["orders"].rows.inserted, results["orders"].rows.updated) == (1, 1)
    assert [list(row.values()) for row in shop.rows("orders")] == [[1, "a", 1], [2, "B", 3], [3, "c", 3]]
    assert shop.rows("totals") == [{"n": 3, "at": 3}]
    position = shop.runtime.version_read("total").inputs["orders"]
    assert position.versions == {"orders": results["orders"].published.version}
    assert not (shop.root / ".rivet/workspace").exists()


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize(("rows", "phase"), [(["3,,3"], "assertion"), (["3,c,3", "4,d,4"], "audit")])
def test_its_checks_are_its_gate(shop, rows, phase):
    shop.run_all()
    before = shop.bytes_of("orders")
    shop.write({"data/raw.csv": csv(*rows)})
    result = shop.run("orders")
    assert result.published is None
    assert [(c.check.phase, c.passed) for c in result.checks] == [
        ("assertion", phase != "assertion"),
        ("audit", phase != "audit"),
    ]
    assert shop.bytes_of("orders") == before
    assert [row["id"] for row in reference(shop.runtime, "orders").to_arrow().to_pylist()] == [1, 2]


def test_a_handle_on_it_counts_the_rows_of_the_table(shop):
    with pytest.raises(RivetError, match="RVT-401 joint orders"):
        reference(shop.runtime, "orders").to_arrow()
    shop.run("orders")
    assert reference(shop.runtime, "orders").row_count == 2


def test_a_python_joint_is_published_with_its_strategy_and_gate(shop):
    shop.write({
        "joints/scores.py": "# rivet:catalog: lake\n# rivet:write_strategy: {mode: merge, key_columns: [id]}\n"
        "# rivet:assert: row_count(min=1)\n"
        "import pyarrow.compute as pc\n\ndef transform(orders):\n    rows = orders.to_arrow().select(['id', 'at'])\n"
        "    return rows.filter(pc.greater(rows['at'], 1))\n",
        "joints/after.sql": "-- rivet:catalog: lake\nSELECT sum(id) AS ids FROM scores",
    })  # fmt: skip
    shop.run_all()
    assert shop.rows("scores") == [{"id": 2, "at": 2}]
    shop.write({"data/raw.csv": csv("2,B,5", "3,c,5")})
    results = shop.run_all()
    assert (results["scores"].rows.inserted, results["scores"].rows.updated) == (1, 1)
    assert shop.rows("after") == [{"ids": 5}]
    shop.write({"joints/scores.py": "# rivet:catalog: lake\n# rivet:assert: row_count(min=1)\n"
                "def transform(orders):\n    return orders.to_arrow().slice(0, 0)\n"})  # fmt: skip
    assert shop.run("scores").published is None
    assert [row["id"] for row in shop.rows("scores")] == [2, 3]


HISTORY = (
    "-- rivet:catalog: lake\n-- rivet:write_strategy: {mode: scd2, key_columns: [id], effective_at: at}\n"
    "SELECT id, name, timestamp_seconds(at) AS at FROM raw"
)


@pytest.mark.nightly
def test_readers_of_a_history_see_its_own_columns(shop, capsys):
    shop.write({
        "joints/orders.sql": HISTORY,
        "joints/total.sql": "-- rivet:catalog: lake\nSELECT id, valid_from FROM orders WHERE is_current",
        "quality/orders.yaml": {"audits": [{"type": "unique", "columns": ["id", "valid_from"]}]},
    })  # fmt: skip
    shop.run_all()
    shop.write({"data/raw.csv": csv("2,B,3")})
    shop.run_all()
    times = {1: 1, 2: 3}
    expected = [{"id": n, "valid_from": datetime.fromtimestamp(at, UTC)} for n, at in times.items()]
    assert in_order(shop.rows("total")) == expected
    assert [(f.name, f.type) for f in shop.assembly.joint("total").schema] == [
        ("id", "int"), ("valid_from", "timestamp"),
    ]  # fmt: skip


def test_a_published_joint_is_the_upstream_of_a_union(shop):
    shop.write({
        "joints/others.sql": "-- rivet:catalog: lake\nSELECT 9 AS id, 'z' AS name, 9 AS at",
        "sinks/every.yaml": sink("every", "orders", "others"),
    })  # fmt: skip
    shop.run_all()
    assert [row["id"] for row in shop.rows("every")] == [1, 2, 9]


def test_it_is_removed_after_its_last_reader_where_it_says_so(shop):
    shop.write({"joints/orders.sql": "-- rivet:retention: run\n" + ORDERS})
    shop.run_all()
    assert evict(shop.runtime, "total", lambda *_: True) == ("orders",)
    with pytest.raises(RivetError, match="evicted after its last reader"):
        reference(shop.runtime, "orders").to_arrow()
    assert len(shop.rows("totals")) == 1


@pytest.mark.nightly
def test_its_row_errors_are_published_beside_it(shop):
    shop.write({
        "data/raw.csv": csv("1,10,1", "2,x,2"),
        "joints/orders.sql": "-- rivet:catalog: lake\n-- rivet:on_error: quarantine\n"
        "-- rivet:write_strategy: {mode: merge, key_columns: [id]}\nSELECT id, CAST(name AS INT) AS name, at FROM raw",
    })  # fmt: skip
    shop.run_all()
    assert [row["id"] for row in shop.rows("orders")] == [1]
    (error,) = shop.rows("orders__errors")
    assert (error["joint"], error["file"], error["key"]) == ("orders", "joints/orders.sql", '{"id":2}')
    shop.write({"data/raw.csv": csv("2,20,2")})
    shop.run_all()
    assert ([row["id"] for row in shop.rows("orders")], shop.rows("orders__errors")) == ([1, 2], [])
    assert shop.rows("totals") == [{"n": 2, "at": 2}]


def test_its_versions_and_watermark_are_those_of_its_table(shop, capsys):
    shop.run_all()
    for command, words in (
        (["watermark", "list"], "orders: at int, in the target 2"),
        (["versions", "list", "orders"], "current              2 rows"),
    ):
        assert main(["-p", str(shop.root), *command]) == 0
        assert words in capsys.readouterr().out


@pytest.mark.nightly
def test_what_reads_a_table_finds_what_a_first_run_would_publish(shop, capfd):
    """Without a run: rows that are shown, and those of a test over several joints."""
    shop.write({
        "data/raw.csv": csv("1,a,1", "1,b,2", "2,c,1"),
        "joints/orders.sql": HISTORY,
        "joints/latest.sql": "-- rivet:catalog: lake\n-- rivet:write_strategy: "
        "{mode: merge, key_columns: [id], order_by: [at]}\nSELECT id, at FROM raw",
        "joints/total.sql": "SELECT o.id, name, unix_seconds(valid_to) AS ended, l.at "
        "FROM orders o JOIN latest l USING (id)",
        "tests/whole.test.yaml": {
            "target": "total",
            "scope": "graph",
            "inputs": {"raw": {"rows": [{"id": 1, "name": "x", "at": 5}, {"id": 1, "name": "y", "at": 7}]}},
            "expected": {"rows": [
                {"id": 1, "name": "x", "ended": 7, "at": 7}, {"id": 1, "name": "y", "ended": None, "at": 7},
            ]},
        },
    })  # fmt: skip
    expected = [(1, "a", 2, 2), (1, "b", None, 2), (2, "c", None, 1)]
    shown = shown_rows(shop.runtime, "total", 10)
    assert sorted(tuple(row.values()) for row in shown.rows) == expected
    assert len(shown_rows(shop.runtime, "latest", 10).rows) == 3  # its batch
    assert main(["-p", str(shop.root), "test"]) == 0, capfd.readouterr()
    shop.run_all()
    assert sorted(tuple(row.values()) for row in shop.rows("total", WORKSPACE)) == expected


def test_a_project_test_gives_the_watermark_and_rows_of_its_table(shop, capfd):
    shop.write({
        "joints/orders.sql": f"{ORDERS} {{% if is_incremental() %}} AND id NOT IN (SELECT id FROM {{{{ this }}}}) "
        "{% endif %}",
        "tests/later.test.yaml": {
            "target": "orders",
            "inputs": {"raw": {"rows": [{"id": 1, "name": "x", "at": 1}, {"id": 2, "name": "y", "at": 7},
                                        {"id": 3, "name": "z", "at": 8}]}},
            "incremental": {"watermark": 1, "this": {"rows": [{"id": 2, "name": "y", "at": 5}]}},
            "expected": {"rows": [{"id": 3, "name": "z", "at": 8}]},
        },
    })  # fmt: skip
    assert main(["-p", str(shop.root), "test"]) == 0, capfd.readouterr()
