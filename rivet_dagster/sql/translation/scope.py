"""The names that a SELECT can use: columns of its FROM, of the queries around it, and aliases of its own list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from rivet_dagster.sql.translation.model import Named, NotProven, TypeUnknown


def quoted(name: str) -> exp.Identifier:
    """Return a quoted identifier."""
    return exp.to_identifier(name, quoted=True)


def column_of(alias: str, name: str) -> exp.Column:
    """Return a qualified column."""
    return exp.Column(this=quoted(name), table=quoted(alias))


def as_subquery(query: exp.Expr, alias: str | None) -> exp.Subquery:
    """Return a query as a FROM item."""
    given = exp.TableAlias(this=quoted(alias)) if alias is not None else None
    return exp.Subquery(this=query, alias=given)


@dataclass
class Item:
    """A FROM item; ``columns`` is None where they are not known."""

    alias: str
    columns: Sequence[Named] | None


@dataclass
class SelectScope:
    """The FROM items of a SELECT, and the columns that names without a qualifier refer to."""

    outer: SelectScope | None = None
    items: list[Item] = field(default_factory=list)
    visible: list[Named] = field(default_factory=list)
    aliases: dict[str, Named] = field(default_factory=dict)
    parameters: Mapping[str, Named] = field(default_factory=dict)
    """Those of a lambda."""
    windows: Mapping[str, exp.Window] = field(default_factory=dict)

    def add(self, alias: str, columns: Sequence[Named] | None, shown: bool = True) -> None:
        """Add a FROM item with its columns."""
        if any(item.alias.lower() == alias.lower() for item in self.items):
            raise NotProven(f"two tables of the name {alias}")
        self.items.append(Item(alias, columns))
        if shown:
            self.visible += columns or ()

    def within(self, parameters: Sequence[Named]) -> SelectScope:
        """Return the scope of the body of a lambda."""
        return replace(self, parameters={**self.parameters, **{p.name.lower(): p for p in parameters}})

    def star(self, alias: str | None) -> Sequence[Named]:
        """Return the columns of ``*`` or ``alias.*``."""
        if alias is None:
            if not self.items or any(item.columns is None for item in self.items):
                raise TypeUnknown("* over unknown columns")
            return self.visible
        for item in self.items:
            if item.alias.lower() == alias.lower():
                if item.columns is None:
                    raise TypeUnknown("* over unknown columns")
                return item.columns
        raise NotProven(f"{alias}.*")

    def resolve(self, parts: Sequence[str], aliases: bool = True) -> Named:
        """Return the column of a name. Raise NotProven where it is not certain."""
        found = self._own(parts, aliases)
        if found is not None:
            return found
        if self.outer is not None:
            return self.outer.resolve(parts, aliases=False)
        raise NotProven(f"the name {'.'.join(parts)}, which is not known")

    def _own(self, parts: Sequence[str], aliases: bool) -> Named | None:
        name = parts[-1]
        if len(parts) == 1:
            if name.lower() in self.parameters:
                return self.parameters[name.lower()]
            matches = [column for column in self.visible if column.name.lower() == name.lower()]
            if len(matches) > 1:
                raise NotProven(f"the ambiguous name {name}")
            if matches:
                return matches[0]
            unknown = [item for item in self.items if item.columns is None]
            if unknown and len(self.items) == 1:
                return Named(name, None, column_of(unknown[0].alias, name))
            if unknown:
                raise TypeUnknown(f"the name {name} among tables whose columns are not known")
            return self.aliases.get(name.lower()) if aliases else None
        if len(parts) == 2:
            for item in self.items:
                if item.alias.lower() == parts[0].lower():
                    if item.columns is None:
                        return Named(name, None, column_of(item.alias, name))
                    matches = [column for column in item.columns if column.name.lower() == name.lower()]
                    if len(matches) == 1:
                        return matches[0]
                    raise NotProven(f"the name {'.'.join(parts)}, which is not certain")
            return None
        raise NotProven(f"the name {'.'.join(parts)}")
