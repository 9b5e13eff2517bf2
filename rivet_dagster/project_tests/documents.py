"""The documents of the test files of a project, each of them one test, which may take over the keys of another one."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rivet_dagster.errors import Diagnostic, nearest
from rivet_dagster.project.text_file import UnreadableError, list_files, read_text, split_lines
from rivet_dagster.project.yaml_text import YamlError, read_yaml
from rivet_dagster.project_tests.declared import LineOfFile, LocatedKeys, locate_keys, merge_keys

EXTENSIONS = (".test.yaml", ".test.yml")

_BEGINS = re.compile(r"---(\s|\Z)")
_ENDS = re.compile(r"\.\.\.(\s|\Z)")


@dataclass(frozen=True)
class Document:
    """One document: its name, its location and its keys; an ``error`` in place of keys that cannot be read."""

    name: str
    location: LineOfFile
    keys: LocatedKeys
    error: Diagnostic | None = None


def read_documents(root: Path, folder: str) -> tuple[Document, ...]:
    """Return the documents of all test files below ``folder``, a folder of the project, in the order of the files."""
    return tuple(document for file in list_files(root, folder, EXTENSIONS) for document in _documents(root, file))


def is_test_file(name: str) -> bool:
    """Return whether a file of that name holds tests.

    >>> is_test_file("orders.test.yaml"), is_test_file("orders.yaml")
    (True, False)
    """
    return name.lower().endswith(EXTENSIONS)


def documents_of(text: str, file: str) -> tuple[Document, ...]:
    r"""Return the documents of a file's text.

    >>> [(d.name, d.location.line) for d in documents_of("name: a\ntarget: x\n---\ntarget: y\n", "tests/b.test.yaml")]
    [('a', 1), ('b', 4)]
    """
    stem = re.sub(r"\.test\.ya?ml\Z", "", posixpath.basename(file), flags=re.IGNORECASE)
    documents: list[Document] = []
    unnamed = 0
    for first_line, part in _parts(text):
        try:
            value = read_yaml(part, first_line)
        except YamlError as error:
            location = LineOfFile(file, error.line or first_line)
            unnamed += 1
            documents.append(_broken(_numbered(stem, unnamed), location, "RVT-202", error.message, error.remediation))
            continue
        if value is None:
            continue
        keys = locate_keys(value, file)
        if not isinstance(keys, LocatedKeys):
            unnamed += 1
            message = "a test must be a mapping with `target`, `inputs` and `expected`"
            documents.append(_broken(_numbered(stem, unnamed), LineOfFile(file, first_line), "RVT-204", message))
            continue
        name = keys.get("name")
        if not isinstance(name, str) or not name.strip():
            unnamed += 1
            name = _numbered(stem, unnamed)
        documents.append(Document(name, keys.location, keys))
    return tuple(documents)


def _documents(root: Path, file: str) -> tuple[Document, ...]:
    try:
        return documents_of(read_text(root / file), file)
    except UnreadableError as error:
        stem = posixpath.basename(file).partition(".test.")[0]
        return (_broken(stem, LineOfFile(file, error.line or 1), "RVT-211", error.message, error.remediation),)


def _numbered(stem: str, number: int) -> str:
    return stem if number == 1 else f"{stem}_{number}"


def _broken(name: str, location: LineOfFile, code: str, message: str, remediation: str | None = None) -> Document:
    return Document(name, location, LocatedKeys(location), location.diagnostic(code, message, remediation))


def _parts(text: str) -> Iterator[tuple[int, str]]:
    """Yield the first line and the text of each document; YAML allows the marks at the beginning of a line only there.

    >>> list(_parts("a: 1\\n---\\nb: |\\n  ---\\n...\\n"))
    [(1, 'a: 1\\n'), (2, '---\\nb: |\\n  ---\\n')]
    """
    first, lines = 1, list[str]()
    for number, line in enumerate(split_lines(text), 1):
        if _ENDS.match(line) or _BEGINS.match(line):
            if lines:
                yield first, "".join(lines)
            ends = _ENDS.match(line) is not None
            first, lines = (number + 1, []) if ends else (number, [line])
        else:
            lines.append(line)
    if lines:
        yield first, "".join(lines)


@dataclass(frozen=True)
class Extended:
    """A document with all keys of its test, the ``errors`` of finding them, and the ``files`` in which they stand."""

    document: Document
    keys: LocatedKeys
    files: frozenset[str]
    errors: tuple[Diagnostic, ...] = ()


def extend_documents(documents: Sequence[Document]) -> tuple[Extended, ...]:
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
    for document in reversed(chain[:-1]):
        keys = merge_keys(keys, document.keys)
    return Extended(document, keys, frozenset(d.location.file for d in chain), tuple(errors))


def _base(document: Document, by_name: dict[str, list[Document]]) -> Document | Diagnostic:
    name = document.keys["extends"]
    if not isinstance(name, str):
        return _wrong(document, "`extends` must be the name of a test")
    others = by_name.get(name, [])
    if not others:
        return _wrong(document, f"`extends`: no test is named '{name}'{nearest(name, by_name)}")
    beside = [other for other in others if other.location.file == document.location.file]
    fitting = beside or others
    if len(fitting) > 1:
        lines = ", ".join(f"{other.location.file}:{other.location.line}" for other in fitting)
        return _wrong(document, f"`extends`: several tests are named '{name}': {lines}")
    return fitting[0]


def _wrong(document: Document, message: str) -> Diagnostic:
    location: LineOfFile = document.keys.locations["extends"]
    return location.diagnostic("RVT-214", message)
