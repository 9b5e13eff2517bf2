"""Templates with loops, macros and variables on Spark: rows, values from the environment, and the lines of errors."""

from __future__ import annotations

import duckdb
import pytest
from support.folders import MANIFEST, PROFILES, sink, source

from rivet_dagster.cli.main import main
from rivet_dagster.execution.analysis import analyze_plan
from rivet_dagster.execution.row_error import RowError
from rivet_dagster.execution.showing import shown_rows

REGION = "eu'; DROP"
"""Text that would end a quoted string, were it pasted."""

PROFILE = {**PROFILES["default"], "vars": {"region": "${SHOP_REGION}"}}
FILES = {
    "rivet.yaml": {**MANIFEST, "vars": {"kinds": ["new", "paid"], "least": 1}},
    "profiles.yaml": {"default": PROFILE},
    "data/orders.csv": f"id,kind,net,region\n1,new,10,{REGION}\n2,paid,4,us\n3,paid,9,{REGION}\n4,new,1,{REGION}\n",
    "sources/orders.yaml": source("orders.csv", "id INT, kind STRING, net INT, region STRING"),
    "macros/sums.sql": "{% macro sum_of(kind) %}\nsum(CASE WHEN kind = '{{ kind }}'\n  THEN {{ amount() }} END)\n"
    "{%- endmacro %}\n{% macro amount() %}net{% endmacro %}\n",
    "joints/kinds.sql": """\
-- rivet:on_error: fail
SELECT region,
{%- for kind in var('kinds') %}
  {{ sum_of(kind) }} AS {{ kind }}_net{{ ',' if not loop.last }}
{%- endfor %}
FROM {{ ref('orders') }}
WHERE region = {{ var('region') }} AND net > {{ var('least') }}
  {%- if is_incremental() %} AND id > 1 AND {{ var('region') }} IS NOT NULL{% endif %}
GROUP BY region
""",
    "sinks/out.yaml": sink("out", "kinds", write_strategy={"mode": "merge", "key_columns": ["region"]}),
    "tests/kinds.test.yaml": {
        "target": "kinds",
        "inputs": {"orders": {"rows": [{"id": 5, "kind": "new", "net": 7, "region": REGION}]}},
        "expected": {"rows": [{"region": REGION, "new_net": 7, "paid_net": None}]},
    },
}


@pytest.fixture
def shop(project, monkeypatch):
    monkeypatch.setenv("SHOP_REGION", REGION)
    return project(FILES)


def expected(shop, condition: str) -> list[tuple[object, ...]]:
    """Return the rows of the query that a person would write."""
    return duckdb.execute(
        "SELECT region, sum(net) FILTER (kind = 'new'), sum(net) FILTER (kind = 'paid') "
        f"FROM read_csv('{shop.root}/data/orders.csv') WHERE region = ? AND net > 1 {condition} GROUP BY region",
        [REGION],
    ).fetchall()


def test_rows_of_first_and_later_runs_and_of_show(shop):
    for condition in ("", "AND id > 1"):
        shop.run("out")
        assert [tuple(row.values()) for row in shop.rows("out")] == expected(shop, condition)
    assert [tuple(row.values()) for row in shown_rows(shop.runtime, "kinds", 20).rows] == expected(shop, "")
    assert REGION not in shop.assembly.to_json()


def test_analysis_and_tests_bind_variables_too(shop, capsys):
    plan = analyze_plan(shop.assembly, shop.runtime).raise_errors()
    assert [field.name for field in plan.joint("kinds").schema] == ["region", "new_net", "paid_net"]
    code = main(["-p", str(shop.root), "test", "--format", "json"])
    assert code == 0, capsys.readouterr()


@pytest.mark.nightly
def test_lines_of_sparks_errors_are_those_of_the_files(shop):
    macros = FILES["macros/sums.sql"].replace("END)", "END) + no_such(1)")
    shop.write({"macros/sums.sql": macros})
    plan = analyze_plan(shop.assembly, shop.runtime)
    assert {(error.file, error.line) for error in plan.errors} == {("macros/sums.sql", 3)}
    assert "(in the macro 'sum_of', called at joints/kinds.sql:4)" in plan.errors[0].message
    shop.write({"macros/sums.sql": FILES["macros/sums.sql"]})
    failing = FILES["joints/kinds.sql"].replace("AND net > ", "AND 10 DIV (net - 10) >\n ")
    shop.write({"joints/kinds.sql": failing})
    with pytest.raises(RowError) as error:
        shop.run("out")
    assert [(site.file, site.line) for site in error.value.sites] == [("joints/kinds.sql", 7)]
    assert REGION not in str(error.value)
