"""The query of the rows that a person looks at."""

from __future__ import annotations

from rivet_dagster.errors import RivetError
from rivet_dagster.sql.balance import in_parentheses, refuse_unbalanced
from rivet_dagster.sql.error import SqlError


def limited_rows(relation: str, limit: int, where: str | None) -> str:
    r"""Return the query of up to ``limit`` rows of a relation, for which a condition, the user's text, holds.

    Raises RVT-207 for a text that would not stay within its parentheses.

    >>> limited_rows("shown", 3, "id > 1 -- all"), limited_rows("shown", 3, None)
    ('SELECT * FROM shown WHERE (\nid > 1 -- all\n) LIMIT 3', 'SELECT * FROM shown LIMIT 3')
    """
    if where is None:
        return f"SELECT * FROM {relation} LIMIT {limit}"
    try:
        refuse_unbalanced(where)
    except SqlError as error:
        raise RivetError("RVT-207", f"the condition {error}", remediation="Correct the condition.") from None
    return f"SELECT * FROM {relation} WHERE {in_parentheses(where)} LIMIT {limit}"
