"""Random projects on DuckDB and Sail by translation, joint by joint, and on Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from rivet_dagster.model.joint import SQL
from rivet_dagster.sql.translation import translate
from support.random_projects import ENGINE_TABLES, RandomProject, quote
from support.three_engines import DuckSide, Failure, SailSide, SparkSide

KINDS = ("int", "int", "string")
_ARROW = (pa.int32(), pa.int32(), pa.string())
_OWN = {"own_view": [(1, 1, "a"), (7, None, "own")], "own_table": [(1, 8, "own; --")]}
Rows = list[str]


@dataclass
class Outcome:
    """The rows of each joint that ran, as sorted texts, and what was refused of the others."""

    rows: dict[str, Rows] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def table_of(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> pa.Table:
    """Return rows of the columns that all relations of a random project have."""
    values = list(zip(*rows, strict=True)) if rows else [(), (), ()]
    arrays = [pa.array(list(column), kind) for column, kind in zip(values, _ARROW, strict=True)]
    return pa.table(arrays, names=list(columns))


def given_tables(project: RandomProject) -> dict[str, pa.Table]:
    """Return the tables of the engine, hidden by joints of the same name, and the sources."""
    own = {name: table_of(ENGINE_TABLES[name], rows) for name, rows in _OWN.items()}
    return own | {name: table_of(project.columns[name], rows) for name, rows in project.sources.items()}


def translated(project: RandomProject, side: DuckSide | SailSide, name: str) -> Outcome:
    """Run each SQL joint on the results of those before it; one that reads a refused one is refused, too."""
    found = Outcome()
    known: dict[str, tuple[tuple[str, str], ...]] = {}
    for table, rows in given_tables(project).items():
        side.give(table, rows)
        known[table] = tuple(zip(rows.column_names, KINDS, strict=True))
    for joint in project.joints:
        if joint.type != SQL:
            continue
        before = next((f"reads {u}" for u in project.upstream[joint.name] if u in found.refused | found.failed), None)
        if before is not None:
            found.refused[joint.name] = before
            continue
        translation = translate(joint.sql or "", name, known)
        if translation.refusals:
            found.refused[joint.name] = translation.refusals[0].construct
            continue
        result = side.query(translation.sql)
        if isinstance(result, Failure):
            found.failed[joint.name] = f"{result.message}\n{translation.sql}"
            continue
        kinds, values = result
        assert tuple(kinds) == KINDS, (joint.sql, kinds)
        assert [c for c, _ in translation.columns or ()] == list(project.columns[joint.name]), joint.sql
        rows = list(zip(*values, strict=True))
        side.give(joint.name, table_of(project.columns[joint.name], rows))
        known[joint.name] = tuple(zip(project.columns[joint.name], KINDS, strict=True))
        found.rows[joint.name] = sorted(map(repr, rows))
    return found


def on_spark(project: RandomProject, spark: SparkSide) -> Mapping[str, Rows] | Failure:
    """Return the rows of each SQL joint on Spark, all by one query."""
    session = spark.spark
    for table, rows in given_tables(project).items():
        spark.give(table, rows)
    names = []
    try:
        for joint in project.joints:
            if joint.type == SQL:
                session.sql(joint.sql).createOrReplaceTempView(quote(joint.name))
                names.append(joint.name)
        parts = [
            f"SELECT {n} AS j, {', '.join(f'{quote(c)} AS c{m}' for m, c in enumerate(project.columns[name]))} "
            f"FROM {quote(name)}"
            for n, name in enumerate(names)
        ]
        result = spark.query(" UNION ALL ".join(parts))
    except Exception as error:  # of the analyzer, which is not ours to judge
        return Failure(str(error))
    if isinstance(result, Failure):
        return result
    found: dict[str, list[str]] = {name: [] for name in names}
    for number, *row in zip(*result[1], strict=True):
        found[names[number]].append(repr(tuple(row)))
    return {name: sorted(rows) for name, rows in found.items()}
