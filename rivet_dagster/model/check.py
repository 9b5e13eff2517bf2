"""Quality checks: assertions check the rows that a joint has just computed, audits the whole target."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rivet_dagster.entry_points import CHECKS, check_kind, plugins
from rivet_dagster.errors import Diagnostic, RivetError, nearest
from rivet_dagster.model import convert
from rivet_dagster.model.text_lines import Origin

ASSERTION, AUDIT = "assertion", "audit"
ERROR, WARN = "error", "warn"

MOST_SAMPLES = 100


@dataclass(frozen=True, kw_only=True)
class Check:
    """A rule for a joint's rows.

    ``options`` are the options of its kind, plain data by name, and ``columns`` the columns that they name. ``timeout``
    is in seconds; ``samples``, 0 to 100, is the number of violating rows that a result shows. The option ``sql`` begins
    on ``sql_line`` of the file. ``reads`` are the other joints that the check reads, filled in by the compiler.
    """

    kind: str
    name: str
    phase: str
    severity: str = ERROR
    columns: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    reads: tuple[str, ...] = ()
    timeout: float | None = None
    samples: int = 10
    description: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    remediation: str | None = None
    file: str | None = None
    line: int | None = None
    sql_line: int | None = None


def parse_check(raw: Any, phase: str, origin: Origin, joint: str | None) -> tuple[Check | None, list[Diagnostic]]:
    """Return the check that ``raw`` (a mapping with ``type``) declares, or None, and the errors in it."""
    errors: list[Diagnostic] = []

    def wrong(code: str, message: str, key: str | None = None) -> None:
        errors.append(origin.diagnostic(code, message, joint=joint, key=key))

    if not isinstance(raw, Mapping):
        wrong("RVT-209", f"a check must be a mapping with `type`, not {convert.show(raw)}")
        return None, errors
    name = raw.get("type")
    try:
        kind = check_kind(name) if isinstance(name, str) else None
    except RivetError as error:
        wrong(error.code, error.diagnostics[0].message, "type")
        return None, errors
    if kind is None or not isinstance(name, str):
        wrong("RVT-209", f"no check is of kind {convert.show(name)}{nearest(str(name), plugins(CHECKS))}", "type")
        return None, errors
    converters = {**_COMMON, **kind.options}
    for key in raw:
        if key not in converters and key != "type":
            wrong(
                "RVT-203", f"unknown key '{key}' in a {name} check{nearest(str(key), ('type', *converters))}", str(key)
            )
    for sentence in kind.missing(raw):
        wrong("RVT-205", f"a {name} check needs {sentence}")

    given: dict[str, Any] = {}
    for key in (key for key in raw if key in converters):
        try:
            given[key] = converters[key](raw[key])
        except ValueError as error:
            wrong("RVT-204", f"`{key}` {error}", key)
    options = {key: value for key, value in given.items() if key in kind.options}
    lacking = sorted(kind.options.keys() - kind.optional - options.keys())
    if lacking and not errors:  # a kind's own ``missing`` may look at other things alone
        wrong("RVT-205", f"a {name} check needs {', '.join(f'`{key}`' for key in lacking)}")
    rule = None
    try:
        rule = None if lacking else kind(**options)
    except convert.WrongKeyError as error:
        wrong("RVT-204", f"`{error.key}` {error}", error.key)
    if rule is None or errors:
        return None, errors
    columns = rule.columns_named
    fields = {key: value for key, value in given.items() if key in _COMMON}
    fields.setdefault("name", default_name(name, phase, columns))
    fields["name"] = re.sub(r"[^A-Za-z0-9_]", "_", fields["name"])
    fields |= {"file": origin.file, "line": origin.line, "sql_line": origin.lines.get("sql")}
    return Check(kind=name, phase=phase, columns=columns, options=options, **fields), errors


def default_name(kind: str, phase: str, columns: tuple[str, ...]) -> str:
    """Return the name of a check that is declared without one.

    >>> default_name("unique", "audit", ("id", "day"))
    'audit_unique_id_day'
    """
    return "_".join((*(["audit"] if phase == AUDIT else []), kind, *columns))


def with_distinct_names(checks: tuple[Check, ...]) -> tuple[Check, ...]:
    """Return the checks in the same order, with ``_2``, ``_3``, ... appended to repeated names."""
    pairs = zip(checks, distinct_names(check.name for check in checks), strict=True)
    return tuple(check if check.name == name else replace(check, name=name) for check, name in pairs)


def distinct_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names in the same order, with ``_2``, ``_3``, ... appended to repeated ones.

    >>> distinct_names(["a", "b", "a"])
    ('a', 'b', 'a_2')
    """
    taken: dict[str, None] = {}
    for name in names:
        unique, number = name, 1
        while unique in taken:
            number += 1
            unique = f"{name}_{number}"
        taken[unique] = None
    return tuple(taken)


def parse_quality(raw: Any, origin: Origin, joint: str | None) -> tuple[tuple[Check, ...], list[Diagnostic]]:
    """Return the checks of a mapping with ``assertions`` and ``audits``, with distinct names, and the errors in it."""
    checks: list[Check] = []
    diagnostics: list[Diagnostic] = []
    sections = {"assertions": ASSERTION, "audits": AUDIT}
    if not isinstance(raw, Mapping):
        return (), [origin.diagnostic("RVT-204", "`quality` must be a mapping", joint=joint, key="quality")]
    for section, entries in raw.items():
        if section not in sections:
            message = f"unknown key '{section}' in quality{nearest(str(section), sections)}"
            diagnostics.append(origin.diagnostic("RVT-203", message, joint=joint, key=str(section)))
            continue
        if not isinstance(entries, Sequence) or isinstance(entries, str):
            message = f"`{section}` must be a list of checks"
            diagnostics.append(origin.diagnostic("RVT-204", message, joint=joint, key=section))
            continue
        for entry in entries:
            check, wrong = parse_check(entry, sections[section], _origin_of(entry, origin), joint)
            diagnostics += wrong
            checks += [check] if check else []
    return with_distinct_names(tuple(checks)), diagnostics


def _origin_of(entry: Any, parent: Origin) -> Origin:
    """Return the origin of a check; a mapping read from YAML has its own lines (project/yaml_text.py)."""
    lines = getattr(entry, "lines", None)
    return Origin(parent.file, entry.line, lines) if lines is not None else parent


def to_quality(value: Any) -> Any:
    """Return distinctly named checks, or a mapping for ``parse_quality``. Raise ValueError for anything else."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, tuple | list) and all(isinstance(v, Check) for v in value):
        return with_distinct_names(tuple(value))
    raise ValueError(f"must be a mapping with assertions and audits, not {convert.show(value)}")


_COMMON: dict[str, Any] = {
    "name": convert.text,
    "severity": convert.one_of(ERROR, WARN),
    "timeout": convert.seconds,
    "samples": convert.whole(0, MOST_SAMPLES),
    "description": convert.text,
    "tags": convert.tags,
    "remediation": convert.text,
}
"""The options that every kind of check has, with the converters of their values."""
