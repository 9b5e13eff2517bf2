"""Rendering of generic and singular tests, which become the SQL of checks: by our own templates, after translation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rivet_dagster.dbt.values import UnknownValueError
from rivet_dagster.model.project import MacroFile
from rivet_dagster.project.templating.templates import Templates
from rivet_dagster.project.templating.words import REF, THIS, TemplateError, Word


@dataclass(frozen=True)
class _Names:
    """The meaning of words where only names matter: joints with a prefix, and a run that is incremental or not."""

    prefix: str
    is_incremental: bool

    def holds(self, word: Word) -> bool:
        return self.is_incremental

    def text(self, word: Word) -> str:
        if word.name == REF:
            return f"{self.prefix}{word.argument}"
        return "rivet_this" if word.name == THIS else "TIMESTAMP '2024-01-01 00:00:00'"


class CheckRenderer:
    """Renders templates with translated macros, given as pairs of name and text, and the values of variables."""

    def __init__(self, macros: Iterable[tuple[str, str]], variables: Mapping[str, Any]) -> None:
        self._templates = Templates([MacroFile(f"{name}.sql", text) for name, text in macros], variables)

    def render(self, text: str, prefix: str = "", is_incremental: bool = False) -> str:
        """Return the text of a template, with a prefix before each joint. Raise UnknownValueError."""
        if self._templates.errors:
            raise UnknownValueError(self._templates.errors[0].message)
        try:
            return self._templates.read(text).render(_Names(prefix, is_incremental)).text
        except TemplateError as error:
            raise UnknownValueError(f"the template {error.message}") from None


def literal(value: Any) -> str:
    """Return a value as a template writes it.

    >>> literal({"values": ["it's", 1, True, None]})
    '{\\'values\\': ["it\\'s", 1, True, None]}'
    """
    return repr(value)
