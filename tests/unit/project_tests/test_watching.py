"""Which files a watch looks at, and which tests a saved file touches."""

from __future__ import annotations

import pytest

from rivet_dagster.project_tests.watching import Watched, changes, file_stamps

MANIFEST = "profiles: profiles.yaml\nsources: sources\njoints: joints\nsinks: sinks\nvars: {least: 1}\n"
MACROS = "{% macro unpaid() %}{% endmacro %}"
FILES = {
    "rivet.yaml": MANIFEST,
    "profiles.yaml": "default:\n  catalogs:\n    lake: {type: filesystem, path: lake}\n"
    "  engines:\n    - {name: spark, type: pyspark, catalogs: [lake]}\n",
    "sources/orders.yaml": "type: source\ncatalog: lake\ntable: o\noptions: {schema: 'id BIGINT, net DOUBLE'}\n",
    "macros/m.sql": MACROS,
    "joints/paid.sql": "SELECT id, net FROM orders WHERE true {{ unpaid() }}",
    "joints/total.sql": "SELECT sum(net) AS net FROM paid HAVING sum(net) > {{ var('least') }}",
    "joints/other.py": "import helper\n\ndef transform(orders):\n    return orders\n",
    "sinks/end.yaml": "type: sink\ncatalog: lake\ntable: e\nupstream: total\n",
    "tests/paid.test.yaml": "target: paid\ninputs: {orders: {file: rows.csv}}\nexpected: {rows: []}\n",
    "tests/total.test.yaml": "target: total\ninputs: {paid: {rows: []}}\nexpected: {rows: []}\n",
    "tests/graph.test.yaml": "target: end\nscope: graph\ninputs: {orders: {rows: []}}\nexpected: {rows: []}\n",
    "tests/python.test.yaml": "target: other\nextends: paid\n",
    "tests/broken.test.yaml": "target: nothing\nerror: E\n",
    "tests/rows.csv": "id,net\n1,2\n",
}


@pytest.fixture
def project(tmp_path):
    def write(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return Watched.read(tmp_path, None, [], None)

    write(FILES)
    (tmp_path / "lake").mkdir()
    (tmp_path / ".rivet").mkdir(exist_ok=True)
    return write


@pytest.mark.slow
@pytest.mark.parametrize(
    ("saved", "text", "touched"),
    [
        ("joints/paid.sql", "SELECT id, net FROM orders -- now", "graph paid total"),
        ("joints/paid.sql", "SELECT id, net FROM orders WHERE net > 0", "graph paid total"),
        ("joints/total.sql", "SELECT max(net) AS net FROM paid", "graph total"),
        ("macros/m.sql", "{% macro unpaid() %}AND net > 0{% endmacro %}", "graph paid"),
        ("macros/m.sql", "-- now\n" + MACROS, ""),
        ("rivet.yaml", MANIFEST.replace("least: 1", "least: 2"), "graph total"),
        ("joints/other.py", "def transform(orders):\n    return orders\n", "python"),
        ("sources/orders.yaml", FILES["sources/orders.yaml"], "graph paid python"),
        ("sinks/end.yaml", FILES["sinks/end.yaml"] + "tags: [x]\n", "graph"),
        ("tests/total.test.yaml", FILES["tests/total.test.yaml"], "total"),
        ("tests/paid.test.yaml", FILES["tests/paid.test.yaml"] + "tolerance: 1\n", "paid python"),
        ("tests/rows.csv", "id,net\n", "paid python"),
        ("tests/new.test.yaml", "name: new\ntarget: paid\nextends: paid\n", "new"),
    ],
)
def test_a_saved_file_touches(project, saved, text, touched):
    before = project({})
    after = project({saved: text})
    names = sorted(test.name for test in after.touched(before, {saved}))
    assert [name for name in names if name != "broken"] == touched.split()


def test_all_tests_run_at_first(project):
    watched = project({})
    assert watched.touched(None, None) == watched.tests


def test_the_joint_of_a_test_that_could_not_run_may_come(project):
    before = project({})
    after = project({"joints/nothing.sql": "SELECT 1 AS x"})
    assert "broken" in {test.name for test in after.touched(before, {"joints/nothing.sql"})}


@pytest.mark.slow
def test_changes_are_waited_for_and_those_before_the_wait_count(project, tmp_path):
    project({})
    stamps = file_stamps(tmp_path)
    assert {"rivet.yaml", "macros/m.sql", "joints/paid.sql", "tests/rows.csv", "tests/paid.test.yaml"} <= stamps.keys()
    assert not any(name.startswith((".rivet", "lake")) for name in stamps)
    waits = iter(
        [
            lambda: (tmp_path / "lake/data.csv").write_text("x"),
            lambda: (tmp_path / ".rivet/cache.yaml").write_text("x"),
            lambda: (tmp_path / "joints/total.sql").unlink(),
        ]
    )
    found = changes(tmp_path, frozenset({"tests/rows.csv"}), lambda: next(waits)(), stamps)
    assert found == {"joints/total.sql"}
    (tmp_path / "joints/more.sql").write_text("SELECT 1 AS x")  # saved while the tests ran
    assert changes(tmp_path, frozenset(), lambda: pytest.fail("it waited"), stamps) >= {"joints/more.sql"}
