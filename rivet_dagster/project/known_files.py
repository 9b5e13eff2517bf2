"""Drafts and checks of files, cached by the files' states and text; files with errors are not cached.

A draft is a joint's declaration as read from one file, before the joint is created and validated.
"""

from __future__ import annotations

import os
import posixpath
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rivet_dagster.cache import CompileCache, key_of
from rivet_dagster.entry_points import is_own_kind
from rivet_dagster.errors import Diagnostic, RivetError
from rivet_dagster.model.check import Check, parse_quality
from rivet_dagster.model.joint import Joint
from rivet_dagster.model.text_lines import Origin
from rivet_dagster.project.text_file import TextError, read_text
from rivet_dagster.project.yaml_text import Located


@dataclass(frozen=True)
class Draft:
    """A declaration: a joint's keys as the user wrote them, except ``quality``, whose checks are ``checks``.

    A draft without ``type`` cannot become a joint: its ``errors`` say why. ``converted`` are its joint's values if it
    is known to have no errors, and they are plain data.
    """

    name: str
    origin: Origin
    fields: Mapping[str, Any] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    errors: tuple[Diagnostic, ...] = ()
    converted: Mapping[str, Any] | None = None

    def joint(self, more_checks: Iterable[Check] = ()) -> tuple[Joint | None, tuple[Diagnostic, ...]]:
        """Return the joint, or None, with further checks from other files, and all errors in the declaration."""
        if self.converted is not None:
            return Joint.of_converted(self.converted, (*self.checks, *more_checks), self.origin), ()
        if "type" not in self.fields:
            return None, self.errors
        try:
            joint = Joint(**self.fields, quality=(*self.checks, *more_checks), origin=self.origin)
        except RivetError as error:
            return None, (*self.errors, *error.diagnostics)
        return joint, self.errors


def broken_draft(file: str, code: str, error: TextError, remediation: str | None = None) -> Draft:
    """Return the draft of a file that cannot be read."""
    name = file_stem(file)
    return Draft(name, Origin(file), errors=(Diagnostic(code, error.message, name, file, error.line, remediation),))


def inline_checks(quality: Any, origin: Origin, joint: str) -> tuple[tuple[Check, ...], list[Diagnostic]]:
    """Return the checks of a joint's key ``quality``, and the errors in them."""
    if quality is None:
        return (), []
    if isinstance(quality, Located):
        origin = Origin(origin.file, quality.line, quality.lines)
    return parse_quality(quality, origin, joint)


def declared_name(value: Any, file: str) -> str:
    """Return the name of a joint in messages: its declared one, else the file's."""
    return value if isinstance(value, str) and value else file_stem(file)


def file_stem(file: str) -> str:
    """Return the file's name without folder and extension.

    >>> file_stem("joints/marts/orders.sql")
    'orders'
    """
    return posixpath.splitext(posixpath.basename(file))[0]


_SETTLED_NS = 2_000_000_000
"""The age from which a state is trusted: within one tick of its file system's clock a file may change unseen."""

_Entries = dict[str, list[Any]]
"""By the name of a file its state, and last the key of what was read from it."""


class FileStates:
    """The states that files below ``root`` had when earlier compilations read them, with the keys of the results."""

    def __init__(self, root: Path, cache: CompileCache) -> None:
        self._root = str(root)
        self._cache = cache
        self._settled = time.time_ns() - _SETTLED_NS
        self._known: dict[str, _Entries] = {}
        self._now: dict[str, _Entries] = {}
        self._states: dict[str, list[Any] | None] = {}
        self.fresh: _Entries = {}
        """By path the state, and last the key, of each file that was read by this process, or by another one."""

    def key(self, path: str) -> str | None:
        """Return the key that was recorded for the file in its present state, None where there is none."""
        folder, _, name = path.rpartition("/")
        if folder not in self._known:
            self._known[folder] = self._cache.get("states", folder) or {}
            self._now[folder] = {}
        state = self._states[path] = self._state(path)
        entry = self._known[folder].get(name)
        if entry is None or entry[:-1] != state:
            read = self.fresh.get(path)
            if read is None or read[:-1] != state:
                return None
            self.record(path, read[-1])
            return str(read[-1])
        self._now[folder][name] = entry
        return str(entry[-1])

    def record(self, path: str, key: str) -> None:
        """Record the key of what was read from the file, after ``key`` has looked at its state."""
        state = self._states[path]
        if state is None:
            return
        self.fresh[path] = [*state, key]
        if max(state[:2]) < self._settled:
            folder, _, name = path.rpartition("/")
            self._now[folder][name] = self.fresh[path]

    def store(self) -> None:
        """Put what has changed into the cache; files of which no key was asked are forgotten."""
        for folder, entries in self._now.items():
            if entries != self._known[folder]:
                self._cache.put("states", folder, entries)

    def _state(self, path: str) -> list[Any] | None:
        try:
            status = os.stat(f"{self._root}/{path}")
        except OSError:
            return None
        return [status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino]


Checks = tuple[tuple[Check, ...], list[Diagnostic]]
"""The checks of a file, and the errors in it."""


class KnownDrafts:
    """The drafts of joints' files below ``root``: a file is read if its state has changed, parsed if its text has."""

    def __init__(self, root: Path, cache: CompileCache) -> None:
        self._root = str(root)
        self._cache = cache
        self._states = FileStates(root, cache)

    @property
    def read(self) -> dict[str, list[Any]]:
        """By path the state and the draft's key of files without errors, with those that another process has read."""
        return self._states.fresh

    def of(self, file: str, read: Callable[[str, str], Draft]) -> Draft:
        """Return ``read``'s draft of ``file``. Raise UnreadableError."""
        key = self._states.key(file)
        cached = self._cache.at(key) if key is not None else None
        if cached is None:
            text = read_text(os.path.join(self._root, file))
            key = key_of("draft", f"{file}\n{text}")
            cached = self._cache.at(key)
            if cached is None:
                draft = read(text, file)
                if draft.errors or not _are_own(draft.checks):
                    return draft
                joint, _ = draft.joint()
                converted = None if joint is None else joint.converted
                self._cache.put("draft", f"{file}\n{text}", _plain_draft(draft, converted))
                self._states.record(file, key)
                return replace(draft, converted=converted)
            self._states.record(file, key)
        name, line, lines, fields, checks, converted = cached
        if converted is not None and "sql" in fields:
            converted["sql"] = fields["sql"]
        return Draft(name, Origin(file, line, lines), fields, read_checks(checks), converted=converted)

    def store(self) -> None:
        """Put the states of the files into the cache."""
        self._states.store()


def known_checks(read: Callable[[], Checks], text: str, file: str, cache: CompileCache) -> Checks:
    """Return ``read``'s checks of the quality ``file``, from the cache if its text is the same."""
    key = f"{file}\n{text}"
    cached = cache.get("quality", key)
    if cached is not None:
        return read_checks(cached), []
    checks, errors = read()
    if not errors and _are_own(checks):
        cache.put("quality", key, plain_checks(checks))
    return checks, errors


def _are_own(checks: Iterable[Check]) -> bool:
    """Return whether all checks are built in: a plugin may be replaced by a version that parses them differently."""
    return all(is_own_kind(check.kind) for check in checks)


def _plain_draft(draft: Draft, converted: Mapping[str, Any] | None) -> tuple[Any, ...]:
    if converted is not None:
        converted = {key: value for key, value in converted.items() if key != "sql"}  # as in the fields, and often long
    lines, fields = dict(draft.origin.lines), dict(draft.fields)
    return draft.name, draft.origin.line, lines, fields, plain_checks(draft.checks), converted


def plain_checks(checks: Iterable[Check]) -> list[dict[str, Any]]:
    """Return built-in checks as plain data."""
    return [dict(vars(check)) for check in checks]


def read_checks(plain: Iterable[dict[str, Any]]) -> tuple[Check, ...]:
    """Return the checks that ``plain_checks`` has written."""
    return tuple([_check(fields) for fields in plain])


def _check(fields: dict[str, Any]) -> Check:
    return Check(**_tuples(fields))


def _tuples(value: Any) -> Any:
    """Return ``value`` with its lists, which come from JSON, as tuples."""
    if isinstance(value, dict):
        return {name: _tuples(item) if isinstance(item, dict | list) else item for name, item in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
