"""The texts of templates in each case of their conditions, cached by all that they depend on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from rivet_dagster.cache import CompileCache, key_of
from rivet_dagster.compiler.plan_json import read
from rivet_dagster.errors import Diagnostic
from rivet_dagster.model.project import Project
from rivet_dagster.model.text_lines import Stretch, TextLocation
from rivet_dagster.project.templating.words import CONDITIONS, OF_A_SINK, TemplateError, Word
from rivet_dagster.project.yaml_text import WrittenFloat

if TYPE_CHECKING:
    from rivet_dagster.project.templating.templates import CompiledTemplate, Templates


@dataclass(frozen=True)
class Rendering:
    """A text, where its lines came from, and the words that were asked for, in order."""

    text: str
    lines: tuple[Stretch, ...]
    words: tuple[Word, ...]


class Renderings:
    """Renders the templates of a project; Jinja is imported only for texts that are not in the cache."""

    def __init__(self, project: Project, write: Callable[[Word, str], str], cache: CompileCache) -> None:
        self._project, self._write, self._cache = project, write, cache
        macros = [(file.file, file.text) for file in project.macros]
        variables = project.variables
        shared = json.dumps((macros, _exact(variables.values), sorted(variables.bound)), default=str)
        self._shared = key_of("shared", shared)  # short, since it is a part of the key of each template
        self._templates: Templates | None = None
        self._read: dict[str, CompiledTemplate] = {}
        self._same: dict[str, Rendering] = {}  # of templates with one text for all conditions and sinks

    def errors(self) -> list[Diagnostic]:
        """Return the errors in the files of macros."""
        if not self._project.macros or self._cache.get("macros", self._shared):
            return []
        errors = self._made().errors
        if not errors:
            self._cache.put("macros", self._shared, True)
        return errors

    def render(self, sql: str, conditions: Mapping[str, bool], sink: str) -> Rendering:
        """Return the text in one case of the conditions, others are false, for a sink. Raises TemplateError."""
        if sql in self._same:
            return self._same[sql]
        rendering = self._rendering(sql, conditions, sink)
        if not any(word.name in OF_A_SINK for word in rendering.words):
            self._same[sql] = rendering
        return rendering

    def _rendering(self, sql: str, conditions: Mapping[str, bool], sink: str) -> Rendering:
        key = json.dumps((sql, sorted(conditions.items()), sink, self._shared))
        cached = self._cache.get("template", key)
        if cached is not None:
            rendering: Rendering = read(Rendering, cached)
            return rendering
        if sql not in self._read:
            self._read[sql] = self._made().read(sql)
        case = _Case(conditions, sink, self._write)
        try:
            rendered = self._read[sql].render(case)
        except TemplateError as error:
            error.words = tuple(case.words)
            raise
        rendering = Rendering(rendered.text, rendered.lines, tuple(dict.fromkeys(case.words)))
        self._cache.put("template", key, asdict(rendering))
        return rendering

    def _made(self) -> Templates:
        if self._templates is None:
            from rivet_dagster.project.templating.templates import Templates

            variables = self._project.variables
            self._templates = Templates(self._project.macros, variables.values, variables.bound)
        return self._templates


def _exact(value: Any) -> Any:
    """Return a value of which JSON holds all that a text can show: how a number is written, the type of a key."""
    if isinstance(value, WrittenFloat):
        return {"number": value.written}
    if isinstance(value, Mapping):
        return {"mapping": [(_exact(key), _exact(item)) for key, item in value.items()]}
    return [_exact(item) for item in value] if isinstance(value, list | tuple) else value


class _Case:
    """The meaning of words in one case, and the words that were asked for."""

    def __init__(self, conditions: Mapping[str, bool], sink: str, write: Callable[[Word, str], str]) -> None:
        self.words: list[Word] = []
        self._conditions, self._sink, self._write = conditions, sink, write

    def holds(self, word: Word) -> bool:
        self.words.append(word)
        return self._conditions.get(word.name, False)

    def text(self, word: Word) -> str:
        self.words.append(word)
        return self._write(word, self._sink)


@dataclass(frozen=True)
class Cases:
    """Results of a template in every case of its conditions: the words that it asks for, its texts, its errors."""

    words: tuple[Word, ...] = ()
    texts: frozenset[str] = frozenset()
    errors: tuple[TemplateError, ...] = ()


def every_case(renderings: Renderings, sql: str) -> Cases:
    """Render a template in every case of its conditions, before it is known to which sink these refer."""
    words: dict[Word, None] = {}
    texts: set[str] = set()
    errors: dict[tuple[str, TextLocation | None], TemplateError] = {}
    done: set[tuple[tuple[str, bool], ...]] = set()
    asked: list[str] = []
    while waiting := [case for case in _combinations(asked) if case not in done]:
        for case in waiting:
            try:
                rendering = renderings.render(sql, dict(case), "any")
            except TemplateError as error:
                errors.setdefault((error.message, error.location), error)
                words |= dict.fromkeys(error.words)
            else:
                texts.add(rendering.text)
                words |= dict.fromkeys(rendering.words)
            done.add(case)
        asked = sorted({word.name for word in words if word.name in CONDITIONS})
    ordered = sorted(words, key=lambda word: word.location.template_line)
    return Cases(tuple(ordered), frozenset(texts), tuple(errors.values()))


def _combinations(names: list[str]) -> list[tuple[tuple[str, bool], ...]]:
    return [tuple(zip(names, case, strict=True)) for case in product((False, True), repeat=len(names))]
