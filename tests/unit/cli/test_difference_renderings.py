"""The difference of an environment as text, JSON and Markdown."""

from __future__ import annotations

import json
from dataclasses import replace

from rivet_dagster.cli.difference_command import difference_json
from rivet_dagster.cli.difference_text import LONGEST, difference_markdown, difference_text
from rivet_dagster.compiler.diff import ColumnChange
from rivet_dagster.execution.difference.rows import (
    ChangedRow,
    EnvironmentDifference,
    RowDifference,
    Samples,
    TableDifference,
    VerdictChange,
)

ORDERS = TableDifference(
    "orders",
    "own",
    (
        ColumnChange("vat", "dropped", "double", None, ("invoices", "revenue")),
        ColumnChange("net", "retyped", "int", "bigint"),
        ColumnChange("note", "added", None, "string"),
    ),
    RowDifference(
        added=1200,
        removed=1,
        changed=2,
        key=("id",),
        columns={"net": 2, "span": None},
        samples=Samples(
            added=({"id": 7, "net": None, "customer": "ann|bob"},),
            removed=({"id": 3, "net": 5, "customer": "<i>@ann</i>\n# x"},),
            changed=(
                ChangedRow(
                    {"id": 1, "net": 10, "customer": "a"}, {"id": 1, "net": 12, "customer": "a"}, columns=("net",)
                ),
                ChangedRow(
                    {"id": 2, "net": 4, "customer": ""}, {"id": 2, "net": None, "customer": ""}, columns=("net",)
                ),
            ),
        ),
    ),
    (
        VerdictChange("unique_id", "unique", "audit", "warn", "passed", "warned", 0, 3),
        VerdictChange("paid", "custom", "assertion", "error", None, "failed", None, None),
    ),
    rows_before=40_000,
    rows_after=41_199,
)
DAYS = TableDifference("days", "upstream", (), RowDifference(key=("day",)), (), rows_before=365, rows_after=365)
NEW = TableDifference(
    "extra",
    "own",
    (ColumnChange("id", "added", None, "int"),),
    RowDifference(added=2, samples=Samples(added=({"id": 1}, {"id": 2}))),
    (),
    rows_after=2,
)
DIFFERENCE = EnvironmentDifference("pr-7", (ORDERS, DAYS, NEW))

TEXT = """
environment pr-7: 2 of 3 tables differ from the base

orders: its own logic changed
  rows     +1,200 -1 ~2 (40,000 before, 41,199 now; matched by id)
  columns  net 2 (<0.1%), span cannot be compared
  schema   vat dropped (double), read by invoices, revenue
  schema   net retyped from int to bigint
  schema   note added (string)
  check    unique_id (unique): passed -> warned, violations: 3
  check    paid (custom): not judged -> failed, could not run
  + id=7, net=NULL, customer=ann|bob
  - id=3, net=5, customer=<i>@ann</i> # x
  ~ id=1  net: 10 -> 12
  ~ id=2  net: 4 -> NULL

days: only joints before it changed
  the same rows, columns and verdicts

extra: its own logic changed
  rows     +2 -0 ~0 (nothing before, 2 now; a new table)
  schema   id added (int)
  + id=1
  + id=2
"""

MARKDOWN = """
## Environment <code>pr&#45;7</code>: 2 of 3 tables differ from the base

| table | why | rows added | removed | changed | columns | checks |
| --- | --- | ---: | ---: | ---: | ---: | ---: |
| <code>orders</code> | its own logic changed | 1,200 | 1 | 2 | 3 | 2 |
| <code>days</code> | only joints before it changed | 0 | 0 | 0 | 0 | 0 |
| <code>extra</code> | its own logic changed | 2 | 0 | 0 | 1 | 0 |

### <code>orders</code>

40,000 rows before, 41,199 now, matched by <code>id</code>.

| column | changed rows |
| --- | ---: |
| <code>net</code> | 2 (&lt;0.1%) |
| <code>span</code> | cannot be compared |

| column | change | read by |
| --- | --- | --- |
| <code>vat</code> | <code>dropped &#40;double&#41;</code> | <code>invoices</code>, <code>revenue</code> |
| <code>net</code> | <code>retyped from int to bigint</code> |  |
| <code>note</code> | <code>added &#40;string&#41;</code> |  |

| check | kind | before | after |
| --- | --- | --- | --- |
| <code>unique&#95;id</code> | <code>unique</code> | passed | warned, violations: 3 |
| <code>paid</code> | <code>custom</code> | not judged | failed, could not run |

<details><summary>1 of 1,200 rows added</summary>

| <code>id</code> | <code>net</code> | <code>customer</code> |
| --- | --- | --- |
| <code>7</code> | NULL | <code>ann&#124;bob</code> |

</details>

<details><summary>1 of 1 rows removed</summary>

| <code>id</code> | <code>net</code> | <code>customer</code> |
| --- | --- | --- |
| <code>3</code> | <code>5</code> | <code>&#60;i&#62;&#64;ann&#60;&#47;i&#62;&#10;&#35; x</code> |

</details>

<details><summary>2 of 2 rows changed</summary>

| <code>id</code> | <code>net</code> |
| --- | --- |
| <code>1</code> | <code>10</code> → <code>12</code> |
| <code>2</code> | <code>4</code> → NULL |

</details>

### <code>extra</code>

No table before, 2 now, a new table.

| column | change | read by |
| --- | --- | --- |
| <code>id</code> | <code>added &#40;int&#41;</code> |  |

<details><summary>2 of 2 rows added</summary>

| <code>id</code> |
| --- |
| <code>1</code> |
| <code>2</code> |

</details>
"""


def test_text():
    assert difference_text(DIFFERENCE) == TEXT.strip()


def test_markdown():
    assert difference_markdown(DIFFERENCE) == MARKDOWN.strip()


def test_json():
    data = json.loads(json.dumps(difference_json(DIFFERENCE)))
    assert list(data) == ["environment", "tables"]
    assert data["environment"] == "pr-7"
    orders, days, extra = data["tables"]
    assert orders == {
        "joint": "orders",
        "changed": "own",
        "schema": [
            {
                "column": "vat",
                "change": "dropped",
                "before": "double",
                "after": None,
                "breaks": ["invoices", "revenue"],
            },
            {"column": "net", "change": "retyped", "before": "int", "after": "bigint", "breaks": []},
            {"column": "note", "change": "added", "before": None, "after": "string", "breaks": []},
        ],
        "rows": {"added": 1200, "removed": 1, "changed": 2},
        "columns": {"net": 2, "span": None},
        "samples": {
            "added": [{"id": 7, "net": None, "customer": "ann|bob"}],
            "removed": [{"id": 3, "net": 5, "customer": "<i>@ann</i>\n# x"}],
            "changed": [
                {"old": {"id": 1, "net": 10, "customer": "a"}, "new": {"id": 1, "net": 12, "customer": "a"}},
                {"old": {"id": 2, "net": 4, "customer": ""}, "new": {"id": 2, "net": None, "customer": ""}},
            ],
        },
        "checks": [
            {
                "check": "unique_id",
                "kind": "unique",
                "phase": "audit",
                "severity": "warn",
                "before": "passed",
                "after": "warned",
                "violations_before": 0,
                "violations_after": 3,
            },
            {
                "check": "paid",
                "kind": "custom",
                "phase": "assertion",
                "severity": "error",
                "before": None,
                "after": "failed",
                "violations_before": None,
                "violations_after": None,
            },
        ],
    }
    assert days == {
        "joint": "days",
        "changed": "upstream",
        "schema": [],
        "rows": {"added": 0, "removed": 0, "changed": 0},
        "columns": {},
        "samples": {"added": [], "removed": [], "changed": []},
        "checks": [],
    }
    assert extra["samples"]["added"] == [{"id": 1}, {"id": 2}]


def test_nothing_was_built():
    nothing = EnvironmentDifference("pr-7", ())
    assert difference_text(nothing) == "environment pr-7: 0 of 0 tables differ from the base"
    assert difference_markdown(nothing) == ("## Environment <code>pr&#45;7</code>: 0 of 0 tables differ from the base")


def test_a_long_comment_leaves_out_samples():
    row = {f"c{number}": "x" * 200 for number in range(50)}
    rows = RowDifference(added=10, samples=Samples(added=(row,) * 10))
    tables = tuple(replace(ORDERS, joint=f"t{number}", rows=rows) for number in range(20))
    comment = difference_markdown(EnvironmentDifference("pr-7", tables))
    assert len(comment) <= LONGEST
    assert comment.endswith("Samples of some tables are left out, since the comment would be too long.")
    assert comment.count("<details>") >= 1
    assert comment.count("### ") == 20
