"""The files of macros of the new project."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from rivet_dagster.dbt.declared import DbtProject, Macro
from rivet_dagster.dbt.macros.scope import DBT, MacroScope
from rivet_dagster.dbt.report import CHANGED, LEFT_OUT, UNCHANGED, ReportEntry
from rivet_dagster.dbt.template import TEST, DbtTemplate, DbtTemplateError, read_template
from rivet_dagster.dbt.translation.translator import Translator

FOLDER = "macros"

_OF_DBT = frozenset(
    ("generate_schema_name", "generate_alias_name", "generate_database_name", "ref", "source", "config")
)


def macro_files(
    project: DbtProject, scope: MacroScope, translator: Translator, used: Iterable[Macro]
) -> tuple[dict[str, str], list[ReportEntry]]:
    """Return the files of the macros that joints use and of the project's own, and what became of the latter."""
    wanted = {_key(macro): macro for macro in used if macro.block.kind != TEST}
    entries = []
    for macro in project.root.macros:
        if macro.block.kind == TEST:
            continue
        within = [macro, *translator.reached(translator.of_macro(macro))]
        problems = [str(p) for each in within for p in translator.of_macro(each).problems]
        problems += map(str, translator.refusals(within))
        if _key(macro) not in wanted:
            if macro.name in _OF_DBT or problems:
                own = ["it replaces a function of dbt's own"] if macro.name in _OF_DBT else []
                entries.append(ReportEntry(macro.name, macro.place, LEFT_OUT, reasons=(*own, *problems), kind="macro"))
                continue
            wanted |= {_key(each): each for each in within if each.block.kind != TEST}
        changes = list(translator.of_macro(macro).changes)
        name = scope.name_of(macro)
        changes += [f"it is '{name}'"] if name != macro.name else []
        entries.append(
            ReportEntry(
                macro.name, macro.place, CHANGED if changes else UNCHANGED, reasons=tuple(changes), kind="macro"
            )
        )
    by_file: dict[str, list[Macro]] = {}
    for macro in wanted.values():
        by_file.setdefault(_path(project, macro), []).append(macro)
    return {path: _text(macros, translator) for path, macros in by_file.items()}, entries


def macro_lines(text: str) -> dict[int, str]:
    """Return the names of the macros of a file by the lines on which they begin."""
    try:
        template = read_template(text)
    except DbtTemplateError:
        return {}
    return {template.line(block.start): block.name for block in template.blocks()}


def _key(macro: Macro) -> tuple[str, str]:
    return macro.package, macro.name


def _path(project: DbtProject, macro: Macro) -> str:
    if macro.package == DBT:
        return f"{FOLDER}/dbt.sql"
    package = next(package for package in project.packages if package.name == macro.package)
    own = PurePosixPath(macro.file.removeprefix(f"{package.folder}/") if package.folder else macro.file)
    below = own.parts[1:] if len(own.parts) > 1 else own.parts
    return "/".join((FOLDER, *((package.name,) if package.folder else ()), *below))


def _text(macros: list[Macro], translator: Translator) -> str:
    """Return the text of a file: its macros in order, each with the comments before it."""
    parts = []
    for macro in sorted(macros, key=lambda each: each.block.start):
        parts.append(f"{_comments(macro)}{translator.text_of_macro(macro)}")
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _comments(macro: Macro) -> str:
    """Return the comments of Jinja that stand before a macro."""
    template = macro.template
    before = max((block.end for block in template.blocks() if block.end <= macro.block.start), default=0)
    return "".join(_comments_in(template, before, macro.block.start))


def _comments_in(template: DbtTemplate, start: int, end: int) -> Iterator[str]:
    position = start
    while (opening := template.text.find("{#", position, end)) >= 0:
        closing = template.text.find("#}", opening, end)
        if closing < 0:
            return
        yield f"{template.text[opening : closing + 2]}\n"
        position = closing + 2
