"""A draft: a joint's declaration as read from one file, before the joint is created and validated."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rivet_dagster.errors import Diagnostic, RivetError
from rivet_dagster.model.check import Check, parse_quality
from rivet_dagster.model.joint import Joint
from rivet_dagster.model.origin import Origin
from rivet_dagster.project.text_file import TextError
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
