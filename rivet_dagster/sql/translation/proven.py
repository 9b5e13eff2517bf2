"""The lists of what is proven on each engine: functions and operators by the types of their arguments.

A list is a text file. A line is ``name(types) ; result type ; what it is there``: nothing for the same, else an
expression of the engine's dialect in which ``_1`` is the first argument and ``_t`` the result type. Sections are in
brackets; a capital letter stands for each type of a class (``spark_types.CLASSES``), and a word in angle brackets for a
literal of a kind (``literals.converted``).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from rivet_dagster.sql.translation.literals import converted
from rivet_dagster.sql.translation.spark_types import match, result_of

SAME = "="
AGGREGATE, WINDOW, SCALAR, CLAUSE = "aggregates", "windows", "functions", "clauses"
_LINE = re.compile(r"(?P<name>\S+?(?: distinct)?)\((?P<types>.*)\) ; (?P<result>\S+)(?: ; (?P<template>.+))?")


@dataclass(frozen=True)
class Argument:
    """The type of an argument, and its value where it is a literal."""

    type: str
    value: str | int | None = None


@dataclass(frozen=True)
class Entry:
    """One line of a list: a construct with the types of its arguments."""

    name: str
    types: tuple[str, ...]
    result: str
    template: str

    def apply(self, arguments: Sequence[Argument]) -> Applied | None:
        """Return the entry for arguments, None where it does not hold for them."""
        many = self.types[-1:] == ("...",)
        types = self.types
        if many:
            types = (*types[:-1], *types[-2:-1] * max(0, len(arguments) - len(types) + 1))
        if len(types) != len(arguments):
            return None
        bound: dict[str, str] = {}
        literals: dict[int, str | int] = {}
        for position, (pattern, argument) in enumerate(zip(types, arguments, strict=True)):
            if pattern[:1] in "<'":
                value = converted(pattern, argument.value)
                if value is None:
                    return None
                literals[position] = value
            elif not match(pattern, argument.type, bound):
                return None
        count = next((value for value in literals.values() if isinstance(value, int)), 0)
        result = result_of(self.result, [argument.type for argument in arguments], bound, count)
        return Applied(result, self.template, literals) if result is not None else None


@dataclass(frozen=True)
class Applied:
    """An entry for certain arguments: the type of its result, its template, and literals as they are written there."""

    result: str
    template: str
    literals: Mapping[int, str | int] = field(default_factory=dict)


@dataclass(frozen=True)
class Support:
    """What is proven on one engine."""

    name: str
    dialect: str
    entries: Mapping[str, Mapping[str, Sequence[Entry]]]
    clauses: frozenset[str]
    names: Mapping[str, str]
    """Spark's other names of functions, and the names under which they are listed."""

    def find(self, section: str, name: str, arguments: Sequence[Argument]) -> Applied | None:
        """Return what is proven of a construct for its arguments, None for nothing."""
        for entry in self.entries[section].get(name, ()):
            applied = entry.apply(arguments)
            if applied is not None:
                return applied
        return None

    def knows(self, section: str, name: str) -> bool:
        """Return whether a name is listed, with any arguments."""
        return name in self.entries[section]


@cache
def support_of(name: str) -> Support:
    """Return the list of an engine.

    >>> support_of("duckdb").find(SCALAR, "length", [Argument("string")]).result
    'int'
    """
    folder = files("rivet_dagster.sql.translation")
    return parse_support(name, (folder / f"{name}.txt").read_text("utf-8"), (folder / "names.txt").read_text("utf-8"))


def parse_support(name: str, text: str, names: str) -> Support:
    """Return a list from its text and that of other names of functions."""
    entries: dict[str, dict[str, list[Entry]]] = {SCALAR: {}, AGGREGATE: {}, WINDOW: {}}
    clauses: set[str] = set()
    section = ""
    for line in text.splitlines():
        if re.fullmatch(r"\[[a-z]+\]", line):
            section = line[1:-1]
        elif section == CLAUSE and line and not line.startswith("#"):
            clauses.add(line)
        elif line and not line.startswith("#"):
            entry = _entry(line)
            entries[section].setdefault(entry.name, []).append(entry)
    others = dict(line.split() for line in names.splitlines() if line and not line.startswith("#"))
    plain = defaultdict(dict, {key: {n: tuple(e) for n, e in value.items()} for key, value in entries.items()})
    return Support(name, {"sail": "databricks"}.get(name, name), plain, frozenset(clauses), others)


def _entry(line: str) -> Entry:
    found = _LINE.fullmatch(line)
    if found is None:
        raise ValueError(f"no line of a list of constructs: {line}")
    types = tuple(part for part in re.split(r", (?![^<]*>)", found["types"]) if part)
    return Entry(found["name"], types, found["result"], found["template"] or SAME)
