"""The templates of a project: its macros and variables, and the reading and rendering of one template after another."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal

from jinja2 import Template as JinjaTemplate
from jinja2 import TemplateSyntaxError, UndefinedError, nodes

from rivet_dagster.errors import Diagnostic, nearest
from rivet_dagster.model.project import MacroFile
from rivet_dagster.model.text_lines import MacroCall, Stretch, TextLocation
from rivet_dagster.project.templating import TAG
from rivet_dagster.project.templating.environment import TemplateEnvironment
from rivet_dagster.project.templating.limits import LARGEST, LONGEST, MOST_TAGS
from rivet_dagster.project.templating.traced import lines_of
from rivet_dagster.project.templating.tree import add_hooks, macros_in, refuse_others, register
from rivet_dagster.project.templating.words import Meaning, TemplateError, Word

_FILE = "template:"
"""The beginning of the name of a template in a traceback, before its file."""

_UNDEFINED = re.compile(r"'(\w+)' is undefined")
_INTERNAL = re.compile(r"\b(?:do|Functions\.)?_(\w+\(\))")
"""A function in an error of Python's; the template has called it without what stands before its name."""

_MANY_DIGITS = re.compile(r"\d[\d_]{4300,}")

_CODE = "RVT-212"


@dataclass(frozen=True)
class RenderedText:
    """Text that a template gives, and where its lines came from."""

    text: str
    lines: tuple[Stretch, ...]


@dataclass(frozen=True)
class CompiledTemplate:
    """A template that can be rendered any number of times."""

    _environment: TemplateEnvironment
    _compiled: JinjaTemplate

    def render(self, meaning: Meaning) -> RenderedText:
        """Return the text of the template; equal meanings give equal texts. Raises TemplateError, with its location."""
        return _run(self._environment, self._compiled, meaning)


class Templates:
    """The macros and variables of a project, which its templates share.

    ``errors`` are those of the files of macros; macros of a file with errors are not known.

    >>> from rivet_dagster.project.templating.words import Word
    >>> class Nothing:
    ...     def holds(self, word: Word) -> bool:
    ...         return False
    ...     def text(self, word: Word) -> str:
    ...         return f":{word}"
    >>> macros = MacroFile("macros/m.sql", "{% macro cents(column) %}{{ column }} / 100{% endmacro %}")
    >>> templates = Templates([macros], {"columns": ["net", "gross"]})
    >>> template = templates.read("SELECT {% for c in var('columns') %}{{ cents(c) }} AS {{ c }}, {% endfor %}1")
    >>> template.render(Nothing()).text
    'SELECT net / 100 AS net, gross / 100 AS gross, 1'
    """

    def __init__(
        self, macros: Iterable[MacroFile] = (), variables: Mapping[str, Any] | None = None, bound: Iterable[str] = ()
    ) -> None:
        self._environment = TemplateEnvironment(variables or {}, frozenset(bound))
        self._crlf = self._environment.overlay(newline_sequence="\r\n")
        self._own = frozenset(self._environment.known)
        self._where: dict[str, str] = {}
        self.errors: list[Diagnostic] = []
        read = [(file, compiled) for file in macros if (compiled := self._read_macros(file)) is not None]
        self._environment.declare_macros(self._where)
        for file, compiled in read:
            try:
                _run(self._environment, compiled, _NoMeaning())
            except TemplateError as error:
                self._report(error, file)

    def read(self, text: str) -> CompiledTemplate:
        """Parse a template. Raises TemplateError, with its location where that is known."""
        compiled, macros = self._compiled(text, None)
        lines: dict[str, int] = {}
        for macro in macros:
            self._refuse_name(macro, None)
            if macro.name in lines:
                message = f"defines the macro '{macro.name}' twice, first on line {lines[macro.name]} of the query"
                raise TemplateError(message, TextLocation(macro.lineno))
            lines[macro.name] = macro.lineno
        return CompiledTemplate(self._environment, compiled)

    def _read_macros(self, file: MacroFile) -> JinjaTemplate | None:
        """Return the template that defines the macros of a file; None where it has errors, which are reported."""
        try:
            compiled, macros = self._compiled(file.text, file.file)
        except TemplateError as error:
            self._report(error, file)
            return None
        for macro in macros:
            try:
                self._refuse_name(macro, file.file)
            except TemplateError as error:
                self._report(error, file)
            else:
                self._where[macro.name] = f"{file.file}:{macro.lineno}"
        return compiled

    def _report(self, error: TemplateError, file: MacroFile) -> None:
        line = error.location.line if error.location is not None else None
        self.errors.append(Diagnostic(_CODE, f"the file of macros {error.message}", None, file.file, line))

    def _compiled(self, text: str, file: str | None) -> tuple[JinjaTemplate, list[nodes.Macro]]:
        newline: Literal["\r\n", "\n"] = "\r\n" if "\r\n" in text else "\n"
        environment = self._crlf if newline == "\r\n" else self._environment
        _check_length(text, file)
        try:
            tree = environment.parse(text, filename=file)
            macros = macros_in(tree)
            if file is not None:
                refuse_others(tree, file)
            tree = add_hooks(tree, file)
            if file is not None:
                register(tree, macros)
            code = environment.compile(tree, filename=f"{_FILE}{file or ''}")
            return JinjaTemplate.from_code(environment, code, environment.globals), macros
        except TemplateSyntaxError as error:
            message = f"cannot be read: {self._environment.add_hint(str(error.message))}"
            raise TemplateError(message, TextLocation(error.lineno, file)) from None
        except TemplateError:
            raise
        except ValueError:  # a number of more digits than Python reads
            digits = _MANY_DIGITS.search(text)
            location = TextLocation(text.count("\n", 0, digits.start()) + 1, file) if digits is not None else None
            raise TemplateError(f"holds a number of more than {LARGEST:,} bits", location) from None
        except (RecursionError, MemoryError, SyntaxError):
            raise TemplateError("cannot be read: it is nested too deeply") from None

    def _refuse_name(self, macro: nodes.Macro, file: str | None) -> None:
        """Raise TemplateError for a macro whose name has another meaning already."""
        location = TextLocation(macro.lineno, file)
        if macro.name in self._where:
            message = f"defines the macro '{macro.name}', which is defined already in {self._where[macro.name]}"
            raise TemplateError(message, location)
        if macro.name in self._own:
            raise TemplateError(f"defines a macro '{macro.name}', which is a word of all templates", location)


class _NoMeaning:
    def holds(self, word: Word) -> bool:
        raise TemplateError(f"asks for {word} outside of a joint", word.location)

    def text(self, word: Word) -> str:
        raise TemplateError(f"asks for {word} outside of a joint", word.location)


def _check_length(text: str, file: str | None) -> None:
    """Raise TemplateError for a template that would take long to read."""
    if len(text) > LONGEST:
        raise TemplateError(f"has more than {LONGEST:,} characters", TextLocation(1, file))
    for number, tag in enumerate(TAG.finditer(text)):
        if number >= MOST_TAGS:
            location = TextLocation(text.count("\n", 0, tag.start()) + 1, file)
            raise TemplateError(f"has more than {MOST_TAGS:,} blocks, expressions and comments of Jinja", location)


def _run(environment: TemplateEnvironment, template: JinjaTemplate, meaning: Meaning) -> RenderedText:
    rendering = environment.begin(meaning)
    try:
        text = template.render()
        lines = lines_of(text, rendering.limits.check_time)
        return RenderedText(rendering.markers.replace_all(str.__str__(text), lines), lines)
    except Exception as error:
        calls = rendering.calls_at_error or ()
        name = _unknown_name(error)
        message = _message(error) if name is None else f"does not know '{name}'{nearest(name, environment.known)}"
        message = rendering.markers.describe(environment.add_hint(message))
        raise TemplateError(message, _place(error, calls, sys.exc_info()[2]), name is not None) from error


def _unknown_name(error: Exception) -> str | None:
    """Return the name that a template does not know, None for any other error."""
    name = _UNDEFINED.fullmatch(str(error)) if isinstance(error, UndefinedError) else None
    return name[1] if name is not None else None


def _message(error: Exception) -> str:
    if isinstance(error, TemplateError):
        return error.message
    if isinstance(error, RecursionError):
        return "is nested too deeply"
    if isinstance(error, KeyError):
        return f"fails: there is no key {error}"
    text = _INTERNAL.sub(r"\1", " ".join(str(error).split()))
    return f"fails: {text}" if text else f"fails: {type(error).__name__}"


def _place(error: Exception, calls: tuple[MacroCall, ...], trace: TracebackType | None) -> TextLocation | None:
    """Return where an error was raised: the innermost line of a template in its traceback."""
    if isinstance(error, TemplateError) and error.location is not None:
        return error.location
    location = None
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name.startswith(_FILE):
            location = TextLocation(trace.tb_lineno, name.removeprefix(_FILE) or None, calls)
        trace = trace.tb_next
    return location
