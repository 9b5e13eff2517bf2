"""The entries of the lists of proven constructs as expressions over boundary and random values of their types."""

from __future__ import annotations

import datetime as dt
import itertools
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from rivet_dagster.sql.translation.proven import AGGREGATE, SCALAR, WINDOW, Argument, Entry, Support
from rivet_dagster.sql.translation.spark_types import CLASSES

_UTC = dt.UTC
DECIMALS = ("decimal(6,2)", "decimal(12,4)", "decimal(18,0)")
TEXTS = (
    None, "", " ", "a", "A", "abc", " Abc ", "é", "ß", "İ", "Σ", "日本", "😀x", "a,b", "1", "-7", " 12 ", "+5",
    "1.5", "1e3",
    "true", "No", "t", "2024-02-29", "2024-2-9", "2023-02-29", "2024-01-31 23:59:59", "NaN", "2147483648",
    "99999999999999999999", "\t1", "a\n", "a\rb", "b\u2028", "a%b", "_", "aaa", "x'y", "a.b", "[",
    "e\u0301", "0x1F", "ab ab",
)  # fmt: skip


def _decimals(texts: str) -> tuple[Decimal | None, ...]:
    return (None, *map(Decimal, texts.split()))


VALUES: dict[str, tuple[Any, ...]] = {
    "tinyint": (None, 0, 1, -1, 2, -2, 3, 7, -7, 100, 127, -128),
    "smallint": (None, 0, 1, -1, 2, 3, -7, 181, 182, 32767, -32768),
    "int": (None, 0, 1, -1, 2, 3, -3, 7, -7, 10, 46340, 46341, 2**31 - 1, -(2**31)),
    "bigint": (None, 0, 1, -1, 2, 3, -7, 2**31, 3037000500, 2**53 + 1, 2**63 - 1, -(2**63)),
    "float": (None, 0.0, -0.0, 1.0, -1.5, 0.5, 3.4028234663852886e38, 1e-45, float("nan"), float("inf"), -float("inf")),
    "double": (
        None, 0.0, -0.0, 1.0, -1.0, 0.1, 0.5, 1.5, 2.5, -1.9, 1.9, 1e10, 1e-5, 123456789.123,
        7.5e-8, -7.5e-8, 127.9, -128.9,
        2147483647.5, 2147483648.0, -2147483649.0, 9.3e18, 1e300, 1.7976931348623157e308, 5e-324, float("nan"),
        float("inf"), -float("inf"),
    ),
    "string": TEXTS,
    "boolean": (None, True, False),
    "date": tuple(None if t is None else dt.date.fromisoformat(t) for t in (
        None, "1970-01-01", "1969-12-31", "2024-02-29", "2023-02-28", "2024-01-31", "2024-12-31", "2021-01-03",
        "2020-12-28", "0001-01-01", "9999-12-31", "1582-10-15", "1900-03-01", "2024-03-31",
    )),
    "timestamp": tuple(None if t is None else dt.datetime.fromisoformat(t).replace(tzinfo=_UTC) for t in (
        None, "1970-01-01 00:00:00", "1969-12-31 23:59:59.999999", "2024-02-29 23:30:00", "2024-03-31 00:59:59",
        "2024-03-31 01:00:00", "2024-10-27 00:30:00", "2024-10-27 01:30:00", "2024-12-31 23:00:00",
        "2024-03-10 06:59:59", "2024-03-10 07:00:00", "2024-11-03 05:30:00", "2024-11-03 06:30:00",
        "2000-01-01 12:34:56.789012", "1905-06-01 00:00:00", "9999-12-30 00:00:00",
    )),
    "timestamp_ntz": tuple(None if t is None else dt.datetime.fromisoformat(t) for t in (
        None, "1970-01-01 00:00:00", "1969-12-31 23:59:59.999999", "2024-02-29 23:30:00", "2000-01-01 12:34:56.789012",
        "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999",
    )),
    "decimal(6,2)": _decimals("0.00 1.00 -1.50 2.50 0.01 9999.99 -9999.99 1.99 3.00"),
    "decimal(12,4)": _decimals("0.0000 1.0000 -1.5000 2.5000 0.1250 0.0050 99999999.9999 -99999999.9999 123.4567"),
    "decimal(18,0)": _decimals("0 1 -1 3 127 128 2147483648 999999999999999999 -999999999999999999"),
    "array<int>": (None, [], [1], [1, None], [3, 1, 2], [None], [2**31 - 1, -(2**31)], [1, 1, 2, None, 2]),
    "array<string>": (None, [], ["a"], ["a", None, ""], ["b", "a"], [None]),
    "array<double>": (None, [], [1.5], [None, float("nan"), 0.0]),
    "array<array<int>>": (None, [], [[1, 2], [3]], [[1], None], [[], [None]]),
}  # fmt: skip
_ARROW = {
    "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "string": pa.string(), "boolean": pa.bool_(), "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip
_LITERALS = {
    "<count>": ("0", "1", "3", "10"),
    "<position>": ("1", "2", "5"),
    "<nonzero>": ("2", "-3"),
    "<small>": ("0", "2", "-3"),
    "<text>": ("''", "', '"),
    "<filled>": ("' '", "'ab'"),
    "<ascii>": ("'ab'", "'xy'"),
    "<regex>": ("'a+'", "'^[0-9]+$'", "'^(a|b).*$'", "'[A-Z]'", "'^a$'", "'a.b'"),
    "<pattern>": ("'a+'", "'[0-9]'", "'(a|b).'"),
    "<plain>": ("','", "' '", "'a'", "'b'"),
    "<like>": ("'a%'", "'%_b%'", "'%'", "'_'", "'A%'"),
    "<ilike>": ("'a%'", "'%B%'", "'_'"),
    "<format>": ("'yyyy-MM-dd'", "'dd.MM.yyyy HH:mm:ss'", "'yyyyMM'"),
    "<256>": ("256",),
    "<16>": ("16",),
    "<10>": ("10",),
    **{f"<{scale}>": (str(scale),) for scale in range(7)},
    "interval_days": ("INTERVAL 1 DAY", "INTERVAL 2 WEEKS", "INTERVAL '40' DAY"),
    "interval_months": ("INTERVAL 1 MONTH", "INTERVAL 13 MONTHS", "INTERVAL 1 YEAR"),
}
_LAMBDAS = {
    "transform": {"boolean": "x -> x IS NULL", "string": "x -> 'z'", "": "x -> coalesce(x, x)"},
    "filter": {"boolean": "x -> x IS NULL OR x = x"},
    "exists": {"boolean": "x -> x = x"},
    "aggregate": {"": "(a, x) -> coalesce(x, a)"},
    "reduce": {"": "(a, x) -> coalesce(x, a)"},
}
_INFIX = frozenset("+ - * / % div = <> < <= > >= <=> and or || & | ^ like ilike rlike".split())
_TARGETS = ("decimal(10,2)", "decimal(38,10)", "decimal(5,0)", "decimal(4,1)")


@dataclass(frozen=True)
class Construct:
    """An expression over columns ``c1``, ``c2`` of certain types, from an entry of a list."""

    entry: Entry
    types: tuple[str, ...]
    text: str

    @property
    def has_times(self) -> bool:
        """Whether a time zone may change its result."""
        return any("timestamp" in text for text in (self.entry.name, self.entry.result, *self.types))


def expanded(pattern: str, bound: dict[str, str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the types of a pattern, with what its variables stand for."""
    for around in ("array<", "lambda<"):
        if pattern.startswith(around):
            for inner, now in expanded(pattern[len(around) : -1], bound):
                yield f"{around}{inner}>", now
            return
    if pattern in bound:
        yield bound[pattern], bound
    elif pattern in CLASSES:
        for kind in CLASSES[pattern]:
            for one in DECIMALS if kind == "decimal" else (kind,):
                yield one, {**bound, pattern: one}
    elif pattern in ("decimal", "decimal2"):
        for one in DECIMALS:
            yield one, {**bound, pattern: one}
    else:
        yield pattern, bound


def constructs(support: Support, section: str = SCALAR) -> Iterator[Construct]:
    """Yield the expressions of all entries of a section, for each type that the entry holds for."""
    for entries in support.entries[section].values():
        for entry in entries:
            yield from of_entry(entry)


def of_entry(entry: Entry) -> Iterator[Construct]:
    """Yield the expressions of one entry."""
    patterns = [p for p in entry.types if p != "..."]
    combinations: list[tuple[tuple[str, ...], dict[str, str]]] = [((), {})]
    for pattern in patterns:
        combinations = [
            ((*types, kind), now) for types, bound in combinations for kind, now in expanded(pattern, bound)
        ]
    for types, _ in combinations:
        columns = [kind for kind in types if kind in VALUES]
        if any(kind.startswith("array<") and kind not in VALUES for kind in types) or "void" in types:
            continue
        yield from (Construct(entry, tuple(columns), text) for text in _texts(entry, types))


def _texts(entry: Entry, types: Sequence[str]) -> Iterator[str]:
    choices: list[tuple[str, ...]] = []
    column = 0
    for kind in types:
        if kind in VALUES:
            column += 1
            choices.append((f"c{column}",))
        elif kind.startswith("lambda<"):
            inner, bodies = kind[7:-1], _LAMBDAS[entry.name]
            body = bodies.get(inner) or (bodies.get("") if f"array<{inner}>" == types[0] else None)
            choices.append(() if body is None else (body,))
        elif kind[0] == "'":
            choices.append((kind,))
        else:
            choices.append(_LITERALS[kind])
    for arguments in itertools.product(*choices):
        yield from _written(entry.name, arguments)


def _written(name: str, arguments: Sequence[str]) -> Iterator[str]:
    if name in _INFIX:
        yield f"{arguments[0]} {name.upper()} {arguments[1]}"
    elif name.startswith("timestampdiff_"):
        yield f"timestampdiff({name[14:].upper()}, {', '.join(arguments)})"
    elif name == "[]":
        yield f"{arguments[0]}[{arguments[1]}]"
    elif name in ("not", "negative"):
        yield f"{'NOT' if name == 'not' else '-'} {arguments[0]}"
    elif name.startswith("is_"):
        yield f"{arguments[0]} {name.upper().replace('_', ' ')}"
    elif (found := re.fullmatch(r"(try_cast|cast)-(\w+)", name)) is not None:
        if found[2] == "wider":
            return
        targets = _TARGETS if found[2] == "decimal" else (found[2],)
        yield from (f"{found[1].upper()}({arguments[0]} AS {target.upper()})" for target in targets)
    else:
        yield f"{name}({', '.join(arguments)})"


def aggregates(support: Support) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the aggregates of a list, as calls over a column ``c1``, and its type."""
    for construct in constructs(support, AGGREGATE):
        if construct.entry.apply([Argument(kind) for kind in construct.types]) is None:  # for some decimals alone
            continue
        name, _, distinct = construct.entry.name.partition(" ")
        name = "count" if name == "count_rows" else name
        argument = "c1" if construct.types else "*"
        yield construct.types, f"{name}({'DISTINCT ' if distinct else ''}{argument})"


def windows(support: Support) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the window functions of a list, and its aggregates, over windows of ``args``."""
    for construct in constructs(support, WINDOW):
        name, _, nulls = construct.entry.name.partition("_ignore_nulls")
        call = construct.text.replace(f"{construct.entry.name}(", f"{name}(")
        ignored = " IGNORE NULLS" if construct.entry.name.endswith("_ignore_nulls") else nulls
        yield construct.types, f"{call}{ignored} OVER (PARTITION BY id % 3 ORDER BY id)"
    for types, call in aggregates(support):
        moves = f"no moving {call.partition('(')[0]}" not in support.clauses
        if f"no OVER {call.partition('(')[0]}" in support.clauses:
            continue
        if moves and "DISTINCT" not in call and not call.startswith("collect_list"):
            yield types, f"{call} OVER (PARTITION BY id % 2 ORDER BY id DESC ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)"


_INEXACT = {
    "double": (None, 0.0, 0.5, 1.0, -1.5, 2.25, 1024.0),
    "float": (None, 0.0, 0.5, 1.0, -1.5, 2.25, 1024.0),
    "bigint": (None, 0, 1, -7, 2**31, 2**40),
}
"""Values whose sums are exact, so that the order in which they are added does not matter."""


def arguments_of(types: Sequence[str], rows: int, seed: int = 0, exact: bool = False) -> pa.Table:
    """Return a table of an ``id`` and of boundary values in all combinations, or ``rows`` of these."""
    pools = [_INEXACT.get(kind, VALUES[kind]) if exact else VALUES[kind] for kind in types]
    everything = list(itertools.product(*pools)) if types else [()]
    if len(everything) > rows:
        everything = random.Random(seed).sample(everything, rows)
    columns = {"id": pa.array(range(len(everything)), pa.int32())}
    for position, kind in enumerate(types):
        columns[f"c{position + 1}"] = pa.array([row[position] for row in everything], arrow_type(kind))
    return pa.table(columns)


def arrow_type(kind: str) -> pa.DataType:
    """Return Arrow's type for one of Spark."""
    if kind.startswith("array<"):
        return pa.list_(arrow_type(kind[6:-1]))
    found = re.fullmatch(r"decimal\((\d+),(\d+)\)", kind)
    return pa.decimal128(int(found[1]), int(found[2])) if found else _ARROW[kind]
