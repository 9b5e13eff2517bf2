"""``extends``: a test takes over the keys of another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rivet_dagster.errors import Diagnostic, nearest
from rivet_dagster.project_tests.documents import Document
from rivet_dagster.project_tests.placed import LineOfFile, LocatedKeys, merged


@dataclass(frozen=True)
class Extended:
    """A document with all keys of its test, the ``errors`` of finding them, and the ``files`` in which they stand."""

    document: Document
    keys: LocatedKeys
    files: frozenset[str]
    errors: tuple[Diagnostic, ...] = ()


def extended(documents: Sequence[Document]) -> tuple[Extended, ...]:
    """Return each document with the keys that it takes over; the keys of its own override these."""
    by_name: dict[str, list[Document]] = {}
    for document in documents:
        by_name.setdefault(document.name, []).append(document)
    return tuple(_extended(document, by_name) for document in documents)


def _extended(document: Document, by_name: dict[str, list[Document]]) -> Extended:
    chain = [document]
    errors = [document.error] if document.error is not None else []
    while not errors and "extends" in chain[-1].keys:
        current = chain[-1]
        base = _base(current, by_name)
        if isinstance(base, Diagnostic):
            errors.append(base)
        elif base in chain:
            names = " -> ".join(d.name for d in [*chain, base])
            errors.append(_wrong(current, f"the tests extend each other in a circle: {names}"))
        else:
            chain.append(base)
            errors += [base.error] if base.error is not None else []
    keys = chain[-1].keys
    for own in reversed(chain[:-1]):
        keys = merged(keys, own.keys)
    return Extended(document, keys, frozenset(d.place.file for d in chain), tuple(errors))


def _base(document: Document, by_name: dict[str, list[Document]]) -> Document | Diagnostic:
    name = document.keys["extends"]
    if not isinstance(name, str):
        return _wrong(document, "`extends` must be the name of a test")
    others = by_name.get(name, [])
    if not others:
        return _wrong(document, f"`extends`: no test is named '{name}'{nearest(name, by_name)}")
    beside = [other for other in others if other.place.file == document.place.file]
    fitting = beside or others
    if len(fitting) > 1:
        lines = ", ".join(f"{other.place.file}:{other.place.line}" for other in fitting)
        return _wrong(document, f"`extends`: several tests are named '{name}': {lines}")
    return fitting[0]


def _wrong(document: Document, message: str) -> Diagnostic:
    place: LineOfFile = document.keys.places["extends"]
    return place.diagnostic("RVT-214", message)
