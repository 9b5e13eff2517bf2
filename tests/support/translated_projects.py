"""Random projects by translation on DuckDB and Sail, and on Spark: each joint alone, on the rows of those before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, seed, settings

from rivet_dagster.model.joint import SQL, Joint
from rivet_dagster.sql.translation import Translation, translate
from support.joint_by_joint import QUICK
from support.random_projects import ENGINE_TABLES, Columns, RandomProject, Row, literal, projects, quote
from support.three_engines import ERRORS, DuckSide, Failure, SailSide, SparkSide

ENGINES = ("duckdb", "sail")
KINDS = ("int", "int", "string")
_ARROW = (pa.int32(), pa.int32(), pa.string())
_OWN: dict[str, list[Row]] = {"own_view": [(1, 1, "a"), (7, None, "own")], "own_table": [(1, 8, "own; --")]}
_BATCH = 10
"""How many projects one job of Spark computes."""
_UNPLANNED = 'No field named "#'
"""The message of Sail for a query of which its optimizer has lost a column, which RVT-329 is for."""
_DEFECT = "java.util.NoSuchElementException: key not found"
"""In the message of Spark where its optimizer fails on a correct query."""
Rows = Sequence[Row]


@dataclass(frozen=True)
class Table:
    """Rows of the columns that all relations of a random project have, but for their names."""

    columns: Columns
    rows: Rows

    def arrow(self) -> pa.Table:
        """Return the rows for DuckDB."""
        values = list(zip(*self.rows, strict=True)) if self.rows else [(), (), ()]
        arrays = [pa.array(list(column), kind) for column, kind in zip(values, _ARROW, strict=True)]
        return pa.table(arrays, names=list(self.columns))

    def sql(self) -> str:
        """Return the rows as a query of Spark."""
        rows = ", ".join(f"({', '.join(map(literal, row))})" for row in self.rows or [(0, 0, "")])
        items = ", ".join(
            f"CAST({c} AS {kind}) AS {quote(name)}" for c, kind, name in zip("abc", KINDS, self.columns, strict=True)
        )
        return f"SELECT {items} FROM VALUES {rows} AS t (a, b, c){'' if self.rows else ' WHERE 1 = 0'}"


@dataclass
class Case:
    """An SQL joint with the tables that it reads, its translations, and the rows that each engine gives."""

    project: RandomProject
    joint: Joint
    inputs: dict[str, Table]
    translations: dict[str, Translation]
    rows: dict[str, Rows | Failure] = field(default_factory=dict)
    frame: Any = None
    """The query on Spark, until it is computed."""

    def told(self, name: str) -> str:
        """Return the case for a reader, with what an engine gives and Spark."""
        given = "\n".join(f"{table}: {value}" for table, value in self.inputs.items())
        sql = self.translations[name].sql
        return f"{self.joint.sql}\n{given}\n{name}: {sql}\n{self.rows[name]}\nSpark: {self.rows.get('spark')}"


@dataclass
class Tally:
    """How many projects were tried, and what became of them and of their joints."""

    projects: int = 0
    whole: Counter[str] = field(default_factory=Counter)
    joints: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        whole = ", ".join(f"{self.whole[name]} whole on {name}" for name in ENGINES)
        return f"{self.projects} projects, {whole}; {dict(self.joints)}; {self.refused.most_common(9)}"


def random_projects(number: int, start: int) -> list[RandomProject]:
    """Return random projects, the same for the same seed ``start``."""
    found: list[RandomProject] = []

    @seed(start)
    @settings(
        max_examples=number,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(projects())
    def collect(project: RandomProject) -> None:
        found.append(project)

    collect()
    return found


class Comparison:
    """Tries projects on a Spark, a DuckDB and a Sail.

    Spark computes each joint on the rows that DuckDB gave for those before it: if these are Spark's, too, so are all.
    """

    def __init__(self, spark: Any, remote: Any) -> None:
        self._spark, self._duck, self._sail = SparkSide(spark), DuckSide(), SailSide(remote)
        for name, value in QUICK.items():
            spark.conf.set(name, value)
        self._given: dict[str, Table] = {}
        self.tally = Tally()

    def compare(self, some: Sequence[RandomProject]) -> None:
        """Add to the tally what becomes of the projects."""
        for start in range(0, len(some), _BATCH):
            tried = [list(self._cases(project)) for project in some[start : start + _BATCH]]
            self._on_spark([case for cases in tried for case in cases if case.frame is not None])
            for cases in tried:
                self._on_sail(cases)
                self._count(cases)

    def _cases(self, project: RandomProject) -> Iterator[Case]:
        """Yield the SQL joints, computed on DuckDB, or on Spark where DuckDB refuses them."""
        tables = {name: Table(columns, _OWN[name]) for name, columns in ENGINE_TABLES.items()}
        tables |= {name: Table(project.columns[name], rows) for name, rows in project.sources.items()}
        for name, table in tables.items():
            self._give(name, table)
        joints = [joint for joint in project.joints if joint.type == SQL]
        for position, joint in enumerate(joints):
            known = {name: tuple(zip(table.columns, KINDS, strict=True)) for name, table in tables.items()}
            translations = {engine: translate(joint.sql or "", engine, known) for engine in ENGINES}
            reads = project.upstream[joint.name] | ENGINE_TABLES.keys()
            case = Case(project, joint, {n: t for n, t in tables.items() if n in reads}, translations)
            self._analyze(case)
            if not translations["duckdb"].refusals:
                case.rows["duckdb"] = _rows(self._duck.query(translations["duckdb"].sql))
            rows = case.rows.get("duckdb")
            if rows is None or isinstance(rows, Failure):
                self._on_spark([case])
                rows = case.rows["spark"]
            yield case
            if isinstance(rows, Failure):  # on Spark, so that nothing can read it
                return
            tables[joint.name] = Table(project.columns[joint.name], rows)
            if any(joint.name in project.upstream[later.name] for later in joints[position + 1 :]):
                self._give(joint.name, tables[joint.name])

    def _analyze(self, case: Case) -> None:
        """Let Spark read a query, which refers to views as they are now."""
        try:
            case.frame = self._spark.spark.sql(case.joint.sql)
        except ERRORS as error:
            case.rows["spark"] = Failure(str(error))
            return
        kinds = [kind for _, kind in case.frame.dtypes]
        if tuple(kinds) != KINDS:
            case.frame, case.rows["spark"] = None, Failure(f"the types {', '.join(kinds)}")

    def _give(self, name: str, table: Table) -> None:
        """Make a table known, unless it is."""
        if self._given.get(name) != table:
            self._given[name] = table
            self._duck.give(name, table.arrow())
            self._spark.spark.sql(table.sql()).createOrReplaceTempView(quote(name))

    def _on_spark(self, cases: Sequence[Case]) -> None:
        """Compute the frames of several cases by one job, or in halves where that fails."""
        waiting = [case for case in cases if case.frame is not None]
        if not waiting:
            return
        for n, case in enumerate(waiting):
            case.frame.createOrReplaceTempView(quote(f"case {n}"))
        parts = [f"SELECT {n} AS n, * FROM {quote(f'case {n}')}" for n in range(len(waiting))]
        # One task, since each task is sent the plan of all of them.
        found = self._spark.query(f"SELECT /*+ COALESCE(1) */ * FROM ({' UNION ALL '.join(parts)})")
        if isinstance(found, Failure) and len(waiting) > 1:
            middle = len(waiting) // 2
            self._on_spark(waiting[:middle])
            self._on_spark(waiting[middle:])
            return
        each = [found] if isinstance(found, Failure) else _split(found, len(waiting))
        for case, rows in zip(waiting, each, strict=True):
            case.rows["spark"], case.frame = rows, None

    def _on_sail(self, cases: Sequence[Case]) -> None:
        """Compute cases by one query, or in halves where that fails."""
        here = [case for case in cases if not case.translations["sail"].refusals]
        if not here:
            return
        parts = []
        for n, case in enumerate(here):
            given = ", ".join(f"{quote(name)} AS ({table.sql()})" for name, table in case.inputs.items())
            items = ", ".join(map(quote, case.project.columns[case.joint.name]))
            query = f"SELECT {items} FROM ({case.translations['sail'].sql}) AS t"
            parts.append(f"SELECT {n} AS n, * FROM (WITH {given} {query}) AS t")
        found = self._sail.query(" UNION ALL ".join(parts))
        if isinstance(found, Failure) and len(here) > 1:
            middle = len(here) // 2
            self._on_sail(here[:middle])
            self._on_sail(here[middle:])
            return
        each = [found] if isinstance(found, Failure) else _split(found, len(here))
        for case, rows in zip(here, each, strict=True):
            case.rows["sail"] = rows

    def _count(self, cases: Sequence[Case]) -> None:
        self.tally.projects += 1
        for name in ENGINES:
            constructs = {refusal.construct for case in cases for refusal in case.translations[name].refusals}
            self.tally.whole[name] += not constructs and not any(_is_unplanned(case.rows.get(name)) for case in cases)
            self.tally.refused.update(f"{name}: {construct}" for construct in constructs)
        for case in cases:
            expected = case.rows["spark"]
            if isinstance(expected, Failure) and _DEFECT in expected.message:
                self.tally.joints["a defect of Spark"] += 1
                continue
            for name in ENGINES:
                translation = case.translations[name]
                if translation.refusals:
                    self.tally.joints[f"refused on {name}"] += 1
                    continue
                expected_columns = list(case.project.columns[case.joint.name])
                same = [column for column, _ in translation.columns or ()] == expected_columns
                result = case.rows[name]
                if name == "sail" and _is_unplanned(result):
                    self.tally.joints["cannot be planned on sail"] += 1
                    continue
                alike = not isinstance(expected, Failure) and result == expected
                self.tally.joints[f"alike on {name}" if same and alike else f"wrong on {name}"] += 1
                if not (same and alike):
                    self.tally.wrong.append(case.told(name))


def _is_unplanned(result: Rows | Failure | None) -> bool:
    return isinstance(result, Failure) and _UNPLANNED in result.message


def _rows(found: tuple[list[str], list[list[Any]]] | Failure) -> Rows | Failure:
    """Return the rows of a result, sorted; a failure where the types are not those of all relations."""
    return found if isinstance(found, Failure) else _sorted(found[0], list(zip(*found[1], strict=True)))


def _sorted(kinds: Sequence[str], rows: Rows) -> Rows | Failure:
    return sorted(rows, key=repr) if tuple(kinds) == KINDS else Failure(f"the types {', '.join(kinds)}")


def _split(found: tuple[list[str], list[list[Any]]], number: int) -> list[Rows | Failure]:
    """Return the rows of ``number`` queries, by the number that stands first in each."""
    kinds, values = found
    rows: list[list[Row]] = [[] for _ in range(number)]
    for n, *row in zip(*values, strict=True):
        rows[n].append((row[0], row[1], row[2]))
    return [_sorted(kinds[1:], each) for each in rows]
