"""What the names in one SELECT mean: the columns of its FROM items, and what is not known about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

Origin = tuple[str, str]
"""A joint and the column of it that is read."""


class Column(NamedTuple):
    """A column of a query or of one of its FROM items.

    ``type`` is None where it is not certain; so is ``origins``, the columns of joints that its value is made from.
    """

    name: str
    type: str | None = None
    origins: frozenset[Origin] | None = None


NAMELESS = ""
"""The name of a column whose name only the engine knows."""

ABSENT = Column(NAMELESS)
"""What a name means that is surely none of a scope's."""


@dataclass
class Relation:
    """A FROM item. Where its ``columns`` are unknown, ``joint`` may say of which joint they are."""

    columns: tuple[Column, ...] | None
    joint: str | None = None
    qualified: bool = False

    def renamed(self, names: Sequence[str]) -> Relation:
        """The same under the names of an alias such as ``t(a, b)``."""
        if self.columns is None or len(names) != len(self.columns):
            return Relation(None)
        return Relation(tuple(Column(n, c.type, c.origins) for n, c in zip(names, self.columns, strict=True)))

    def find(self, name: str) -> Column | None:
        """The column of that name: ABSENT where there is none, None where that cannot be said."""
        if self.columns is not None:
            return self._by_name.get(name.lower(), self._other)
        return Column(name, None, frozenset({(self.joint, name)})) if self.joint is not None else None

    @cached_property
    def _by_name(self) -> dict[str, Column | None]:
        return _index(self.columns or ())

    @cached_property
    def _other(self) -> Column | None:
        return _no_other(self.columns or ())


@dataclass
class Scope:
    """The FROM items of a SELECT by alias, and the columns that ``*`` and bare names see, in order."""

    outer: Scope | None = None
    relations: dict[str, Relation] = field(default_factory=dict)
    columns: list[tuple[str, Column]] = field(default_factory=list)
    hidden: list[tuple[str, Column]] = field(default_factory=list)
    aliases: dict[str, Column | None] = field(default_factory=dict)
    uncertain: set[str] = field(default_factory=set)
    all_uncertain: bool = False

    @property
    def unknown(self) -> list[Relation]:
        """The FROM items whose columns nobody knows."""
        return [relation for relation in self.relations.values() if relation.columns is None]

    def add(self, alias: str, relation: Relation) -> None:
        """One more FROM item; its columns stand after those that are there."""
        self._changed()
        alias = alias.lower() or f"\0{len(self.relations)}"
        if alias in self.relations:
            self.all_uncertain = True
        self.relations[alias] = relation
        self.columns += [(alias, column) for column in relation.columns or ()]

    def name_alias(self, column: Column) -> None:
        """A column of the select list, which later items of the list may name."""
        name = column.name.lower()
        self.aliases[name] = None if name in self.aliases else column

    def star(self, alias: str | None = None) -> list[Column] | None:
        """The columns of ``*`` or ``alias.*``; None where they are not known."""
        if alias is None:
            known = not self.unknown and not self.all_uncertain and not self.uncertain
            return [column for _, column in self.columns] if known else None
        relation = self.relations.get(alias.lower())
        if relation is None or relation.columns is None or self.all_uncertain or self.uncertain:
            return None
        return [column for owner, column in [*self.hidden, *self.columns] if owner == alias.lower()]

    def resolve(self, parts: Sequence[str]) -> Column | None:
        """The column that a dotted name means: ABSENT where it is surely none, None where that cannot be said."""
        found = self._own(parts)
        if found is ABSENT and self.outer is not None:
            return self.outer.resolve(parts)
        return found

    def lacks(self, parts: Sequence[str]) -> bool:
        """Return whether a name of one or two parts is surely none that this scope or one around it knows."""
        relation = self.relations.get(parts[0].lower())
        if relation is not None and (len(parts) == 1 or relation.find(parts[1]) is not ABSENT):
            return False
        # The first part may be a struct; in a scope that is not wholly known, it may be anything.
        here = self._bare(parts[0]) is ABSENT
        return here and (self.outer is None or self.outer.lacks(parts))

    def _own(self, parts: Sequence[str]) -> Column | None:
        relation = self.relations.get(parts[0].lower()) if len(parts) > 1 else None
        if relation is not None:
            found = None if self.all_uncertain else relation.find(parts[1])
            return _field(None if found is ABSENT else found, parts[2:])
        if len(parts) > 2 and any(r.qualified for r in self.relations.values()):
            return None  # perhaps a table with its schema's name before it
        return _field(self._bare(parts[0]), parts[1:])

    def _bare(self, name: str) -> Column | None:
        if self.all_uncertain or name.lower() in self.uncertain:
            return None
        # A query that runs has one meaning for the name: where a known item has it, no unknown one does.
        found = self._visible.get(name.lower(), self._other)
        unknown = self.unknown
        if found is not ABSENT:
            return found
        if not unknown:
            return self.aliases.get(name.lower(), ABSENT)
        elsewhere = name.lower() in self.aliases or (
            self.outer is not None and self.outer.resolve([name]) is not ABSENT
        )
        alone = len(unknown) == 1 and not elsewhere
        return unknown[0].find(name) if alone and name.lower() not in _FUNCTIONS else None

    @cached_property
    def _visible(self) -> dict[str, Column | None]:
        return _index(column for _, column in self.columns)

    @cached_property
    def _other(self) -> Column | None:
        return _no_other(column for _, column in self.columns)

    def _changed(self) -> None:
        self.__dict__.pop("_visible", None)
        self.__dict__.pop("_other", None)

    def merge(self, names: Sequence[str] | None, relation: Relation, alias: str, side: str) -> None:
        """Join ``relation`` by USING ``names`` (None: NATURAL, all that both sides have); ``side`` as Spark calls it.

        The merged columns come first, then the others of the left and of the right. Both sides' own columns stay
        reachable by their aliases.
        """
        self._changed()
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
            # The one place where Spark minds letter case: its NATURAL intersects names as they are written.
            self.all_uncertain |= any(column.name == NAMELESS for _, column in [*left, *right])
            present = {column.name for _, column in right}
            names = [column.name for _, column in left if column.name in present]
        keys = [(_entry(left, name), _entry(right, name)) for name in names]
        if any(one is None or other is None for one, other in keys):
            self.all_uncertain = True
            return
        pairs = [(one, other) for one, other in keys if one is not None and other is not None]
        merged = [_merged(one, other, side) for one, other in pairs]
        rest_left = [entry for entry in left if entry not in [one for one, _ in pairs]]
        rest_right = [entry for entry in right if entry not in [other for _, other in pairs]]
        if side in _LEFT_ONLY:
            self.columns = merged + rest_left
            return
        self.relations[right[0][0] if right else alias.lower()] = relation
        shadowed = [entry for pair in pairs for entry in pair if entry not in merged]
        self.hidden = sorted(shadowed, key=lambda entry: entry in right) + self.hidden
        self.columns = merged + rest_left + rest_right


_LEFT_ONLY = ("SEMI", "ANTI")

_FUNCTIONS = frozenset(
    "user current_user session_user current_catalog current_database current_schema current_date "
    "current_timestamp current_time localtimestamp grouping__id".split()
)
"""Bare names that mean a function where no column is called so."""


def relations_of(tables: Mapping[str, Sequence[tuple[str, str | None]] | None]) -> dict[str, Relation]:
    """The joints that a query may read, by lower-case name, from their columns' names and types."""
    found = {}
    for joint, fields in tables.items():
        columns = None
        if fields is not None:
            columns = tuple(Column(name, kind, frozenset({(joint, name)})) for name, kind in fields)
        found[joint.lower()] = Relation(columns, joint)
    return found


def _index(columns: Iterable[Column]) -> dict[str, Column | None]:
    """Columns by lower-case name, None for a name that several have."""
    found: dict[str, Column | None] = {}
    for column in columns:
        name = column.name.lower()
        found[name] = None if name in found else column
    return found


def _no_other(columns: Iterable[Column]) -> Column | None:
    """What a name means that none of ``columns`` has: ABSENT, or None where one of them has a name nobody knows."""
    return None if any(column.name == NAMELESS for column in columns) else ABSENT


def _field(column: Column | None, path: Sequence[str]) -> Column | None:
    """A field of a struct column: made from the column, of a type that is not looked up."""
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
    one, other = left[1], right[1]
    both = None if one.origins is None or other.origins is None else one.origins | other.origins
    return "", Column(one.name, one.type if one.type == other.type else None, both)
