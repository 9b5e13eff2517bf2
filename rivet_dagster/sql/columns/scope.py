"""The scope of one SELECT: the columns of its FROM items by name, and which of them are not known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rivet_dagster.model.schema import Schema

Origin = tuple[str, str]
"""A joint and one of its columns that is read."""


class Column(NamedTuple):
    """A column of a query or of one of its FROM items.

    ``type`` is None where it is not certain, and so is ``origins``: the columns of joints that its value is computed
    from.
    """

    name: str
    type: str | None = None
    origins: frozenset[Origin] | None = None


NAMELESS = ""
"""The name of a column whose real name only the engine knows."""

ABSENT = Column(NAMELESS)
"""The result for a name that certainly does not exist in a scope."""


class _Index(dict[str, Column | None]):
    """Columns by name in lower case, None for a name that several have.

    ``other`` is the result for any other name: ABSENT, or None where a column has an unknown name.
    """

    def __init__(self, columns: Iterable[Column]) -> None:
        super().__init__()
        for column in columns:
            name = column.name.lower()
            self[name] = None if name in self else column
        self.other = None if NAMELESS in self else ABSENT


@dataclass
class Relation:
    """A FROM item. If its ``columns`` are unknown, ``joint`` may be the joint to which they belong."""

    columns: tuple[Column, ...] | None
    joint: str | None = None
    qualified: bool = False
    _index: _Index | None = field(default=None, init=False, repr=False, compare=False)

    def renamed(self, names: Sequence[str]) -> Relation:
        """Return the relation with the column names of an alias such as ``t(a, b)``."""
        if self.columns is None or len(names) != len(self.columns):
            return Relation(None)
        return Relation(tuple([Column(n, c.type, c.origins) for n, c in zip(names, self.columns, strict=True)]))

    def find(self, name: str) -> Column | None:
        """Return the column of that name: ABSENT where there is none, None where it is not certain."""
        if self.columns is not None:
            if self._index is None:
                self._index = _Index(self.columns)
            return self._index.get(name.lower(), self._index.other)
        return Column(name, None, frozenset({(self.joint, name)})) if self.joint is not None else None


@dataclass
class Scope:
    """The FROM items of a SELECT by alias, and the columns that ``*`` and unqualified names refer to, in order."""

    outer: Scope | None = None
    relations: dict[str, Relation] = field(default_factory=dict)
    columns: list[tuple[str, Column]] = field(default_factory=list)
    hidden: list[tuple[str, Column]] = field(default_factory=list)
    aliases: dict[str, Column | None] = field(default_factory=dict)
    uncertain: set[str] = field(default_factory=set)
    all_uncertain: bool = False
    _index: _Index | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def unknown(self) -> list[Relation]:
        """The FROM items with unknown columns."""
        return [relation for relation in self.relations.values() if relation.columns is None]

    def add(self, alias: str, relation: Relation) -> None:
        """Add a FROM item; its columns follow the present ones."""
        self._index = None
        alias = alias.lower() or f"\0{len(self.relations)}"
        if alias in self.relations:
            self.all_uncertain = True
        self.relations[alias] = relation
        self.columns += [(alias, column) for column in relation.columns or ()]

    def name_alias(self, column: Column) -> None:
        """Add a column of the select list, to which later items of the list may refer."""
        name = column.name.lower()
        self.aliases[name] = None if name in self.aliases else column

    def star(self, alias: str | None = None) -> list[Column] | None:
        """Return the columns of ``*`` or ``alias.*``; None where they are not known."""
        if alias is None:
            known = not self.unknown and not self.all_uncertain and not self.uncertain
            return [column for _, column in self.columns] if known else None
        relation = self.relations.get(alias.lower())
        if relation is None or relation.columns is None or self.all_uncertain or self.uncertain:
            return None
        return [column for owner, column in [*self.hidden, *self.columns] if owner == alias.lower()]

    def resolve(self, parts: Sequence[str]) -> Column | None:
        """Return the column of a dotted name: ABSENT where there certainly is none, None where it is not certain."""
        column = self._bare(parts[0]) if len(parts) == 1 else self._dotted(parts)
        if column is ABSENT and self.outer is not None:
            return self.outer.resolve(parts)
        return column

    def lacks(self, parts: Sequence[str]) -> bool:
        """Return whether a name of one or two parts is certainly unknown to this scope and to those around it."""
        relation = self.relations.get(parts[0].lower())
        if relation is not None and (len(parts) == 1 or relation.find(parts[1]) is not ABSENT):
            return False
        # The first part may be a struct; in a scope that is not completely known, it may be anything.
        here = self._bare(parts[0]) is ABSENT
        return here and (self.outer is None or self.outer.lacks(parts))

    def _dotted(self, parts: Sequence[str]) -> Column | None:
        relation = self.relations.get(parts[0].lower())
        if relation is not None:
            column = None if self.all_uncertain else relation.find(parts[1])
            return _field(None if column is ABSENT else column, parts[2:])
        if len(parts) > 2 and any(r.qualified for r in self.relations.values()):
            return None  # perhaps a table qualified by its schema
        return _field(self._bare(parts[0]), parts[1:])

    def _bare(self, name: str) -> Column | None:
        lower = name.lower()
        if self.all_uncertain or lower in self.uncertain:
            return None
        if self._index is None:
            self._index = _Index([column for _, column in self.columns])
        # In a valid query the name is unambiguous: if a known item has the column, no unknown one has it.
        column = self._index.get(lower, self._index.other)
        if column is not ABSENT:
            return column
        unknown = self.unknown
        if not unknown:
            return self.aliases.get(lower, ABSENT)
        elsewhere = lower in self.aliases or (self.outer is not None and self.outer.resolve([name]) is not ABSENT)
        alone = len(unknown) == 1 and not elsewhere
        return unknown[0].find(name) if alone and lower not in _FUNCTIONS else None

    def merge(self, names: Sequence[str] | None, relation: Relation, alias: str, side: str) -> None:
        """Join ``relation`` by USING ``names`` (None: NATURAL, all common columns); ``side`` is Spark's name for it.

        The merged columns come first, then the other columns of the left side and of the right side. The original
        columns of both sides are still accessible by their aliases.
        """
        self._index = None
        self.all_uncertain |= alias.lower() in self.relations
        left, left_known = self.columns, not self.unknown and not self.all_uncertain
        if relation.columns is None or not left_known:
            self.uncertain |= {name.lower() for name in names or ()}
            self.all_uncertain |= names is None
            if side not in _LEFT_ONLY:
                self.add(alias, relation)
            return
        right = [(alias.lower() or f"\0{len(self.relations)}", column) for column in relation.columns]
        if names is None:
            # The only case in which Spark is case-sensitive: its NATURAL join intersects names as they are written.
            self.all_uncertain |= any(column.name == NAMELESS for _, column in [*left, *right])
            present = {column.name for _, column in right}
            names = [column.name for _, column in left if column.name in present]
        keys = [(_entry(left, name), _entry(right, name)) for name in names]
        if any(entry is None or other is None for entry, other in keys):
            self.all_uncertain = True
            return
        pairs = [(entry, other) for entry, other in keys if entry is not None and other is not None]
        merged = [_merged(entry, other, side) for entry, other in pairs]
        left_only = [entry for entry in left if entry not in [ours for ours, _ in pairs]]
        right_only = [entry for entry in right if entry not in [theirs for _, theirs in pairs]]
        if side in _LEFT_ONLY:
            self.columns = merged + left_only
            return
        self.relations[right[0][0] if right else alias.lower()] = relation
        shadowed = [entry for pair in pairs for entry in pair if entry not in merged]
        self.hidden = sorted(shadowed, key=lambda entry: entry in right) + self.hidden
        self.columns = merged + left_only + right_only


_LEFT_ONLY = ("SEMI", "ANTI")

_FUNCTIONS = frozenset(
    "user current_user session_user current_catalog current_database current_schema current_date "
    "current_timestamp current_time localtimestamp grouping__id".split()
)
"""Unqualified names that are functions where no column has the name."""


def relations_of(tables: Mapping[str, Schema | None]) -> dict[str, Relation]:
    """Return the joints that a query may read, by name in lower case, from their columns."""
    relations = {}
    for joint, schema in tables.items():
        columns = None
        if schema is not None:
            columns = tuple([Column(f.name, f.type, frozenset(((joint, f.name),))) for f in schema])
        relations[joint.lower()] = Relation(columns, joint)
    return relations


def _field(column: Column | None, path: Sequence[str]) -> Column | None:
    """Return a field of a struct column: its origins are the column's, its type is not looked up."""
    if not path or column is None or column is ABSENT:
        return column
    return Column(path[-1], None, column.origins)


def _entry(entries: Sequence[tuple[str, Column]], name: str) -> tuple[str, Column] | None:
    matches = [entry for entry in entries if entry[1].name.lower() == name.lower()]
    return matches[0] if len(matches) == 1 else None


def _merged(left: tuple[str, Column], right: tuple[str, Column], side: str) -> tuple[str, Column]:
    if side == "RIGHT":
        return right
    if side != "FULL":
        return left
    left_column, right_column = left[1], right[1]
    both = (left_column.origins, right_column.origins)
    origins = None if both[0] is None or both[1] is None else both[0] | both[1]
    return "", Column(left_column.name, left_column.type if left_column.type == right_column.type else None, origins)
