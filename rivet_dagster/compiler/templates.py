"""SQL joints that are templates: the sink that each refers to, and its queries for first and incremental runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product

from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.graph import TemplateNeeds, invert
from rivet_dagster.model.joint import PYTHON, SINK, SOURCE, SQL, Joint
from rivet_dagster.model.project import Project
from rivet_dagster.model.write_strategy import ALWAYS_WHOLE
from rivet_dagster.near_names import NearNames
from rivet_dagster.project.templating import (
    CONDITIONS,
    IS_INCREMENTAL,
    IS_SCD2,
    LANDING_ZONE,
    OF_A_JOINT,
    OF_A_SINK,
    RUN_STARTED_AT,
    THIS,
    WATERMARK,
    Template,
    Word,
    is_template,
    read_template,
)
from rivet_dagster.sql.dialect import SqlError, quoted
from rivet_dagster.sql.known_query import KnownQuery
from rivet_dagster.sql.quotes import line_in_quotes
from rivet_dagster.sql.target import parameter, target_view, watermark_of

Know = Callable[[str], KnownQuery]
"""Return the facts of a query. Raises SqlError."""

_GUARD = "Put it under {% if is_incremental() %}."


@dataclass(frozen=True)
class Rendered:
    """A template's query for a first run, None where it has errors, and the incremental one where it differs."""

    full: str | None = None
    incremental: str | None = None
    needs: TemplateNeeds | None = None
    possible: tuple[str, ...] = ()
    """The joints that it may read, whichever conditions hold."""


def render_templates(
    joints: Mapping[str, Joint], project: Project, know: Know, broken: set[str], diagnostics: Diagnostics
) -> dict[str, Rendered]:
    """Return the queries of the joints that are templates, by name; report RVT-212, 302, 319, 320."""
    templates = {
        joint.name: read_template(joint.sql)
        for joint in joints.values()
        if joint.type == SQL and joint.sql is not None and is_template(joint.sql)
    }
    if not templates:
        return {}
    upstream = {name: _possible(joint, templates.get(name), joints, project, know) for name, joint in joints.items()}
    consumers = invert(upstream)
    near = NearNames(joints)
    rendered = {}
    for name, template in templates.items():
        sinks = _sinks(name, consumers, joints)
        renderer = _Renderer(joints[name], template, sinks, joints, diagnostics)
        renderer.check(near, broken, sure=not project.errors)
        rendered[name] = renderer.rendered(upstream[name])
    return rendered


class _Renderer:
    """Renders one template; its errors are reported once, however often it is rendered."""

    def __init__(
        self, joint: Joint, template: Template, sinks: list[str], joints: Mapping[str, Joint], diagnostics: Diagnostics
    ) -> None:
        self._joint, self._template, self._joints = joint, template, joints
        self._sinks = sinks
        self._diagnostics = diagnostics
        self._errors = 0
        self._used: set[str] = set()
        self._sink: Joint | None = None

    def check(self, near: NearNames, broken: set[str], sure: bool) -> None:
        """Report errors known before rendering; with ``sure``, no joint is missing because of errors in its file."""
        for error in self._template.wrong:
            self._error("RVT-212", f"the template {error.message}", error.line)
        for word in self._template.words:
            if word.name in OF_A_JOINT and word.argument not in broken:
                self._check_joint(word, near)
        sink_words = [word for word in self._template.words if word.name in OF_A_SINK]
        named = {sink for word in sink_words if (sink := self._sink_of(word, sure)) is not None}
        if len(named) > 1:
            message = f"the template speaks of several sinks, {', '.join(sorted(named))}; a joint can follow one"
            self._error(
                "RVT-320", message, sink_words[0].line, "Ask of one sink alone; make another joint for the other."
            )
        elif named:
            self._sink = self._joints[named.pop()]

    def rendered(self, possible: tuple[str, ...]) -> Rendered:
        """Return the queries; report RVT-320 for what does not exist in a first run."""
        if self._errors:
            return Rendered(possible=possible)
        full = self._render(False)
        whole = self._sink is None or self._sink.write_strategy.mode in ALWAYS_WHOLE
        later = full if whole else self._render(True)
        self._refuse_quotes((full, later))
        if self._errors:
            return Rendered(possible=possible)
        sink = self._sink.name if self._sink is not None and later != full else None
        needs = TemplateNeeds(sink, WATERMARK in self._used, THIS in self._used, RUN_STARTED_AT in self._used)
        return Rendered(full, later if later != full else None, needs, possible)

    def _refuse_quotes(self, texts: Iterable[str]) -> None:
        markers = [parameter(RUN_STARTED_AT)]
        markers += [parameter(watermark_of(self._sink.name))] if self._sink is not None else []
        for text, marker in product(texts, markers):
            line = line_in_quotes(text, marker)
            if line is not None:
                message = f"the template puts a value within quotes, which would make the text '{marker}' of it"
                self._error("RVT-212", message, line, "Leave the quotes out: a value is bound with its own type.")

    def _render(self, incremental: bool) -> str:
        mode = self._sink.write_strategy.mode if self._sink is not None else None
        conditions = {IS_INCREMENTAL: incremental, IS_SCD2: mode == "scd2"}
        return self._template.render(partial(_holds, conditions), lambda word: self._write(word, incremental))

    def _write(self, word: Word, incremental: bool) -> str:
        self._used.add(word.name)
        if word.name not in (WATERMARK, THIS):
            return _text(word, "")
        assert self._sink is not None
        strategy, name = self._sink.write_strategy, self._sink.name
        if strategy.mode in ALWAYS_WHOLE:
            message = f"the template uses {word}, but every run writes '{name}' anew ({strategy.mode})"
            self._error("RVT-320", message, word.line, f"{_GUARD[:-1]}, or give the sink another `write_strategy`.")
        elif not incremental:
            message = f"the template uses {word} also for the first run, when '{name}' holds nothing"
            self._error("RVT-320", message, word.line, _GUARD)
        elif word.name == WATERMARK and "watermark_column" not in strategy.options:
            message = f"the template uses {word}, but '{name}' has no watermark"
            self._error("RVT-320", message, word.line, "Give the sink's `write_strategy` a `watermark_column`.")
        return _text(word, name)

    def _check_joint(self, word: Word, near: NearNames) -> None:
        joint = self._joints.get(word.argument or "")
        if joint is None:
            hint = near.hint(word.argument or "", but=self._joint.name)
            self._error("RVT-302", f"{word} names no joint{hint}", word.line)
        elif joint is self._joint:
            remedy = "Read what the sink holds already as {{ this }}."
            self._error("RVT-302", f"{word} names the joint itself", word.line, remedy)
        elif word.name == LANDING_ZONE and (joint.type != SOURCE or joint.options.get("landing") is not True):
            kind = "a source without `landing: true`" if joint.type == SOURCE else f"of type {joint.type}"
            self._error("RVT-319", f"{word} needs a landing source, '{joint.name}' is {kind}", word.line)

    def _sink_of(self, word: Word, sure: bool) -> str | None:
        """Return the sink that ``word`` refers to; report RVT-320 where that is not clear."""
        if word.argument in self._sinks or (word.argument is None and len(self._sinks) == 1):
            return word.argument or self._sinks[0]
        several = f"this joint leads to {', '.join(self._sinks)}" if self._sinks else "this joint leads to no sink"
        if word.argument is not None:
            message = f"the template asks for {word}, but {several}"
            remedy = "Name one of them." if self._sinks else None
        elif self._sinks:
            shown = f"{word.name}('{self._sinks[0]}')"
            message, remedy = f"the template asks for {word.name}, but {several}", f"Name one of them: {shown}."
        else:
            message, remedy = f"the template asks for {word.name}, but {several}", "Add a sink that reads this joint."
        if self._sinks or sure:
            self._error("RVT-320", message, word.line, remedy)
        self._errors += 1
        return None

    def _error(self, code: str, message: str, line: int | None, remediation: str | None = None) -> None:
        self._errors += 1
        self._diagnostics.in_sql(self._joint, code, message, line, remediation)


def _possible(
    joint: Joint, template: Template | None, joints: Mapping[str, Joint], project: Project, know: Know
) -> tuple[str, ...]:
    """Return the joints that a joint may read, whichever conditions of its template hold."""
    if joint.upstream is not None:
        return tuple(name for name in joint.upstream if name in joints)
    if joint.type == PYTHON:
        function = project.functions.get(joint.name)
        return tuple(name for name in (function.parameters if function is not None else ()) if name in joints)
    if joint.sql is None or joint.type in (SOURCE, SINK):
        return ()
    texts = {joint.sql} if template is None else _every_text(template)
    read = {name for text in texts for name in _reads(text, know)}
    return tuple(sorted(name for name in read if name in joints and name != joint.name))


def _every_text(template: Template) -> set[str]:
    cases = [dict(zip(CONDITIONS, case, strict=True)) for case in product((False, True), repeat=len(CONDITIONS))]
    return {template.render(partial(_holds, case), lambda word: _text(word, "any")) for case in cases}


def _holds(case: Mapping[str, bool], word: Word) -> bool:
    return case[word.name]


def _reads(text: str, know: Know) -> tuple[str, ...]:
    try:
        return tuple(know(text).reads)
    except SqlError:
        return ()  # reported for the query that is used


def _text(word: Word, sink: str) -> str:
    """Return the SQL that replaces a word that is not a condition."""
    if word.name in OF_A_JOINT:
        return quoted(word.argument or "")
    if word.name == THIS:
        return quoted(target_view(sink))
    return parameter(RUN_STARTED_AT if word.name == RUN_STARTED_AT else watermark_of(sink))


def _sinks(name: str, consumers: Mapping[str, tuple[str, ...]], joints: Mapping[str, Joint]) -> list[str]:
    """Return the sinks downstream of a joint, sorted."""
    reached, waiting = {name}, [name]
    while waiting:
        for reader in consumers[waiting.pop()]:
            if reader not in reached:
                reached.add(reader)
                waiting.append(reader)
    return sorted(joint for joint in reached if joints[joint].type == SINK)
