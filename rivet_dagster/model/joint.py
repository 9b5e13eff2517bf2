"""The joint: a declared step of a pipeline."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any, Generic, TypeVar, cast

from rivet_dagster.errors import Diagnostic, RivetError, nearest
from rivet_dagster.model import convert
from rivet_dagster.model.check import Check, parse_quality, to_quality, with_distinct_names
from rivet_dagster.model.inputs import LANDING_OPTIONS, wrong_landing
from rivet_dagster.model.partitions import Partitions, parse_partitions
from rivet_dagster.model.row_errors import OnError, parse_on_error
from rivet_dagster.model.step_options import STEP_OPTIONS, step_options
from rivet_dagster.model.text_lines import Origin
from rivet_dagster.model.write_strategy import WriteStrategy, parse_write_strategy

SOURCE, SQL, PYTHON, SINK = TYPES = ("source", "sql", "python", "sink")

SPARK_SQL = "spark"
"""The `dialect` of joints that are written in Spark's SQL."""

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
class JointKey:
    """What is said of a key once, where the field of ``Joint`` is declared.

    ``convert`` returns the field's value for a user's, or raises ValueError, an error of the given ``code``.
    ``description`` is one sentence for editors. The key has a meaning on ``types`` of joints, of which those in
    ``required`` need it; where it is ``published_only``, SQL and Python joints need a `catalog`, too. ``in_defaults``
    says whether the block `defaults` of rivet.yaml may have it.
    """

    convert: Callable[[Any], Any]
    description: str
    types: tuple[str, ...] = TYPES
    required: tuple[str, ...] = ()
    published_only: bool = False
    in_defaults: bool = True
    code: str = "RVT-204"


def key_metadata(convert: Callable[[Any], Any], description: str, **others: Any) -> Mapping[str, JointKey]:
    """Return the metadata of the field of a key."""
    return {"key": JointKey(convert=convert, description=description, **others)}


def declare_key(convert: Callable[[Any], Any], description: str, default: Any = None, **others: Any) -> Any:
    """Return the field of a key that joints need not have; a ``default`` that is a type is called for each joint."""
    metadata = key_metadata(convert, description, **others)
    if isinstance(default, type):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


Accepted = TypeVar("Accepted")
Held = TypeVar("Held")


class Accepts(Generic[Accepted, Held]):
    """The type of a field to which more may be passed than it holds afterwards; there are no instances."""

    def __get__(self, instance: object, owner: type | None = None) -> Held:
        raise NotImplementedError

    def __set__(self, instance: object, value: Accepted) -> None:
        raise NotImplementedError


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

    name: str = field(
        metadata=key_metadata(convert.name, "The joint's name; default: the file's.", in_defaults=False, code="RVT-201")
    )
    type: str = field(metadata=key_metadata(convert.one_of(*TYPES), "What the joint is.", in_defaults=False))
    sql: str | None = declare_key(
        convert.text, "The query, one SELECT.", types=(SQL,), required=(SQL,), in_defaults=False
    )
    columns: Accepts[
        Sequence[str | Mapping[str, str]] | Mapping[str, str] | None, tuple[tuple[str, str | None], ...]
    ] = declare_key(
        convert.columns,
        "Of a source: the columns to read, as names or alias: expression.",
        (),
        types=(SOURCE,),
        in_defaults=False,
    )
    filter: str | None = declare_key(convert.text, "Of a source: the condition of the rows to read.", types=(SOURCE,))
    limit: int | None = declare_key(convert.whole(0), "Of a source: the number of rows to read.", types=(SOURCE,))
    catalog: str | None = declare_key(
        convert.text,
        "The catalog of the profile: of a source's table, or in which the joint is published.",
        required=(SOURCE, SINK),
    )
    table: str | None = declare_key(
        convert.text,
        "The table in its catalog; default for SQL and Python: the joint's name.",
        required=(SOURCE, SINK),
        published_only=True,
        in_defaults=False,
    )
    engine: str | None = declare_key(
        convert.text, "The engine of the profile that runs it; default: the profile's default engine."
    )
    dialect: str | None = declare_key(
        convert.one_of(SPARK_SQL, "duckdb", "polars", "postgres"),
        "The SQL of its query; default: that of its engine's option `dialect`, else Spark's.",
        types=(SQL,),
    )
    eager: bool = declare_key(
        convert.boolean, "Whether it is stored, and not fused into the query of its reader.", False, types=(SQL, PYTHON)
    )
    # `upstream` of a source is parsed, to be refused by name.
    upstream: Accepts[str | Sequence[str] | None, tuple[str, ...] | None] = declare_key(
        convert.texts, "The joints that it reads; of SQL they follow from the query.", in_defaults=False
    )
    tags: Accepts[Sequence[str] | Mapping[str, str], Mapping[str, str]] = declare_key(
        convert.tags, "Tags in Dagster.", dict
    )
    description: str | None = declare_key(convert.text, "The description in Dagster.")
    owners: Accepts[str | Sequence[str], tuple[str, ...]] = declare_key(
        convert.texts, "Owners in Dagster: e-mail addresses, or team:NAME.", ()
    )
    group: str | None = declare_key(convert.text, "The asset group in Dagster; default: the folder.")
    write_strategy: Accepts[str | Mapping[str, Any] | WriteStrategy, WriteStrategy] = declare_key(
        lambda value: value if isinstance(value, WriteStrategy) else parse_write_strategy(value),
        "How a run changes the published table; default: replace.",
        WriteStrategy(),
        types=(SQL, PYTHON, SINK),
        published_only=True,
    )
    function: str | None = declare_key(
        convert.text, "The Python function, as module:function.", types=(PYTHON,), required=(PYTHON,), in_defaults=False
    )
    quality: Accepts[Mapping[str, Sequence[Mapping[str, Any]]] | Sequence[Check], tuple[Check, ...]] = declare_key(
        to_quality, "Checks: of the batch before it is published, and of the whole table.", (), in_defaults=False
    )
    partitions: Accepts[Mapping[str, Any] | Partitions | None, Partitions | None] = declare_key(
        parse_partitions, "The partitions of the table in Dagster.", code="RVT-213"
    )
    on_error: Accepts[str | Mapping[str, Any] | OnError | None, OnError | None] = declare_key(
        lambda value: value if isinstance(value, OnError) else parse_on_error(value),
        "What to do with rows that cannot be evaluated.",
        types=(SQL, SINK),
    )
    retention: str = declare_key(
        convert.one_of("latest", "run"), "How long a stored joint is kept.", "latest", types=(SQL, PYTHON)
    )
    adopt: bool = declare_key(
        convert.boolean,
        "Whether a table that somebody else has made is taken over as it is; default: false.",
        False,
        types=(SQL, PYTHON, SINK),
        published_only=True,
    )
    row_values: bool | None = declare_key(convert.boolean, "Whether Dagster may store values of its rows.")
    options: Accepts[Mapping[str, Any] | None, Mapping[str, Any]] = declare_key(
        convert.mapping, "Options of the step, and of the table's storage.", dict
    )
    origin: Accepts[Origin | None, Origin] = field(default=cast(Any, Origin()), compare=False)

    def __post_init__(self) -> None:
        if self.origin is None:
            object.__setattr__(self, "origin", Origin())
        errors: list[Diagnostic] = []
        given = _given(vars(self))
        for key, value in given.items():
            try:
                object.__setattr__(self, key, KEYS[key].convert(value))
            except ValueError as error:
                code = "RVT-203" if isinstance(error, convert.UnknownKeyError) else KEYS[key].code
                errors.append(self._wrong(code, f"`{key}` {error}", _key_path(key, error)))
        if isinstance(self.quality, Mapping):
            checks, wrong = parse_quality(self.quality, self.origin, self.name)
            object.__setattr__(self, "quality", checks)
            errors += wrong
        if not errors:
            errors = [*self._wrong_name(), *self._wrong_keys(given.keys()), *self._refused_by_dagster()]
        if errors:
            raise RivetError.of(errors)
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
        return None if any(map(is_dataclass, values.values())) else values

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
        errors = []
        for key in _given({key: getattr(self, key) for key in given}):
            if self.type not in KEYS[key].types:
                errors.append(self._wrong("RVT-206", f"`{key}` has no meaning on a {self.type} joint", key))
        if self.type in (SQL, PYTHON) and self.catalog is None:
            for key in sorted(key for key in given if KEYS[key].published_only):
                message = f"`{key}` has no meaning on a {self.type} joint without a `catalog`"
                errors.append(self._wrong("RVT-206", message, key, _PUBLISH))
        for key in required_keys(self.type):
            if getattr(self, key) is None:
                errors.append(self._wrong("RVT-205", f"a {self.type} joint needs `{key}`"))
        if self.type == SOURCE and self.partitions is not None and self.limit is not None:
            message = "a source with `limit` has no partitions: its rows would not be those of a run's window"
            remedy = "Put the limit in a SQL joint that reads the source."
            errors.append(self._wrong("RVT-213", message, "partitions", remedy))
        errors += self._wrong_options()
        return errors

    def _wrong_options(self) -> list[Diagnostic]:
        try:
            _, others = step_options(self.options)
            landing = wrong_landing(others, self.type == SOURCE, self.limit)
        except ValueError as error:
            return [self._wrong("RVT-204", f"`options` {error}", _key_path("options", error))]
        errors = [self._wrong("RVT-321", sentence, "options") for sentence in landing]
        if self.type not in (SQL, PYTHON) or self.publishes:
            return errors
        unknown = [key for key in others if key not in LANDING_OPTIONS]
        hints = {key: nearest(key, STEP_OPTIONS) for key in unknown}
        return errors + [
            self._wrong("RVT-203", f"unknown option '{key}'{hint}", f"options.{key}") for key, hint in hints.items()
        ]

    def _refused_by_dagster(self) -> list[Diagnostic]:
        errors = []
        for key, value in self.tags.items():
            if not TAG_KEY.fullmatch(key) or not _TAG_VALUE.fullmatch(value):
                errors.append(
                    self._wrong(
                        "RVT-204",
                        f"Dagster refuses the tag {key}={value}: letters, digits, '_', '-' and '.', at most 63 of them",
                        f"tags.{key}",
                    )
                )
        for owner in self.owners:
            if not OWNER.fullmatch(owner):
                message = f"Dagster refuses the owner {convert.show(owner)}: it is neither an e-mail nor team:name"
                errors.append(self._wrong("RVT-204", message, "owners", _OWNERS))
        if self.group is not None and not _ASSET_GROUP.fullmatch(self.group):
            errors.append(
                self._wrong("RVT-204", f"the group '{self.group}' holds more than letters, digits and '_'", "group")
            )
        return errors


def _key_path(key: str, error: ValueError) -> str:
    return f"{key}.{error.key}" if isinstance(error, convert.WrongKeyError) else key


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that differ from their defaults, by key, without ``origin``."""
    return {
        key: value
        for key, value in values.items()
        if value is not (default := _DEFAULTS.get(key, value))
        and (value is not None or default is MISSING)
        and value != default
    }


KEYS: dict[str, JointKey] = {item.name: item.metadata["key"] for item in fields(Joint) if item.metadata}
"""The keys of joints, in the order of the fields."""


@cache
def required_keys(type_: str) -> tuple[str, ...]:
    """Return the keys that joints of a type need.

    >>> required_keys("sink")
    ('catalog', 'table')
    """
    return tuple(name for name, key in KEYS.items() if type_ in key.required)


_DEFAULTS: dict[str, Any] = {
    item.name: item.default_factory() if callable(item.default_factory) else item.default
    for item in fields(Joint)
    if item.name != "origin"
}
"""The defaults of the fields; MISSING for required ones."""

_TUPLES = frozenset(name for name, key in KEYS.items() if key.convert in (convert.columns, convert.texts))
"""The fields whose values are tuples of plain data."""
