"""The comparison of a target's rows with the expected ones, as multisets.

Of those that differ, pairs of a missing and an unexpected row that are nearly the same are found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from datetime import tzinfo
from typing import Any, TypeVar

from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.model.schema import SparkType
from rivet_dagster.project_tests.declared import EXACT, SCHEMA_ONLY, GivenRows, ProjectTest
from rivet_dagster.project_tests.fixtures import read_rows
from rivet_dagster.project_tests.results import Difference, NearRow, Row, SchemaDifference
from rivet_dagster.project_tests.values import Table, in_zone

_ANY = "any"
"""The expected type of a column of which only the name is expected."""


def compare(test: ProjectTest, expected: GivenRows, actual: Table, zone: Callable[[], tzinfo]) -> Difference:
    """Return how ``actual``, the rows of the target, differ from ``expected``; ``zone`` is the session's time zone.

    Raises RVT-204 for expected values that do not fit their columns, and RVT-217 for columns that nothing is expected
    of.
    """
    ignored = _ignored(test, expected, actual)
    actual = _without(actual, ignored)
    types = None if expected.types is None else [c for c in expected.types if c[0].lower() not in ignored]
    names = _names(expected, types, ignored)
    if names is None and test.compare == SCHEMA_ONLY:
        message = "`expected` names no columns: give `schema` or `columns`"
        raise RivetError.of([expected.location.diagnostic("RVT-205", message)])
    if names is None:  # no row is expected, and nothing tells of which columns
        return Difference(unexpected=_as_dicts(actual, actual.rows), rows=len(actual.rows))
    schema = _schema(names, types, actual)
    _refuse_unnamed(test, expected, names, actual)
    if test.compare == SCHEMA_ONLY or schema:
        return Difference(schema=schema, rows=len(actual.rows))
    wanted = _expected(expected, types or list(actual.columns), ignored, zone)
    order = {name.lower(): number for number, name in enumerate(actual.names)}
    picked = sorted(range(len(wanted.columns)), key=lambda n: order[wanted.columns[n][0].lower()])
    rows = tuple(tuple(row[n] for n in picked) for row in wanted.rows)
    return _rows_differ(Table(actual.columns, rows), actual, test)


def _rows_differ(wanted: Table, actual: Table, test: ProjectTest) -> Difference:
    tolerance = test.tolerance or 0.0
    same = Sameness([type_ for _, type_ in actual.columns], tolerance)
    missing, unexpected = match_rows(wanted.rows, actual.rows, same.exact_part, same.close, tolerance > 0)
    order = None
    if not missing and not unexpected and test.compare == EXACT:
        pairs = zip(wanted.rows, actual.rows, strict=True)
        order = next((number for number, (one, other) in enumerate(pairs, 1) if not same.close(one, other)), None)
    lost = _as_dicts(wanted, [wanted.rows[n] for n in missing])
    surplus = _as_dicts(actual, [actual.rows[n] for n in unexpected])
    return Difference(
        lost, surplus, near=near_rows(lost, surplus, same.by_name(actual.names)), order=order, rows=len(actual.rows)
    )


class Sameness:
    """When two rows of these types are the same: NULL and NaN equal themselves, floats within ``tolerance``."""

    def __init__(self, types: Sequence[SparkType], tolerance: float) -> None:
        self._types = types
        self._tolerance = tolerance

    def exact_part(self, row: Sequence[Any]) -> Hashable:
        """Return what must be equal in rows that are the same; without a tolerance all of it."""
        return tuple(map(self._key, row, self._types))

    def close(self, one: Sequence[Any], other: Sequence[Any]) -> bool:
        """Return whether two rows are the same."""
        return all(map(self._close, one, other, self._types))

    def by_name(self, names: Sequence[str]) -> Callable[[str, Any, Any], bool]:
        """Return a function that says whether two values of a column are the same."""
        types = dict(zip(names, self._types, strict=True))
        return lambda name, one, other: self._close(one, other, types[name])

    def _key(self, value: Any, type_: SparkType) -> Hashable:
        match type_.kind:
            case _ if value is None:
                return None
            case "float" | "double":
                if math.isnan(value):
                    return "NaN"
                return "float" if self._tolerance and math.isfinite(value) else float(value)
            case "array":
                return tuple(self._key(item, type_.parts[0]) for item in value)
            case "struct":
                return tuple(self._key(value[n], part) for n, part in zip(type_.names, type_.parts, strict=True))
            case "map":
                pairs = [(self._key(k, type_.parts[0]), self._key(v, type_.parts[1])) for k, v in value]
                return frozenset(_counted(pairs))
        return value if isinstance(value, Hashable) else repr(value)

    def _close(self, one: Any, other: Any, type_: SparkType) -> bool:
        if one is None or other is None:
            return one is other
        match type_.kind:
            case "float" | "double":
                if math.isfinite(one) and math.isfinite(other):
                    return bool(one == other or abs(one - other) <= self._tolerance)
                return bool(one == other or (math.isnan(one) and math.isnan(other)))
            case "array":
                return len(one) == len(other) and all(
                    self._close(a, b, type_.parts[0]) for a, b in zip(one, other, strict=True)
                )
            case "struct":
                return all(
                    self._close(one[n], other[n], part) for n, part in zip(type_.names, type_.parts, strict=True)
                )
            case "map":
                return self._same_maps(one, other, type_)
        return bool(one == other)

    def _same_maps(self, one: Sequence[Any], other: Sequence[Any], type_: SparkType) -> bool:
        """Compare maps whatever their order; keys are equal exactly."""
        exact = Sameness((), 0.0)
        values = {exact._key(key, type_.parts[0]): value for key, value in other}
        keys = [exact._key(key, type_.parts[0]) for key, _ in one]
        if set(keys) != values.keys() or len(one) != len(other):
            return False
        return all(self._close(v, values[k], type_.parts[1]) for k, (_, v) in zip(keys, one, strict=True))


def _counted(pairs: Sequence[Hashable]) -> list[tuple[Hashable, int]]:
    return [(pair, pairs.count(pair)) for pair in pairs]


def _ignored(test: ProjectTest, expected: GivenRows, actual: Table) -> frozenset[str]:
    known = {*actual.names, *(expected.columns or ()), *(name for name, _ in expected.types or ())}
    lowered = {name.lower() for name in known}
    for name in test.ignored:
        if name.lower() not in lowered:
            message = f"`ignore_columns`: '{test.target}' has no column '{name}'{nearest(name, known)}"
            raise RivetError.of([test.location_of("options.ignore_columns").diagnostic("RVT-204", message)])
    return frozenset(name.lower() for name in test.ignored)


def _without(table: Table, ignored: frozenset[str]) -> Table:
    wanted = [number for number, name in enumerate(table.names) if name.lower() not in ignored]
    return Table(tuple(table.columns[n] for n in wanted), tuple(tuple(row[n] for n in wanted) for row in table.rows))


def _names(expected: GivenRows, types: list[tuple[str, SparkType]] | None, ignored: frozenset[str]) -> list[str] | None:
    if types is not None:
        return [name for name, _ in types]
    if expected.columns is None:
        return [] if expected.rows else None
    return [name for name in expected.columns if name.lower() not in ignored]


def _schema(
    names: Sequence[str], types: list[tuple[str, SparkType]] | None, actual: Table
) -> tuple[SchemaDifference, ...]:
    computed = {name.lower(): str(type_) for name, type_ in actual.columns}
    wanted = {name.lower(): str(type_) for name, type_ in types or ()}
    changes = []
    for name in names:
        type_ = computed.get(name.lower())
        if type_ is None or wanted.get(name.lower(), type_).lower() != type_.lower():
            changes.append(SchemaDifference(name, wanted.get(name.lower(), _ANY), type_))
    return tuple(changes)


def _refuse_unnamed(test: ProjectTest, expected: GivenRows, names: Sequence[str], actual: Table) -> None:
    known = {name.lower() for name in names}
    unnamed = [name for name in actual.names if name.lower() not in known]
    if unnamed:
        word = "the column" if len(unnamed) == 1 else "the columns"
        message = f"`expected` does not name {word} {', '.join(unnamed)} of '{test.target}'"
        missing = [name for name in names if name.lower() not in {n.lower() for n in actual.names}]
        if missing:
            message += f", and names {', '.join(missing)}, which it lacks"
        raise RivetError.of([expected.location.diagnostic("RVT-217", message)])


def _expected(
    expected: GivenRows, types: list[tuple[str, SparkType]], ignored: frozenset[str], zone: Callable[[], tzinfo]
) -> Table:
    positions = [n for n, name in enumerate(expected.columns or ()) if name.lower() not in ignored]
    given = GivenRows(
        expected.location,
        tuple((expected.columns or ())[n] for n in positions),
        tuple(tuple(row[n] for n in positions) for row in expected.rows),
        expected.lines,
        expected.file,
    )
    table = read_rows(given, "expected", types)
    if not any("timestamp" in str(type_) for _, type_ in types):
        return table
    session_zone = zone()
    rows = tuple(tuple(in_zone(v, t, session_zone) for v, (_, t) in zip(row, types, strict=True)) for row in table.rows)
    return Table(table.columns, rows)


def _as_dicts(table: Table, rows: Sequence[Sequence[Any]]) -> tuple[dict[str, Any], ...]:
    return tuple(dict(zip(table.names, row, strict=True)) for row in rows)


R = TypeVar("R")


def match_rows(
    expected: Sequence[R],
    actual: Sequence[R],
    exact_part: Callable[[R], Hashable],
    close: Callable[[R, R], bool],
    approximate: bool,
) -> tuple[list[int], list[int]]:
    """Return the numbers of the expected rows without a partner, and of the actual ones; as many as can be have one.

    Only rows of the same ``exact_part`` can be partners; if not ``approximate`` all of these can.

    >>> near = lambda one, other: abs(one - other) <= 1
    >>> match_rows([1, 2], [3, 2], lambda row: None, near, True)
    ([], [])
    >>> match_rows([1, 1, 2], [1, 2, 2], lambda row: row, near, False)
    ([1], [2])
    """
    parts: dict[Hashable, tuple[list[int], list[int]]] = {}
    for side, rows in enumerate((expected, actual)):
        for number, row in enumerate(rows):
            parts.setdefault(exact_part(row), ([], []))[side].append(number)
    missing: list[int] = []
    unexpected: list[int] = []
    for wanted, numbers in parts.values():
        if approximate:
            partners = _partners(wanted, numbers, lambda e, a: close(expected[e], actual[a]))
        else:
            partners = dict(zip(numbers, wanted, strict=False))
        taken = set(partners.values())
        missing += [number for number in wanted if number not in taken]
        unexpected += [number for number in numbers if number not in partners]
    return sorted(missing), sorted(unexpected)


def _partners(wanted: Sequence[int], given: Sequence[int], close: Callable[[int, int], bool]) -> dict[int, int]:
    """Return the partner in ``wanted`` of as many of ``given`` as can have one, by augmenting paths."""
    candidates = {row: [other for other in given if close(row, other)] for row in wanted}
    partner_of: dict[int, int] = {}
    partners: dict[int, int] = {}
    for start in wanted:
        reached_from: dict[int, int] = {}
        waiting, free = [start], None
        while waiting and free is None:
            row = waiting.pop()
            for other in candidates[row]:
                if other not in reached_from:
                    reached_from[other] = row
                    if other not in partners:
                        free = other
                        break
                    waiting.append(partners[other])
        while free is not None:  # each row of the path takes the next one's partner
            row = reached_from[free]
            before = partner_of.get(row)
            partner_of[row], partners[free] = free, row
            free = None if row == start else before
    return partners


_COMPARED = 100
"""How many rows of each side are compared with those of the other."""


def near_rows(
    missing: Sequence[Row], unexpected: Sequence[Row], same: Callable[[str, Any, Any], bool]
) -> tuple[NearRow, ...]:
    """Return pairs of rows that are the same in at least half of their columns, the most similar ones first.

    >>> near_rows([{"id": 1, "n": 2}], [{"id": 7, "n": 9}, {"id": 1, "n": 3}], lambda _, one, other: one == other)
    (NearRow(missing={'id': 1, 'n': 2}, unexpected={'id': 1, 'n': 3}, columns=('n',)),)
    """
    candidates = []
    for m, lost in enumerate(missing[:_COMPARED]):
        for u, row in enumerate(unexpected[:_COMPARED]):
            columns = tuple(name for name in lost if not same(name, lost[name], row[name]))
            if len(columns) * 2 <= len(lost):
                candidates.append((len(columns), m, u, columns))
    pairs = []
    taken: tuple[set[int], set[int]] = set(), set()
    for _, m, u, columns in sorted(candidates):
        if m not in taken[0] and u not in taken[1]:
            taken[0].add(m)
            taken[1].add(u)
            pairs.append(NearRow(missing[m], unexpected[u], columns))
    return tuple(pairs)
