"""The columns of a table after a write, and the casts of its rows to them.

Layout of rows in files, so that a later write of one part does not rewrite the files of other parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from sqlglot import exp

from rivet_dagster.model.partitions import Partitions, Window
from rivet_dagster.sql.partitions import Values, starts
from rivet_dagster.sql.trees import limited, named
from rivet_dagster.sql.write_strategies.trees import Columns, plain_column, plain_relation, sql_text

_WHOLE = ("tinyint", "smallint", "int", "bigint")
_COLLATION = re.compile(r"\b(string|(?:var)?char\(\d+\)) collate \w+")
_DECIMAL = re.compile(r"^decimal\((\d+),(\d+)\)$")


class SchemaChange(ValueError):
    """Columns of a batch that do not fit the table, described in a sentence."""


def align_columns(target: Columns, batch: Columns, on_schema_change: str) -> Columns:
    """Return the columns of the table after ``batch`` is written to it: its own first, in their order and spelling.

    Columns are matched by name, ignoring case. The wider of two types is used; texts are without a collation, which
    tables do not store. A column that only one of them has is an error under ``fail``; under ``add`` the table has it,
    under ``ignore`` only if the table had it. Raise SchemaChange.

    >>> align_columns([("id", "int"), ("net", "float")], [("net", "double"), ("ID", "bigint"), ("vat", "float")], "add")
    (('id', 'bigint'), ('net', 'double'), ('vat', 'float'))
    """
    target, batch = plain_columns(target), plain_columns(batch)
    incoming = {name.lower(): kind for name, kind in batch}
    present = {name.lower() for name, _ in target}
    new = [(name, kind) for name, kind in batch if name.lower() not in present]
    lacking = [name for name, _ in target if name.lower() not in incoming]
    wrong = []
    if on_schema_change == "fail":
        wrong += [f"the batch lacks {', '.join(lacking)}"] if lacking else []
        wrong += [f"the table has no {', '.join(f'{name} ({kind})' for name, kind in new)}"] if new else []
    kinds = []
    for name, kind in target:
        both = wider(kind, incoming.get(name.lower(), kind))
        if both is None:
            wrong.append(f"{name} is {kind} in the table and {incoming[name.lower()]} in the batch")
        kinds.append((name, both or kind))
    if wrong:
        raise SchemaChange("; ".join(wrong))
    return (*kinds, *(new if on_schema_change == "add" else ()))


def plain(kind: str) -> str:
    """Return a type whose texts have no collation.

    >>> plain("array<string collate UTF8_LCASE>")
    'array<string>'
    """
    return _COLLATION.sub(r"\1", kind)


def plain_columns(columns: Columns) -> Columns:
    """Return columns whose texts have no collation."""
    return tuple((name, plain(kind)) for name, kind in columns)


def projection(columns: Columns, existing: Columns, name: str) -> str:
    """Return the query that casts the relation ``name``, whose columns are ``existing``, to ``columns`` by name.

    >>> projection([("id", "bigint"), ("vat", "float")], [("ID", "int")], "batch")
    'SELECT CAST(`ID` AS bigint) AS `id`, CAST(NULL AS float) AS `vat` FROM `batch`'
    """
    present = {name.lower(): (name, kind) for name, kind in existing}
    chosen = [_chosen(column_name, kind, present) for column_name, kind in columns]
    return sql_text(exp.select(*chosen).from_(plain_relation(name)))


_TEXT = re.compile(r"string|varchar|char|binary")
_NESTED = re.compile(r"array|map|struct|variant")


def shortened(columns: Columns, name: str, most: int) -> str | None:
    """Return the query of the relation ``name`` with texts and binaries of at most ``most`` characters or bytes.

    An array, a map, a struct or a variant whose text is longer is NULL, and the column ``text_of`` of its position has
    the beginning of that text. None if it has no such column, or two columns of one name.

    >>> shortened([("id", "int"), ("note", "string")], "batch", 1000)
    'SELECT `id`, LEFT(`note`, 1000) AS `note` FROM `batch`'
    """
    if len({column.lower() for column, _ in columns}) < len(columns):
        return None
    chosen: list[exp.Expr] = []
    texts: list[exp.Expr] = []
    for position, (column, kind) in enumerate(columns):
        value = plain_column(column)
        if _TEXT.match(kind.lower()):
            value = exp.alias_(_beginning(value, most), column, quoted=True)
        elif _NESTED.match(kind.lower()):
            text = exp.cast(value.copy(), "string", dialect="spark")
            is_long = exp.GT(this=exp.Length(this=text), expression=exp.Literal.number(most))
            value = exp.alias_(exp.If(this=is_long, true=exp.Null(), false=value), column, quoted=True)
            beginning = exp.If(this=is_long.copy(), true=_beginning(text.copy(), most), false=exp.Null())
            texts.append(exp.alias_(beginning, text_of(position), quoted=True))
        chosen.append(value)
    if not texts and not any(isinstance(value, exp.Alias) for value in chosen):
        return None
    return sql_text(exp.select(*chosen, *texts).from_(plain_relation(name)))


def text_of(position: int) -> str:
    """Return the column of ``shortened`` with the beginning of the text of a column, by its position."""
    return f"rivet_text_{position}"


def _beginning(text: exp.Expr, most: int) -> exp.Expr:
    return exp.func("LEFT", text, exp.Literal.number(most))


def without_rows(columns: Columns) -> str:
    """Return the query of no rows with ``columns``.

    >>> without_rows([("id", "bigint")])
    'SELECT CAST(NULL AS bigint) AS `id` WHERE FALSE'
    """
    return sql_text(exp.select(*[_chosen(name, kind, {}) for name, kind in columns]).where(exp.false()))


def _chosen(name: str, kind: str, present: Mapping[str, tuple[str, str]]) -> exp.Expr:
    name_there, own_kind = present.get(name.lower(), (None, None))
    value: exp.Expr = exp.Null() if name_there is None else plain_column(name_there)
    if own_kind != kind:
        value = exp.Cast(this=value, to=exp.DataType(this=exp.DType.USERDEFINED, kind=kind))
    elif name_there == name:
        return value
    return named(value, name)


def wider(kind: str, other: str) -> str | None:
    """Return the type that holds every value of both unchanged; None where there is no such type.

    >>> wider("int", "bigint"), wider("decimal(9,2)", "decimal(7,2)"), wider("int", "double")
    ('bigint', 'decimal(9,2)', None)
    """
    if kind == other:
        return kind
    if kind in _WHOLE and other in _WHOLE:
        return max(kind, other, key=_WHOLE.index)
    if {kind, other} == {"float", "double"}:
        return "double"
    decimal, other_decimal = _DECIMAL.match(kind), _DECIMAL.match(other)
    if decimal and other_decimal and decimal[2] == other_decimal[2]:
        return max(kind, other, key=lambda text: int(_DECIMAL.match(text)[1]))  # type: ignore[index]
    return None


PART = "rivet_part"
"""The column with the part to which a row belongs; it is not stored."""

MOST_PARTS = 200
"""The maximum number of parts, as each adds a condition to the query; a longer window has several partitions a part."""


def part_rows(name: str, columns: Sequence[str]) -> tuple[str, Values]:
    """Return the rows of the relation ``name`` with a part for each combination of values, and the query's parameters.

    The part is a hash, which is valid in the name of a folder whatever the values are; a collision does no harm.

    >>> part_rows("batch", ["day"])
    ('SELECT *, XXHASH64(`day`) AS `rivet_part` FROM `batch`', {})
    """
    part = exp.Anonymous(this="XXHASH64", expressions=[plain_column(c) for c in columns])
    return sql_text(exp.select(exp.Star(), named(part, PART)).from_(plain_relation(name))), {}


def part_further(name: str, columns: Iterable[str], by: Sequence[str]) -> str:
    """Return the rows of a relation, which may have parts, with a part for each combination of values ``by`` in a part.

    ``columns`` are all of the relation. A collision of two hashes gives rows of two combinations one part.

    >>> part_further("batch", ["id", "day"], ["day"])
    'SELECT `id`, `day`, XXHASH64(`day`) AS `rivet_part` FROM `batch`'
    >>> part_further("batch", ["day", "rivet_part"], ["day"])
    'SELECT `day`, XXHASH64(`rivet_part`, `day`) AS `rivet_part` FROM `batch`'
    """
    present = list(columns)
    within = [PART] if PART in present else []
    part = exp.Anonymous(this="XXHASH64", expressions=[plain_column(column) for column in (*within, *by)])
    stored = [plain_column(column) for column in present if column != PART]
    return sql_text(exp.select(*stored, named(part, PART)).from_(plain_relation(name)))


def values_of_files(name: str, columns: Sequence[str]) -> str:
    """Return the query of the URIs of the files of a relation, with the texts of the values of ``columns`` in each.

    >>> values_of_files("files", ["day"])
    'SELECT DISTINCT INPUT_FILE_NAME() AS `file`, CAST(`day` AS STRING) AS `0` FROM `files`'
    """
    file = named(exp.Anonymous(this="INPUT_FILE_NAME"), "file")
    texts = [named(exp.cast(plain_column(column), "string"), str(at)) for at, column in enumerate(columns)]
    return sql_text(exp.select(file, *texts).distinct().from_(plain_relation(name)))


def parted_by_window(name: str, partitions: Partitions, kind: str, window: Window) -> tuple[str, Values]:
    """Return the same with a part for each partition of ``window``; ``kind`` is the type of their column.

    >>> regions = Partitions("static", "region", values=("eu", "us"))
    >>> parted_by_window("batch", regions, "string", Window(regions, ("eu", "us")))
    ('SELECT *, XXHASH64(`region`) AS `rivet_part` FROM `batch`', {})
    """
    if not partitions.of_time:
        return part_rows(name, [partitions.column])
    step = -(-len(window.keys) // MOST_PARTS)
    bounds = starts(partitions, kind, window.bounds[step:-1:step])
    moment = plain_column(partitions.column)
    has_begun = [exp.cast(exp.GTE(this=moment.copy(), expression=bound), exp.DType.INT) for bound, _ in bounds.values()]
    part: exp.Expr = exp.Literal.number(0)
    for condition in has_begun:
        part = exp.Add(this=part, expression=condition)
    values = {parameter: value for parameter, (_, value) in bounds.items()}
    return sql_text(exp.select(exp.Star(), named(part, PART)).from_(plain_relation(name))), values


def nothing_of(name: str, columns: Iterable[str]) -> str:
    """Return the ``columns`` of a relation with parts, without the part and without rows.

    >>> nothing_of("batch", ["id", "rivet_part"])
    'SELECT `id` FROM `batch` LIMIT 0'
    """
    present = (plain_column(column) for column in columns if column != PART)
    return sql_text(limited(exp.select(*present).from_(plain_relation(name)), 0))


def in_partitions(name: str, count: int) -> str:
    """Return all rows of a relation in ``count`` partitions of Spark, without a shuffle.

    >>> in_partitions("batch", 2)
    'SELECT /*+ COALESCE(2) */ * FROM `batch`'
    """
    coalesce = exp.Anonymous(this="COALESCE", expressions=[exp.Literal.number(count)])
    query = exp.select(exp.Star()).from_(plain_relation(name))
    query.set("hint", exp.Hint(expressions=[coalesce]))
    return sql_text(query)
