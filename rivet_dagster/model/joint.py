"""The joint: a declared step of a pipeline."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from rivet_dagster.errors import Diagnostic, RivetError, nearest
from rivet_dagster.model import convert
from rivet_dagster.model.check import ASSERTION, AUDIT, Check, parse_check, with_distinct_names
from rivet_dagster.model.landing import LANDING_OPTIONS, wrong_landing
from rivet_dagster.model.origin import Origin
from rivet_dagster.model.partitions import Partitions, parse_partitions
from rivet_dagster.model.row_errors import OnError, parse_on_error
from rivet_dagster.model.step_options import STEP_OPTIONS, step_options
from rivet_dagster.model.write_strategy import WriteStrategy, parse_write_strategy

SOURCE, SQL, PYTHON, SINK = "source", "sql", "python", "sink"

_ANY = frozenset({"name", "type", "engine", "tags", "description", "owners", "group", "quality", "row_values"})
_TABLE = frozenset({"catalog", "table", "write_strategy", "options", "partitions"})
KEYS: dict[str, frozenset[str]] = {
    SOURCE: _ANY | {"upstream", "columns", "filter", "limit", "catalog", "table", "partitions", "options"},
    SQL: _ANY | _TABLE | {"sql", "upstream", "eager", "retention", "on_error"},
    PYTHON: _ANY | _TABLE | {"function", "upstream", "eager", "retention"},
    SINK: _ANY | _TABLE | {"upstream", "on_error"},
}
"""The keys with a meaning on each type of joint (``upstream`` of a source is parsed, to be refused by name)."""

REQUIRED: dict[str, tuple[str, ...]] = {
    SOURCE: ("catalog", "table"),
    SQL: ("sql",),
    PYTHON: ("function",),
    SINK: ("catalog", "table"),
}

OF_PUBLISHED = frozenset({"table", "write_strategy"})
"""The keys that need a `catalog` on every type of joint."""

_WRONG = {"name": "RVT-201", "partitions": "RVT-213"}
"""The specific codes of wrong values of some keys."""

RESERVED = frozenset(keyword.kwlist) | frozenset(
    "context conf config meta arg_dict dict input_arg_dict output_arg_dict int str float bool input output type".split()
)
"""Names that Dagster reserves (see its ``definitions/utils.py``)."""

TAG_KEY = re.compile(r"([A-Za-z0-9_.-]{1,63}/)?[A-Za-z0-9_.-]{1,63}")
_TAG_VALUE = re.compile(r"[A-Za-z0-9_.-]{0,63}")
OWNER = re.compile(r"team:.+|[A-Za-z0-9_][A-Za-z0-9._%+-]*@[A-Za-z0-9.-]+\.[A-Za-z|]{1,6}[A-Za-z]", re.DOTALL)
"""The rule of Dagster's ``is_valid_email``, in which a letter may be a ``|``."""
_OWNERS = "An e-mail has ASCII letters, digits and . _ % + - before the @, and ends in 2 to 7 letters behind a dot."
_PUBLISH = "Name the `catalog` in which the joint is published, in its file or in the `defaults` of its folder."
_ASSET_GROUP = re.compile(r"[A-Za-z0-9_]+(/[A-Za-z0-9_]+)*")


@dataclass(frozen=True, kw_only=True)
class Joint:
    """A declared joint, with the same fields, validation and errors as in a file.

    A SQL or Python joint with a ``catalog`` is published there, as ``table``, by default its name; without one its rows
    are fused into its reader's query, or stored in the workspace.

    ``row_values`` says whether Dagster may store values of its rows; None leaves that to the profile. ``on_error`` is
    None where the joint takes the mode of its group's exit; an exit without one fails.

    Raises one RivetError with all errors in the declaration.

    >>> Joint(name="paid", type="sql", sql="SELECT * FROM orders WHERE paid", tags=["fresh"]).tags
    {'fresh': ''}
    """

    name: str
    type: str
    sql: str | None = None
    columns: tuple[tuple[str, str | None], ...] = ()
    filter: str | None = None
    limit: int | None = None
    catalog: str | None = None
    table: str | None = None
    engine: str | None = None
    eager: bool = False
    upstream: tuple[str, ...] | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    description: str | None = None
    owners: tuple[str, ...] = ()
    group: str | None = None
    write_strategy: WriteStrategy = WriteStrategy()
    function: str | None = None
    quality: tuple[Check, ...] = ()
    partitions: Partitions | None = None
    on_error: OnError | None = None
    retention: str = "latest"
    row_values: bool | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    origin: Origin = field(default=Origin(), compare=False)

    if TYPE_CHECKING:
        # What a user may pass is wider than what the fields hold afterwards.
        def __init__(
            self,
            *,
            name: str,
            type: str,
            sql: str | None = None,
            columns: Sequence[str | Mapping[str, str]] | Mapping[str, str] | None = None,
            filter: str | None = None,
            limit: int | None = None,
            catalog: str | None = None,
            table: str | None = None,
            engine: str | None = None,
            eager: bool = False,
            upstream: str | Sequence[str] | None = None,
            tags: Sequence[str] | Mapping[str, str] = (),
            description: str | None = None,
            owners: str | Sequence[str] = (),
            group: str | None = None,
            write_strategy: str | Mapping[str, Any] | WriteStrategy = "replace",
            function: str | None = None,
            quality: Mapping[str, Sequence[Mapping[str, Any]]] | Sequence[Check] = (),
            partitions: Mapping[str, Any] | Partitions | None = None,
            on_error: str | Mapping[str, Any] | OnError | None = None,
            retention: str = "latest",
            row_values: bool | None = None,
            options: Mapping[str, Any] | None = None,
            origin: Origin | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        if self.origin is None:
            object.__setattr__(self, "origin", Origin())
        found: list[Diagnostic] = []
        given = _given(vars(self))
        for key, value in given.items():
            try:
                object.__setattr__(self, key, _CONVERTERS[key](value))
            except ValueError as error:
                code = "RVT-203" if isinstance(error, convert.UnknownKeyError) else _WRONG.get(key, "RVT-204")
                found.append(self._wrong(code, f"`{key}` {error}", _place(key, error)))
        if isinstance(self.quality, Mapping):
            checks, wrong = parse_quality(self.quality, self.origin, self.name)
            object.__setattr__(self, "quality", checks)
            found += wrong
        if not found:
            found = [*self._wrong_name(), *self._wrong_keys(given.keys()), *self._refused_by_dagster()]
        if found:
            raise RivetError.of(found)
        if self.publishes and self.table is None:
            object.__setattr__(self, "table", self.name)

    @property
    def publishes(self) -> bool:
        """Whether its rows are published as a table that it declares: of a sink, or any joint with a `catalog`."""
        return self.type != SOURCE and self.catalog is not None

    @property
    def expression_lines(self) -> dict[str, int]:
        """The lines of a source's expressions, by ``columns.`` with an alias and ``filter``, as far as they are known.

        >>> origin = Origin("a.yaml", 1, {"columns": 4, "columns.total": 5})
        >>> fields = {"type": "source", "catalog": "lake", "table": "a", "columns": ["id", {"total": "a + b"}]}
        >>> Joint(name="a", **fields, origin=origin).expression_lines
        {'columns.total': 5}
        """
        keys = [f"columns.{alias}" for alias, text in self.columns if text is not None]
        keys += ["filter"] if self.filter is not None else []
        lines = {key: self.origin.line_of(key) for key in keys} if self.type == SOURCE else {}
        return {key: line for key, line in lines.items() if line is not None}

    @property
    def converted(self) -> dict[str, Any] | None:
        """The values that differ from the defaults, as plain data without ``quality`` and ``origin``.

        None where one of them is more than JSON can hold.
        """
        values = _given(vars(self) | {"quality": ()})
        return None if _OBJECTS & values.keys() else values

    @classmethod
    def of_converted(cls, values: Mapping[str, Any], quality: Sequence[Check], origin: Origin) -> Joint:
        """Return the joint with these values, ``converted`` of an equal one, which are not validated again.

        >>> joint = Joint(name="paid", type="sql", sql="SELECT 1 AS x", owners=["team:a"])
        >>> Joint.of_converted({**joint.converted, "owners": ["team:a"]}, (), Origin()) == joint
        True
        """
        joint = object.__new__(cls)
        joint.__dict__.update(_DEFAULTS, tags={}, options={}, origin=origin)
        joint.__dict__.update(values)
        for key in _TUPLES & values.keys():
            joint.__dict__[key] = tuple([tuple(v) if isinstance(v, list) else v for v in values[key]])
        if quality:
            joint.__dict__["quality"] = with_distinct_names(tuple(quality))
        return joint

    def _wrong(self, code: str, message: str, key: str | None = None, remediation: str | None = None) -> Diagnostic:
        return self.origin.diagnostic(code, message, joint=str(self.name), key=key, remediation=remediation)

    def _wrong_name(self) -> list[Diagnostic]:
        if self.name in RESERVED:
            return [self._wrong("RVT-201", f"'{self.name}' is a word that Dagster keeps for itself", "name")]
        return []

    def _wrong_keys(self, given: Set[str]) -> list[Diagnostic]:
        found = []
        for key in _given({key: getattr(self, key) for key in given}):
            if key not in KEYS[self.type]:
                found.append(self._wrong("RVT-206", f"`{key}` has no meaning on a {self.type} joint", key))
        if self.type in (SQL, PYTHON) and self.catalog is None:
            for key in sorted(given & OF_PUBLISHED):
                message = f"`{key}` has no meaning on a {self.type} joint without a `catalog`"
                found.append(self._wrong("RVT-206", message, key, _PUBLISH))
        for key in REQUIRED[self.type]:
            if getattr(self, key) is None:
                found.append(self._wrong("RVT-205", f"a {self.type} joint needs `{key}`"))
        if self.type == SOURCE and self.partitions is not None and self.limit is not None:
            message = "a source with `limit` has no partitions: its rows would not be those of a run's window"
            remedy = "Put the limit in a SQL joint that reads the source."
            found.append(self._wrong("RVT-213", message, "partitions", remedy))
        found += self._wrong_options()
        return found

    def _wrong_options(self) -> list[Diagnostic]:
        try:
            _, others = step_options(self.options)
            landing = wrong_landing(others, self.type == SOURCE, self.limit)
        except ValueError as error:
            return [self._wrong("RVT-204", f"`options` {error}", _place("options", error))]
        found = [self._wrong("RVT-321", sentence, "options") for sentence in landing]
        if self.type not in (SQL, PYTHON) or self.publishes:
            return found
        unknown = [key for key in others if key not in LANDING_OPTIONS]
        hints = {key: nearest(key, STEP_OPTIONS) for key in unknown}
        return found + [
            self._wrong("RVT-203", f"unknown option '{key}'{hint}", f"options.{key}") for key, hint in hints.items()
        ]

    def _refused_by_dagster(self) -> list[Diagnostic]:
        found = []
        for key, value in self.tags.items():
            if not TAG_KEY.fullmatch(key) or not _TAG_VALUE.fullmatch(value):
                found.append(
                    self._wrong(
                        "RVT-204",
                        f"Dagster refuses the tag {key}={value}: letters, digits, '_', '-' and '.', at most 63 of them",
                        f"tags.{key}",
                    )
                )
        for owner in self.owners:
            if not OWNER.fullmatch(owner):
                message = f"Dagster refuses the owner {convert.show(owner)}: it is neither an e-mail nor team:name"
                found.append(self._wrong("RVT-204", message, "owners", _OWNERS))
        if self.group is not None and not _ASSET_GROUP.fullmatch(self.group):
            found.append(
                self._wrong("RVT-204", f"the group '{self.group}' holds more than letters, digits and '_'", "group")
            )
        return found


def _place(key: str, error: ValueError) -> str:
    return f"{key}.{error.key}" if isinstance(error, convert.WrongKeyError) else key


def parse_quality(raw: Any, origin: Origin, joint: str | None) -> tuple[tuple[Check, ...], list[Diagnostic]]:
    """Return the checks of a mapping with ``assertions`` and ``audits``, with distinct names, and the errors in it."""
    checks: list[Check] = []
    found: list[Diagnostic] = []
    sections = {"assertions": ASSERTION, "audits": AUDIT}
    if not isinstance(raw, Mapping):
        return (), [origin.diagnostic("RVT-204", "`quality` must be a mapping", joint=joint, key="quality")]
    for section, entries in raw.items():
        if section not in sections:
            message = f"unknown key '{section}' in quality{nearest(str(section), sections)}"
            found.append(origin.diagnostic("RVT-203", message, joint=joint, key=str(section)))
            continue
        if not isinstance(entries, Sequence) or isinstance(entries, str):
            message = f"`{section}` must be a list of checks"
            found.append(origin.diagnostic("RVT-204", message, joint=joint, key=section))
            continue
        for entry in entries:
            check, wrong = parse_check(entry, sections[section], _origin_of(entry, origin), joint)
            found += wrong
            checks += [check] if check else []
    return with_distinct_names(tuple(checks)), found


def _origin_of(entry: Any, parent: Origin) -> Origin:
    """Return the origin of a check; a mapping read from YAML has its own lines (project/yaml_text.py)."""
    lines = getattr(entry, "lines", None)
    return Origin(parent.file, entry.line, lines) if lines is not None else parent


def _quality(value: Any) -> Any:
    if isinstance(value, Mapping):
        return value
    if isinstance(value, tuple | list) and all(isinstance(v, Check) for v in value):
        return with_distinct_names(tuple(value))
    raise ValueError(f"must be a mapping with assertions and audits, not {convert.show(value)}")


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "name": convert.name,
    "type": convert.one_of(SOURCE, SQL, PYTHON, SINK),
    "sql": convert.text,
    "columns": convert.columns,
    "filter": convert.text,
    "limit": convert.whole(0),
    "catalog": convert.text,
    "table": convert.text,
    "engine": convert.text,
    "eager": convert.boolean,
    "upstream": convert.texts,
    "tags": convert.tags,
    "description": convert.text,
    "owners": convert.texts,
    "group": convert.text,
    "write_strategy": lambda v: v if isinstance(v, WriteStrategy) else parse_write_strategy(v),
    "function": convert.text,
    "quality": _quality,
    "partitions": parse_partitions,
    "on_error": lambda v: v if isinstance(v, OnError) else parse_on_error(v),
    "retention": convert.one_of("latest", "run"),
    "row_values": convert.boolean,
    "options": convert.mapping,
}


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that differ from their defaults, by key, without ``origin``."""
    return {
        key: value
        for key, value in values.items()
        if value is not (default := _DEFAULTS.get(key, value))
        and (value is not None or default is MISSING)
        and value != default
    }


_DEFAULTS: dict[str, Any] = {
    item.name: item.default_factory() if callable(item.default_factory) else item.default
    for item in fields(Joint)
    if item.name != "origin"
}
"""The defaults of the fields; MISSING for required ones."""

_OBJECTS = frozenset({"write_strategy", "partitions", "on_error"})
_TUPLES = frozenset({"columns", "upstream", "owners"})
"""The fields whose values are objects, and tuples."""
