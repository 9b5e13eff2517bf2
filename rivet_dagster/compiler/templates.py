"""SQL joints that are templates: the published joint that each refers to, its queries for first and later runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rivet_dagster.cache import CompileCache
from rivet_dagster.compiler.diagnostics import Diagnostics
from rivet_dagster.compiler.graph import TemplateNeeds, invert
from rivet_dagster.compiler.renderings import Cases, Rendering, Renderings, every_case
from rivet_dagster.model.joint import PYTHON, SINK, SOURCE, SQL, Joint
from rivet_dagster.model.project import Project
from rivet_dagster.model.text_lines import Stretch, TextLocation, locate_line
from rivet_dagster.near_names import NearNames
from rivet_dagster.project.templating import is_template
from rivet_dagster.project.templating.words import (
    CONDITIONS,
    IS_INCREMENTAL,
    IS_SCD2,
    LANDING_ZONE,
    OF_A_JOINT,
    OF_A_SINK,
    RUN_STARTED_AT,
    THIS,
    VAR,
    WATERMARK,
    Word,
)
from rivet_dagster.sql.parsing.dialect import SqlError, quote_name
from rivet_dagster.sql.parsing.known_query import KnownQuery
from rivet_dagster.sql.target import line_in_quotes, parameter, target_view, variable_of, watermark_of

Know = Callable[[str], KnownQuery]
"""Return the facts of a query. Raises SqlError."""

_NO_TABLE = "Give this joint a `catalog`, or add a sink that reads it."
_GUARD = "Put it under {% if is_incremental() %}."


@dataclass(frozen=True)
class Rendered:
    """A template's query for a first run, None where it has errors, and the incremental one where it differs.

    ``lines`` and ``incremental_lines`` say where the lines of the two came from.
    """

    full: str | None = None
    incremental: str | None = None
    needs: TemplateNeeds | None = None
    possible: tuple[str, ...] = ()
    """The joints that it may read, whichever conditions hold."""
    lines: tuple[Stretch, ...] = ()
    incremental_lines: tuple[Stretch, ...] = ()


def render_templates(
    joints: Mapping[str, Joint],
    project: Project,
    know: Know,
    broken: set[str],
    diagnostics: Diagnostics,
    cache: CompileCache,
) -> dict[str, Rendered]:
    """Return the queries of the joints that are templates, by name; report RVT-212, 302, 319, 320."""
    marked = {
        joint.name: joint.sql
        for joint in joints.values()
        if joint.type == SQL and joint.sql is not None and is_template(joint.sql)
    }
    if not marked and not project.macros:
        return {}
    renderings = Renderings(project, _text, cache)
    wrong_macros = renderings.errors()
    diagnostics.errors += wrong_macros
    cases = {name: every_case(renderings, sql) for name, sql in marked.items()}
    upstream = {name: _possible(joint, cases.get(name), joints, project, know) for name, joint in joints.items()}
    consumers = invert(upstream)
    near = NearNames(joints)
    rendered = {}
    for name, known in cases.items():
        tables = template_tables(name, consumers, joints)
        renderer = _Renderer(joints[name], known, renderings, tables, joints, diagnostics)
        renderer.check(near, broken, bool(wrong_macros), sure=not project.errors and not wrong_macros)
        rendered[name] = renderer.rendered(marked[name], upstream[name])
    return rendered


class _Renderer:
    """Renders one template; its errors are reported once, however often it is rendered."""

    def __init__(
        self,
        joint: Joint,
        cases: Cases,
        renderings: Renderings,
        tables: TemplateTables,
        joints: Mapping[str, Joint],
        diagnostics: Diagnostics,
    ) -> None:
        self._joint, self._cases, self._joints = joint, cases, joints
        self._renderings = renderings
        self._tables = tables
        self._diagnostics = diagnostics
        self._failed = False
        self._used: set[Word] = set()
        self._sink: Joint | None = None

    def check(self, near: NearNames, broken: set[str], broken_macros: bool, sure: bool) -> None:
        """Report errors known before rendering; with ``sure``, no joint is missing because of errors in its file.

        With ``broken_macros`` a name that is not known may be that of a macro whose file has errors.
        """
        for error in self._cases.errors:
            if error.unknown and broken_macros:
                self._failed = True
                continue
            self._error("RVT-212", f"the template {error.message}", error.location)
        for word in self._cases.words:
            if word.name in OF_A_JOINT and word.argument not in broken:
                self._check_joint(word, near)
        sink_words = [word for word in self._cases.words if word.name in OF_A_SINK]
        named = {sink for word in sink_words if (sink := self._sink_of(word, sure)) is not None}
        if len(named) > 1:
            message = f"the template speaks of several tables, {', '.join(sorted(named))}; a joint can follow one"
            self._error(
                "RVT-320", message, sink_words[0].location, "Ask of one table alone; make another joint for the other."
            )
        elif named:
            self._sink = self._joints[named.pop()]

    def rendered(self, sql: str, possible: tuple[str, ...]) -> Rendered:
        """Return the queries; report RVT-320 for what does not exist in a first run."""
        if self._failed:
            return Rendered(possible=possible)
        full = self._render(sql, False)
        whole = self._sink is None or self._sink.write_strategy.replaces_all
        later = full if whole else self._render(sql, True)
        self._refuse_quotes(full)
        self._refuse_quotes(later)
        if self._failed:
            return Rendered(possible=possible)
        differs = later.text != full.text
        sink = self._sink.name if self._sink is not None and differs else None
        used = {word.name for word in self._used}
        variables = tuple(sorted({str(word.argument) for word in self._used if word.name == VAR}))
        needs = TemplateNeeds(sink, WATERMARK in used, THIS in used, RUN_STARTED_AT in used, variables)
        if not differs:
            return Rendered(full.text, None, needs, possible, full.lines)
        return Rendered(full.text, later.text, needs, possible, full.lines, later.lines)

    def _refuse_quotes(self, rendered: Rendering) -> None:
        markers = {_text(word, "" if self._sink is None else self._sink.name) for word in self._used if _is_value(word)}
        for marker in sorted(markers):
            line = line_in_quotes(rendered.text, marker)
            if line is not None:
                message = f"the template puts a value within quotes, which would make the text '{marker}' of it"
                location = locate_line(rendered.lines, line)
                self._error("RVT-212", message, location, "Leave the quotes out: a value is bound with its own type.")

    def _render(self, sql: str, incremental: bool) -> Rendering:
        keeps_history = self._sink is not None and self._sink.write_strategy.keeps_history
        conditions = {IS_INCREMENTAL: incremental, IS_SCD2: keeps_history}
        rendering = self._renderings.render(sql, conditions, "" if self._sink is None else self._sink.name)
        for word in rendering.words:
            if word.name not in CONDITIONS:
                self._use(word, incremental)
        return rendering

    def _use(self, word: Word, incremental: bool) -> None:
        """Report RVT-320 for a word that means nothing in a query."""
        self._used.add(word)
        if word.name not in (WATERMARK, THIS):
            return
        assert self._sink is not None
        strategy, name = self._sink.write_strategy, self._sink.name
        if strategy.replaces_all:
            message = f"the template uses {word}, but every run writes '{name}' anew ({strategy.mode})"
            self._error("RVT-320", message, word.location, f"{_GUARD[:-1]}, or give it another `write_strategy`.")
        elif not incremental:
            message = f"the template uses {word} also for the first run, when '{name}' holds nothing"
            self._error("RVT-320", message, word.location, _GUARD)
        elif word.name == WATERMARK and "watermark_column" not in strategy.options:
            message = f"the template uses {word}, but '{name}' has no watermark"
            self._error("RVT-320", message, word.location, "Give its `write_strategy` a `watermark_column`.")

    def _check_joint(self, word: Word, near: NearNames) -> None:
        joint = self._joints.get(word.argument or "")
        if joint is None:
            hint = near.hint(word.argument or "", but=self._joint.name)
            self._error("RVT-302", f"{word} names no joint{hint}", word.location)
        elif joint is self._joint:
            remedy = "Read what the table holds already as {{ this }}."
            self._error("RVT-302", f"{word} names the joint itself", word.location, remedy)
        elif word.name == LANDING_ZONE and (joint.type != SOURCE or joint.options.get("landing") is not True):
            kind = "a source without `landing: true`" if joint.type == SOURCE else f"of type {joint.type}"
            self._error("RVT-319", f"{word} needs a landing source, '{joint.name}' is {kind}", word.location)

    def _sink_of(self, word: Word, sure: bool) -> str | None:
        """Return the published joint that ``word`` refers to; report RVT-320 where that is not clear."""
        nearest, all_ = self._tables.nearest, self._tables.all
        if word.argument in all_ or (word.argument is None and len(nearest) == 1):
            return word.argument or nearest[0]
        several = f"this joint leads to {', '.join(all_)}" if all_ else "this joint leads to no published table"
        if word.argument is not None:
            message = f"the template asks for {word}, but {several}"
            remedy = "Name one of them." if all_ else None
        elif nearest:
            shown = f"{word.name}('{nearest[0]}')"
            message, remedy = f"the template asks for {word.name}, but {several}", f"Name one of them: {shown}."
        else:
            message, remedy = f"the template asks for {word.name}, but {several}", _NO_TABLE
        if all_ or sure:
            self._error("RVT-320", message, word.location, remedy)
        self._failed = True
        return None

    def _error(self, code: str, message: str, location: TextLocation | None, remediation: str | None = None) -> None:
        self._failed = True
        self._diagnostics.in_template(self._joint, code, message, location, remediation)


def _possible(
    joint: Joint, cases: Cases | None, joints: Mapping[str, Joint], project: Project, know: Know
) -> tuple[str, ...]:
    """Return the joints that a joint may read, whichever conditions of its template hold."""
    if joint.upstream is not None:
        return tuple(name for name in joint.upstream if name in joints)
    if joint.type == PYTHON:
        function = project.functions.get(joint.name)
        return tuple(name for name in (function.parameters if function is not None else ()) if name in joints)
    if joint.sql is None or joint.type in (SOURCE, SINK):
        return ()
    texts = {joint.sql} if cases is None else cases.texts
    read = {name for text in texts for name in _reads(text, know)}
    return tuple(sorted(name for name in read if name in joints and name != joint.name))


def _reads(text: str, know: Know) -> tuple[str, ...]:
    try:
        return tuple(know(text).reads)
    except SqlError:
        return ()  # reported for the query that is used


def _text(word: Word, sink: str) -> str:
    """Return the SQL that replaces a word that is not a condition."""
    if word.name in OF_A_JOINT:
        return quote_name(word.argument or "")
    if word.name == THIS:
        return quote_name(target_view(sink))
    if word.name == VAR:
        return parameter(variable_of(str(word.argument)))
    return parameter(RUN_STARTED_AT if word.name == RUN_STARTED_AT else watermark_of(sink))


def _is_value(word: Word) -> bool:
    return word.name in (WATERMARK, RUN_STARTED_AT, VAR)


@dataclass(frozen=True)
class TemplateTables:
    """The published joints to which a joint leads, itself among them: ``nearest`` are those with none before them."""

    nearest: tuple[str, ...]
    all: tuple[str, ...]


def template_tables(name: str, consumers: Mapping[str, tuple[str, ...]], joints: Mapping[str, Joint]) -> TemplateTables:
    """Return the tables of the joint ``name``; ``consumers`` are the joints that read each joint.

    >>> mart = Joint(name="mart", type="sql", sql="SELECT * FROM new", catalog="lake")
    >>> copy = Joint(name="copy", type="sink", upstream="mart", catalog="lake", table="copy")
    >>> consumers = {"new": ("mart",), "mart": ("copy",), "copy": ()}
    >>> new = Joint(name="new", type="sql", sql="SELECT 1 AS x")
    >>> template_tables("new", consumers, {joint.name: joint for joint in (new, mart, copy)})
    TemplateTables(nearest=('mart',), all=('copy', 'mart'))
    """
    return TemplateTables(_reached(name, consumers, joints, False), _reached(name, consumers, joints, True))


def _reached(
    name: str, consumers: Mapping[str, tuple[str, ...]], joints: Mapping[str, Joint], beyond: bool
) -> tuple[str, ...]:
    """Return the published joints among the joint and those downstream, also ``beyond`` published ones."""
    reached, waiting = {name}, [name]
    while waiting:
        each = waiting.pop()
        if beyond or not joints[each].publishes:
            new = set(consumers[each]) - reached
            reached |= new
            waiting += new
    return tuple(sorted(each for each in reached if joints[each].publishes))
