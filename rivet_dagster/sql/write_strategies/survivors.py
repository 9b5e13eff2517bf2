"""The target's rows that stay: those that no incoming row replaces."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from rivet_dagster.sql.write_strategies.relations import INCOMING, REST, Columns, joined, same_values, selected
from rivet_dagster.sql.write_strategies.trees import same, sql_text


def survivors(columns: Columns, identity: Sequence[str], equal_stay: bool = False) -> str:
    """Return the rows of ``rest`` whose ``identity`` no row of ``incoming`` has; without an identity all of them.

    With ``equal_stay`` a row is removed only if an incoming row of the same identity differs from it.

    >>> print(survivors([("id", "int"), ("day", "date")], ["day"]))
    SELECT `rest`.`id`, `rest`.`day` FROM `rest`
      LEFT ANTI JOIN `incoming` ON `rest`.`day` IS NOT DISTINCT FROM `incoming`.`day`
    """
    query = selected(columns, REST)
    if not identity:
        return sql_text(query)
    replaced = same(identity, [REST], [INCOMING])
    if equal_stay:
        replaced = exp.and_(replaced, exp.not_(same_values(columns, REST, INCOMING)))
    return sql_text(joined(query, INCOMING, "ANTI", replaced))
