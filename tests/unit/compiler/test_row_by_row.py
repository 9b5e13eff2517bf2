"""Chains of joints of which each row comes from one row: which they are, and when their success proves no error."""

import pytest

from rivet_dagster.compiler.group_query import Cte, GroupQuery
from rivet_dagster.compiler.row_errors import separate_errors
from rivet_dagster.sql.row_errors.error_query import QueryLocation
from rivet_dagster.sql.row_errors.row_by_row import row_by_row


def group(*texts: str) -> GroupQuery:
    """Return the query of the joints j1, j2..., each of which reads the one before it, and the first one t."""
    upstream = ["t", *(f"j{number}" for number in range(1, len(texts)))]
    ctes = [Cte(f"j{number}", text, (upstream[number - 1],)) for number, text in enumerate(texts, 1)]
    return separate_errors(
        GroupQuery((ctes[-1].joint,), tuple(ctes)), {cte.joint: (QueryLocation(cte.joint),) * 2 for cte in ctes}
    )


CAST = "SELECT *, CAST(s AS INT) AS n FROM t"


@pytest.mark.parametrize(
    ("texts", "proof"),
    [
        ([CAST], "always"),
        ([CAST, "SELECT * FROM j1"], "always"),
        ([CAST, "SELECT id, n AS m FROM J1", "SELECT m FROM j2"], "always"),
        ([CAST, "SELECT j1.*, CAST(s AS DATE) AS day FROM j1", "SELECT id, n, 1 / n AS q, day FROM j2"], "always"),
        (["SELECT *, CAST(s AS INT) AS n FROM t WHERE id > 0", "SELECT n FROM j1"], "always"),
        ([CAST, "SELECT id FROM j1"], "never"),
        ([CAST, "SELECT id, n + 0D AS m FROM j1"], "never"),  # an expression may not need all that it reads
        ([CAST, "SELECT id, n AS m FROM j1", "SELECT id FROM j2"], "never"),
        ([CAST, "SELECT * FROM j1 WHERE id > 0"], "never"),
        ([CAST, "SELECT * EXCEPT (n) FROM j1"], "never"),
        ([CAST, "SELECT DISTINCT * FROM j1"], "never"),
        ([CAST, "SELECT * FROM j1 LIMIT 5"], "never"),
        ([CAST, "SELECT max(n) AS n FROM j1"], "never"),
        ([CAST, "SELECT j1.*, u.k FROM j1 JOIN u ON j1.id = u.id"], "never"),
        ([CAST, "SELECT id, n FROM j1", "SELECT id, n, CAST(s AS DATE) AS d FROM (SELECT * FROM j2) LIMIT 3"], "never"),
    ],
)
def test_when_success_proves_that_no_row_fails(texts, proof):
    assert group(*texts).proof() == proof


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT DISTINCT s FROM t",
        "SELECT s FROM t LIMIT 1",
        "SELECT s FROM t ORDER BY s",
        "SELECT max(s) AS s FROM t",
        "SELECT s, row_number() OVER (ORDER BY s) AS n FROM t",
        "SELECT explode(array(s)) AS s FROM t",
        "SELECT s FROM t LATERAL VIEW explode(array(1)) x AS k",
        "SELECT s FROM t WHERE s IN (SELECT k FROM u)",
        "SELECT s FROM t, u",
        "SELECT s FROM (SELECT s FROM t)",
        "SELECT s FROM t UNION ALL SELECT s FROM t",
        "WITH t AS (SELECT 1 AS s) SELECT s FROM t",
        "SELECT s FROM t TABLESAMPLE (5 ROWS)",
        "SELECT s FROM t AS x(s)",
        "SELECT CAST(s AS INT) FROM t",
        "SELECT rand() AS r FROM t",
        "SELECT our_function(s) AS r FROM t",
        "SELECT s FROM parquet.`/data`",
    ],
)
def test_other_queries_are_no_links(sql):
    assert row_by_row(sql, QueryLocation("j"), []) is None


def chain(length: int) -> GroupQuery:
    before = ["t", *(f"j{number}" for number in range(1, length))]
    return group(
        *[f"SELECT *, CAST(s AS INT) + {number} AS n{number} FROM {name}" for number, name in enumerate(before)]
    )


def test_a_chain_is_asked_once():
    assert chain(20).proof() == "always"
    errors, shorter = chain(20).errors(), chain(10).errors()
    assert errors is not None
    assert shorter is not None
    assert [name for name, _ in errors.ctes if name.startswith("errors of")] == ["errors of j20"]
    assert len(errors.sql) < 2.2 * len(shorter.sql)
