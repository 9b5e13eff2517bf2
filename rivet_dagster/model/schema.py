"""The columns of a joint's result as far as they are known, and Spark's types as trees.

Catalogs return the columns of sources before anything runs; types are parsed from the names that schemas print.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from rivet_dagster.errors import Diagnostic

ANALYZED, INTROSPECTED, INFERRED, PARTIAL, NONE = CONFIDENCES = (
    "analyzed",
    "introspected",
    "inferred",
    "partial",
    "none",
)
"""The confidence of a schema, best first.

- analyzed: the engine's own analyzer returned every name and type.
- introspected: the catalog returned every name and type; for a sink, of at least one of its upstreams.
- inferred: every name and type follows from declarations and queries; for a sink, of at least one of its upstreams.
- partial: the names are known, but not every type; or the schema is None because of a conflict: two upstreams of a
  sink, or the two queries of a template, have different columns or types.
- none: nothing is known, and the schema is None.
"""


@dataclass(frozen=True, slots=True)
class Field:
    """One column; ``type`` is Spark's name of the type, None where it is not known."""

    name: str
    type: str | None = None


Schema = tuple[Field, ...]


@dataclass(frozen=True)
class Introspection:
    """The columns of the sources' tables by joint, before their inline transforms, and warnings of missing ones.

    The columns of the joints in ``earlier`` are from an earlier introspection: the tables may have changed since.
    """

    tables: Mapping[str, Schema] = field(default_factory=dict)
    warnings: tuple[Diagnostic, ...] = ()
    earlier: frozenset[str] = frozenset()

    def with_earlier(self, previous: Introspection) -> Introspection:
        """Add the columns of an earlier introspection for joints without current ones."""
        earlier = {name: schema for name, schema in previous.tables.items() if name not in self.tables}
        return Introspection({**earlier, **self.tables}, self.warnings, frozenset(earlier))


INTEGERS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
"""The types of whole numbers, with their bits."""

FLOATS = frozenset({"float", "double"})

_SCALARS = frozenset(
    {*INTEGERS, *FLOATS, "boolean", "string", "binary", "date", "timestamp", "timestamp_ntz", "void", "variant"}
)


@dataclass(frozen=True)
class SparkType:
    """A type: its ``kind``, the types of its ``parts`` (element, key and value, fields), and the ``names`` of fields.

    ``precision`` and ``scale`` are those of a decimal.
    """

    kind: str
    parts: tuple[SparkType, ...] = ()
    names: tuple[str, ...] = ()
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        """Return the name as schemas print it."""
        return self._text(field_name)

    @property
    def sql(self) -> str:
        """The type as SQL writes it, with quoted names of fields."""
        return self._text(_quoted)

    def _text(self, quote: object) -> str:
        assert callable(quote)
        match self.kind:
            case "decimal":
                return f"decimal({self.precision},{self.scale})"
            case "array" | "map":
                return f"{self.kind}<{','.join(part._text(quote) for part in self.parts)}>"
            case "struct":
                fields = zip(self.names, self.parts, strict=True)
                return f"struct<{','.join(f'{quote(name)}:{part._text(quote)}' for name, part in fields)}>"
        return self.kind


VOID = SparkType("void")

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FIELD = re.compile(r"(`(?:[^`]|``)*`|[^:]*):(.*)", re.DOTALL)


def field_name(name: str) -> str:
    """Return the name of a struct's field as a type's name in SQL has it: quoted where it must be.

    >>> field_name("zip_code"), field_name("order-id"), field_name("a`b")
    ('zip_code', '`order-id`', '`a``b`')
    """
    return name if _PLAIN.fullmatch(name) else _quoted(name)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def parse_type(name: str) -> SparkType:
    """Return the type of that name. Raise ValueError for a type whose values cannot be written as text.

    >>> parse_type("map<string,struct<Id:bigint,d:array<decimal(4,0)>>>").parts[1].names
    ('Id', 'd')
    >>> str(parse_type("map<string,struct<Id:bigint,d:array<decimal(4,0)>>>"))
    'map<string,struct<Id:bigint,d:array<decimal(4,0)>>>'
    >>> str(parse_type("struct<`a:b,c>`:int,`d``e`:struct<`@f`:int>>"))
    'struct<`a:b,c>`:int,`d``e`:struct<`@f`:int>>'
    """
    word, opened, inside = name.partition("<")
    if opened and name.endswith(">"):
        pieces = _split(inside[:-1])
        if word == "struct":
            fields = [_field(piece) for piece in pieces]
            return SparkType("struct", tuple(parse_type(kind) for _, kind in fields), tuple(name for name, _ in fields))
        if word in ("array", "map") and len(pieces) == (1 if word == "array" else 2):
            return SparkType(word, tuple(map(parse_type, pieces)))
    if name.startswith("decimal(") and name.endswith(")"):
        precision, scale = name[len("decimal(") : -1].split(",")
        return SparkType("decimal", precision=int(precision), scale=int(scale))
    if name in _SCALARS:
        return SparkType(name)
    raise ValueError(f"values of the type {name} cannot be written in a test")


def _field(text: str) -> tuple[str, str]:
    """Return the name of a struct's field and its type.

    >>> _field("`a:``b`:array<int>")
    ('a:`b', 'array<int>')
    """
    match = _FIELD.fullmatch(text)
    if match is None:
        raise ValueError(f"values of the type struct<{text}> cannot be written in a test")
    name = match[1]
    return (name[1:-1].replace("``", "`") if name.startswith("`") else name), match[2]


def _split(text: str) -> list[str]:
    """Return the parts between the commas that stand in no brackets.

    >>> _split("a:int,b:map<int,decimal(4,0)>")
    ['a:int', 'b:map<int,decimal(4,0)>']
    """
    parts, depth, start, is_quoted = [], 0, 0, False
    for position, character in enumerate(text):
        is_quoted ^= character == "`"
        if is_quoted:
            continue
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    return [*parts, text[start:]]
