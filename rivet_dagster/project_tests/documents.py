"""The documents of the test files of a project, each of them one test."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rivet_dagster.errors import Diagnostic
from rivet_dagster.project.text_file import UnreadableError, list_files, read_text, split_lines
from rivet_dagster.project.yaml_text import YamlError, read_yaml
from rivet_dagster.project_tests.placed import LineOfFile, LocatedKeys, placed

EXTENSIONS = (".test.yaml", ".test.yml")

_BEGINS = re.compile(r"---(\s|\Z)")
_ENDS = re.compile(r"\.\.\.(\s|\Z)")


@dataclass(frozen=True)
class Document:
    """One document: its name, its place and its keys; an ``error`` in place of keys that cannot be read."""

    name: str
    place: LineOfFile
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

    >>> [(d.name, d.place.line) for d in documents_of("name: a\ntarget: x\n---\ntarget: y\n", "tests/b.test.yaml")]
    [('a', 1), ('b', 4)]
    """
    stem = re.sub(r"\.test\.ya?ml\Z", "", posixpath.basename(file), flags=re.IGNORECASE)
    found: list[Document] = []
    unnamed = 0
    for first_line, part in _parts(text):
        try:
            value = read_yaml(part, first_line)
        except YamlError as error:
            place = LineOfFile(file, error.line or first_line)
            unnamed += 1
            found.append(_broken(_numbered(stem, unnamed), place, "RVT-202", error.message, error.remediation))
            continue
        if value is None:
            continue
        keys = placed(value, file)
        if not isinstance(keys, LocatedKeys):
            unnamed += 1
            message = "a test must be a mapping with `target`, `inputs` and `expected`"
            found.append(_broken(_numbered(stem, unnamed), LineOfFile(file, first_line), "RVT-204", message))
            continue
        name = keys.get("name")
        if not isinstance(name, str) or not name.strip():
            unnamed += 1
            name = _numbered(stem, unnamed)
        found.append(Document(name, keys.place, keys))
    return tuple(found)


def _documents(root: Path, file: str) -> tuple[Document, ...]:
    try:
        return documents_of(read_text(root / file), file)
    except UnreadableError as error:
        stem = posixpath.basename(file).partition(".test.")[0]
        return (_broken(stem, LineOfFile(file, error.line or 1), "RVT-211", error.message, error.remediation),)


def _numbered(stem: str, number: int) -> str:
    return stem if number == 1 else f"{stem}_{number}"


def _broken(name: str, place: LineOfFile, code: str, message: str, remediation: str | None = None) -> Document:
    return Document(name, place, LocatedKeys(place), place.diagnostic(code, message, remediation))


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
