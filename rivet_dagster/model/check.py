"""Quality checks: assertions judge the rows a joint just computed, audits the whole target."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rivet_dagster.errors import Diagnostic, nearest
from rivet_dagster.model import convert
from rivet_dagster.model.origin import Origin

ASSERTION, AUDIT = "assertion", "audit"
ERROR, WARN = "error", "warn"

MOST_SAMPLES = 100

KINDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "not_null": (("columns",), ()),
    "unique": (("columns",), ()),
    "row_count": ((), ("min", "max")),
    "accepted_values": (("column", "values"), ()),
    "expression": (("sql",), ()),
    "custom": (("sql",), ()),
    "schema": (("columns",), ()),
    "freshness": (("column", "max_age"), ()),
    "relationship": (("column", "to"), ()),
}
"""Each kind with its required and its optional options."""

_COMMON = ("type", "name", "severity", "timeout", "samples", "description", "tags", "remediation")


@dataclass(frozen=True, kw_only=True)
class Check:
    """One rule on a joint's rows.

    ``types`` are the columns of a schema check with their Spark types, in any order. ``max_age`` and ``timeout`` are in
    seconds; ``samples``, 0 to 100, is how many violating rows a result shows. ``sql`` begins on ``sql_line`` of the
    file. ``to`` is the joint and the column that a relationship leads to; ``reads`` are the joints besides its own that
    the check reads, known once it is compiled.
    """

    kind: str
    name: str
    phase: str
    severity: str = ERROR
    columns: tuple[str, ...] = ()
    sql: str | None = None
    values: tuple[Any, ...] = ()
    min: int | None = None
    max: int | None = None
    types: tuple[tuple[str, str], ...] = ()
    max_age: float | None = None
    to: tuple[str, str] | None = None
    reads: tuple[str, ...] = ()
    timeout: float | None = None
    samples: int = 10
    description: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    remediation: str | None = None
    file: str | None = None
    line: int | None = None
    sql_line: int | None = None

    @property
    def blocking(self) -> bool:
        """Whether its failure keeps the data from being published."""
        return self.severity == ERROR


def parse_check(raw: Any, phase: str, origin: Origin, joint: str | None) -> tuple[Check | None, list[Diagnostic]]:
    """The check that ``raw`` (a mapping with ``type``) declares, or what is wrong with it."""
    found: list[Diagnostic] = []

    def wrong(code: str, message: str, key: str | None = None) -> None:
        found.append(origin.diagnostic(code, message, joint=joint, key=key))

    if not isinstance(raw, Mapping):
        wrong("RVT-209", f"a check must be a mapping with `type`, not {convert.show(raw)}")
        return None, found
    kind = raw.get("type")
    if not isinstance(kind, str) or kind not in KINDS:
        wrong("RVT-209", f"no check is of kind {convert.show(kind)}{nearest(str(kind), KINDS)}", "type")
        return None, found
    required, optional = KINDS[kind]
    known = (*_COMMON, *required, *optional)
    for key in raw:
        if key not in known:
            wrong("RVT-203", f"unknown key '{key}' in a {kind} check{nearest(str(key), known)}", str(key))
    for key in required:
        if key not in raw:
            wrong("RVT-205", f"a {kind} check needs `{key}`")
    if kind == "row_count" and not {"min", "max"} & set(raw):
        wrong("RVT-205", "a row_count check needs `min` or `max`")

    fields: dict[str, Any] = {}
    for key in (k for k in raw if k in known and k != "type"):
        try:
            fields[key] = (_types if (kind, key) == ("schema", "columns") else _CONVERTERS[key])(raw[key])
        except ValueError as error:
            wrong("RVT-204", f"`{key}` {error}", key)
    if fields.get("min") is not None and fields.get("max") is not None and fields["min"] > fields["max"]:
        wrong("RVT-204", f"`min` ({fields['min']}) is greater than `max` ({fields['max']})", "min")
    if found:
        return None, found
    if "column" in fields:
        fields["columns"] = (fields.pop("column"),)
    if kind == "schema":
        fields["types"] = fields.pop("columns")
    fields.setdefault("name", default_name(kind, phase, fields.get("columns", ())))
    fields["name"] = re.sub(r"[^A-Za-z0-9_]", "_", fields["name"])
    fields |= {"file": origin.file, "line": origin.line, "sql_line": origin.lines.get("sql")}
    return Check(kind=kind, phase=phase, **fields), found


def default_name(kind: str, phase: str, columns: tuple[str, ...]) -> str:
    """The name of a check that was given none.

    >>> default_name("unique", "audit", ("id", "day"))
    'audit_unique_id_day'
    """
    return "_".join((*(["audit"] if phase == AUDIT else []), kind, *columns))


def with_distinct_names(checks: tuple[Check, ...]) -> tuple[Check, ...]:
    """The same checks in order, a repeated name followed by ``_2``, ``_3``, ..."""
    taken: set[str] = set()
    result = []
    for check in checks:
        unique, number = check.name, 1
        while unique in taken:
            number += 1
            unique = f"{check.name}_{number}"
        taken.add(unique)
        result.append(check if unique == check.name else replace(check, name=unique))
    return tuple(result)


def _values(value: Any) -> tuple[Any, ...]:
    scalars = str, int, float, bool
    if not isinstance(value, list | tuple) or not value or not all(isinstance(v, scalars) for v in value):
        raise ValueError(f"must be a list of texts, numbers or booleans, not {convert.show(value)}")
    if len({bool if isinstance(v, bool) else str if isinstance(v, str) else float for v in value}) > 1:
        raise ValueError("must hold values of one type")
    return tuple(value)


def _types(value: Any) -> tuple[tuple[str, str], ...]:
    columns = convert.mapping(value)
    if not columns:
        raise ValueError("must name at least one column")
    repeated = [name for name, times in Counter(name.lower() for name in columns).items() if times > 1]
    if repeated:
        raise ValueError(f"names {', '.join(repeated)} more than once")
    return tuple((name, convert.text(kind)) for name, kind in columns.items())


def _target(value: Any) -> tuple[str, str]:
    joint, _, column = convert.text(value).partition(".")
    if not joint or not column:
        raise ValueError(f"must be `joint.column`, not {convert.show(value)}")
    return joint.lower(), column


_CONVERTERS: dict[str, Any] = {
    "name": convert.text,
    "severity": convert.one_of(ERROR, WARN),
    "timeout": convert.seconds,
    "samples": convert.whole(0, MOST_SAMPLES),
    "description": convert.text,
    "tags": convert.tags,
    "remediation": convert.text,
    "columns": convert.column_names,
    "column": convert.text,
    "values": _values,
    "sql": convert.text,
    "min": convert.whole(0),
    "max": convert.whole(0),
    "max_age": convert.seconds,
    "to": _target,
}
