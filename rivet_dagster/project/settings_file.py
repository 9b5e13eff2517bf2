"""The common part of rivet.yaml and profiles.yaml: sections that collect errors, whose messages show no values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from rivet_dagster.errors import Diagnostic, RivetError, nearest
from rivet_dagster.model.text_lines import Origin
from rivet_dagster.project.text_file import UnreadableError, read_text, split_lines
from rivet_dagster.project.yaml_text import Located, YamlError, read_yaml, written_scalar

T = TypeVar("T")

_IN_FLOW = "Correct the YAML; within { } and [ ] a text with ${...} needs quotes."


def read_settings(path: Path, file: str) -> Located:
    """Return the mapping in a YAML file. Raise RVT-102."""
    text = ""
    try:
        text = read_text(path)
        value = read_yaml(text, scalar=written_scalar)
    except UnreadableError as error:
        raise RivetError("RVT-102", error.message, file=file, line=error.line, remediation=error.remediation) from None
    except YamlError as error:
        hint = _IN_FLOW if "${" in split_lines(text)[(error.line or 1) - 1] else error.remediation
        raise RivetError("RVT-102", error.message, file=file, line=error.line, remediation=hint) from None
    if value is None:
        raise RivetError("RVT-102", "the file is empty", file=file)
    if not isinstance(value, Located):
        raise RivetError("RVT-102", f"the file must hold a mapping, not {what(value)}", file=file, line=1)
    return value


class SettingsSection:
    """A mapping in such a file, read key by key; errors are added to ``errors``, which all sections share.

    ``subject`` names the section in messages, like ``engine 'spark'``; it is empty for the whole file.
    """

    def __init__(self, value: Located, subject: str, file: str, errors: list[Diagnostic]) -> None:
        self.value = value
        self.subject = subject
        self.origin = Origin(file, value.line, value.lines)
        self.errors = errors

    def wrong(self, code: str, message: str, key: str | None = None, remediation: str | None = None) -> None:
        """Add an error at the line of ``key``."""
        text = f"{self.subject}: {message}" if self.subject else message
        self.errors.append(self.origin.diagnostic(code, text, key=key, remediation=remediation))

    def only(self, known: Iterable[str]) -> None:
        """Add an error for every other key."""
        known = tuple(known)
        for key in self.value:
            if key not in known:
                self.wrong("RVT-103", f"unknown key '{key}'{nearest(key, known)}", key)

    def get(self, key: str, convert: Callable[[Any], T], code: str = "RVT-104") -> T | None:
        """Return the converted value of ``key``, None where it is absent, empty or wrong."""
        if self.value.get(key) is None:
            return None
        try:
            return convert(self.value[key])
        except ValueError as error:
            self.wrong(code, f"`{key}` {error}", key)
            return None

    def need(self, key: str, convert: Callable[[Any], T]) -> T | None:
        """Return the same as ``get``, but add an error for an absent or empty key."""
        if self.value.get(key) is None:
            self.wrong("RVT-105", f"`{key}` is missing", key)
        return self.get(key, convert)

    def section(self, key: str, subject: str) -> SettingsSection | None:
        """Return the mapping below ``key``, None where there is none."""
        value = self.get(key, located_mapping)
        return None if value is None else SettingsSection(value, subject, str(self.origin.file), self.errors)

    def sections(self, key: str, kind: str) -> dict[str, SettingsSection]:
        """Return the mappings in the mapping below ``key``, by name; ``kind`` describes them in messages."""
        entries: Mapping[str, Any] = self.get(key, located_mapping) or {}
        sections = {}
        for name, entry in entries.items():
            if isinstance(entry, Located):
                sections[name] = SettingsSection(entry, f"{kind} '{name}'", str(self.origin.file), self.errors)
            else:
                line = self.value[key].lines[name]
                message = f"{kind} '{name}': must be a mapping, not {what(entry)}"
                self.errors.append(Diagnostic("RVT-104", message, None, self.origin.file, line))
        return sections

    def entries(self, key: str, kind: str) -> list[SettingsSection]:
        """Return the mappings in the list below ``key``; messages call them by ``kind`` and number."""
        sections = []
        for number, entry in enumerate(self.get(key, _listed) or [], start=1):
            subject = f"{kind} {number}"
            if isinstance(entry, Located):
                sections.append(SettingsSection(entry, subject, str(self.origin.file), self.errors))
            else:
                message = f"{subject}: must be a mapping, not {what(entry)}"
                self.errors.append(self.origin.diagnostic("RVT-104", message, key=key))
        return sections


def what(value: Any) -> str:
    """Return the kind of a value, for a message that must not show the value."""
    if value is None:
        return "nothing"
    for kind, words in ((bool, "true or false"), (int | float, "a number"), (str, "a text"), (Mapping, "a mapping")):
        if isinstance(value, kind):
            return words
    return "a list"


def text(value: Any) -> str:
    """Return a non-empty text. Raise ValueError for any other value."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"must be a text, not {'an empty one' if isinstance(value, str) else what(value)}")
    return value


def boolean(value: Any) -> bool:
    """Return true or false. Raise ValueError for any other value."""
    if not isinstance(value, bool):
        raise ValueError(f"must be true or false, not {what(value)}")
    return value


def texts(value: Any) -> tuple[str, ...]:
    """Return a list of distinct texts as a tuple; a single text is a list of one. Raise ValueError."""
    entries = [value] if isinstance(value, str) else value
    if not isinstance(entries, list):
        raise ValueError(f"must be a list of texts, not {what(value)}")
    for entry in entries:
        text(entry)
    if len(set(entries)) < len(entries):
        raise ValueError("holds the same text more than once")
    return tuple(entries)


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"must be a list, not {what(value)}")
    return value


def located_mapping(value: Any) -> Located:
    """Return a mapping. Raise ValueError for any other value."""
    if not isinstance(value, Located):
        raise ValueError(f"must be a mapping, not {what(value)}")
    return value
