"""The files of the new project: rivet.yaml, profiles.yaml, what Dagster needs, and those of joints and macros.

A joint has its own, with the checks that are annotations or keys there, and those of its other checks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import PurePosixPath
from typing import Any

from rivet_dagster.dbt.declared import DbtProject, Macro
from rivet_dagster.dbt.report import CHANGED, LEFT_OUT, UNCHANGED, ReportEntry
from rivet_dagster.dbt.template import TEST, DbtTemplate, DbtTemplateError, read_template
from rivet_dagster.dbt.translation.annotations import (
    SEEDS,
    WAREHOUSE,
    JointDraft,
    annotation_lines,
    scalar,
    yaml_lines,
)
from rivet_dagster.dbt.translation.data_tests import MovedTest
from rivet_dagster.dbt.translation.macros import DBT, MacroScope
from rivet_dagster.dbt.translation.translator import Translator
from rivet_dagster.secrets.redaction import names_secret

FOLDERS = ("sources", "joints", "sinks")


_DEFINITIONS = '''"""For Dagster: `dagster dev -f definitions.py`."""

from rivet_dagster import load_definitions

defs = load_definitions(".")
'''
_IGNORED = ".rivet/\nwarehouse/\nspark-warehouse/\nmetastore_db/\nderby.log\n__pycache__/\n"


def settings_files(
    project: DbtProject,
    variables: Mapping[str, Any],
    used: Set[str],
    published: str,
    databases: Mapping[str, Mapping[str, str]],
    sessions: Mapping[str, str],
    exposures: Mapping[str, Mapping[str, Any]],
    has_macros: bool,
) -> dict[str, str]:
    """Return the files at the top of the project by name.

    ``used`` are the catalogs of its joints, ``published`` is the one to which models are published. ``sessions`` are
    those of the session's tables, with their databases.
    """
    manifest: dict[str, Any] = {"profiles": "profiles.yaml", **{folder: folder for folder in FOLDERS}}
    manifest |= {"macros": "macros"} if has_macros else {}
    manifest |= {"vars": dict(variables)} if variables else {}
    dagster = {"dagster": {"exposures": exposures}}
    return {
        "rivet.yaml": yaml_lines(manifest, depth=2) + (yaml_lines(dagster, depth=4) if exposures else ""),
        "profiles.yaml": _profiles(project, used, published, databases, sessions),
        "definitions.py": _DEFINITIONS,
        ".gitignore": _IGNORED,
    }


def _profiles(
    project: DbtProject,
    used: Set[str],
    published: str,
    databases: Mapping[str, Mapping[str, str]],
    sessions: Mapping[str, str],
) -> str:
    target = project.target
    folder = f"    {WAREHOUSE}: {{type: filesystem, path: warehouse}}  # the published tables, as Parquet\n"
    catalogs = [folder] if published == WAREHOUSE else []
    if SEEDS in used:
        catalogs.append(f"    {SEEDS}: {{type: filesystem, path: seeds, format: csv}}\n")
    for name in [name for name in sessions if name in used]:
        entry = scalar({"type": "spark", "database": sessions[name]})
        catalogs.append(f"    {name}: {entry}  # the tables of sources; `metastore` says where\n")
    catalogs += [f"    {name}: {scalar(options)}\n" for name, options in databases.items()]
    in_folder = [WAREHOUSE] if published == WAREHOUSE else []
    names = [*in_folder, *(name for name in (SEEDS, *sessions) if name in used), *databases]
    # dbt-spark turns it off for each of its connections.
    config = {"spark.sql.ansi.enabled": "false"} if target.adapter == "spark" else {}
    config |= _server_settings(target.values.get("server_side_parameters"))
    settings = "".join(f"        {scalar(key)}: {scalar(value)}\n" for key, value in config.items())
    settings = f"      config:\n{settings}" if settings else ""
    is_shown = target.values.get("host") and not target.is_postgres
    where = f" (it was {target.method} on {target.values['host']})" if is_shown else ""
    return (
        f"# {project.root.name}, moved from dbt: what its profile '{target.profile}' calls '{target.name}' "
        f"({target.adapter}){where}\n"
        "default:\n"
        f"  catalogs:\n{''.join(catalogs)}"
        "  engines:\n"
        "    - name: spark\n"
        "      type: pyspark\n"
        f"      catalogs: {scalar(names)}\n"
        "      master: local[*]  # or the address of a cluster, or `remote` for Spark Connect\n"
        f"{settings}"
        "  default_engine: spark\n"
    )


def _server_settings(value: Any) -> dict[str, str]:
    """Return the settings that dbt gives its session; a secret becomes a variable of the environment."""
    settings = value if isinstance(value, Mapping) else {}
    secrets = secrets_of(value)
    return {str(key): f"${{{secrets[str(key)]}}}" if str(key) in secrets else _text(v) for key, v in settings.items()}


def secrets_of(value: Any) -> dict[str, str]:
    """Return the settings of a session that are secrets, with the variables of the environment for them.

    >>> secrets_of({"fs.azure.account.key.x": "abc", "spark.sql.shuffle.partitions": 8})
    {'fs.azure.account.key.x': 'FS_AZURE_ACCOUNT_KEY_X'}
    """
    settings = value if isinstance(value, Mapping) else {}
    return {key: _variable(key) for key in map(str, settings) if names_secret(key)}


def _variable(key: str) -> str:
    name = re.sub(r"[^A-Z0-9]+", "_", key.upper()).strip("_")
    return f"S_{name}" if name[:1].isdigit() else name or "SECRET"


def _text(value: Any) -> str:
    return (str(value).lower() if isinstance(value, bool) else str(value)).replace("${", "$${")


def write_joint(
    draft: JointDraft, checks: Sequence[MovedTest], files: dict[str, str], lines: dict[tuple[str, int], tuple[str, str]]
) -> None:
    """Add the files of a joint and of its ``checks`` to ``files``, and the checks to ``lines``, by file and line.

    The line is 0 for all lines of a file.
    """
    with_options = [test for test in checks if test.check is not None and test.check.options is not None]
    kind = "audit" if draft.phase == "audit" else "assert"
    for test in checks:
        if test.check is not None and test.check.options is None:
            path = f"quality/{draft.joint}/{test.final}.sql"
            files[path] = test.check.file(draft.phase)
            lines[path, 0] = (draft.joint, test.final)
    text, comment = (draft.body, "--") if draft.code is None else (draft.code, "#")
    if text is None:
        keys = dict(draft.keys)
        entries = [test.check.entry() for test in with_options if test.check is not None]
        entries += [draft.freshness] if draft.freshness is not None else []
        if entries:
            keys["quality"] = {f"{draft.phase}s": entries}
        files[draft.path] = yaml_lines(keys)
        listed = [n for n, line in enumerate(files[draft.path].splitlines(), 1) if line.startswith("    - {")]
        lines.update({(draft.path, n): (draft.joint, t.final) for n, t in zip(listed, with_options, strict=False)})
        return
    head = [(key, value) for key, value in draft.keys.items() if key != "write_strategy"]
    head += [("write_strategy", draft.keys["write_strategy"])] if "write_strategy" in draft.keys else []
    for test in with_options:
        assert test.check is not None
        lines[draft.path, len(head) + 1] = (draft.joint, test.final)
        head.append((kind, test.check.annotation()))
    annotations = annotation_lines(head, comment)
    files[draft.path] = f"{annotations}\n{text}\n" if annotations else f"{text}\n"


def origin(draft: JointDraft, text: str) -> tuple[int, str, Sequence[int]]:
    """Return on which line of a joint's file its query begins, and from where the lines of that came."""
    if draft.body is None or not draft.lines:
        return 0, "", ()
    first = text[: len(text) - len(draft.body) - 1].count("\n") + 1
    return first, draft.location.file, draft.lines


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
                replaced = ["it replaces a function of dbt's own"] if macro.name in _OF_DBT else []
                entries.append(
                    ReportEntry(macro.name, macro.location, LEFT_OUT, reasons=(*replaced, *problems), kind="macro")
                )
                continue
            wanted |= {_key(each): each for each in within if each.block.kind != TEST}
        changes = list(translator.of_macro(macro).changes)
        name = scope.name_of(macro)
        changes += [f"it is '{name}'"] if name != macro.name else []
        entries.append(
            ReportEntry(
                macro.name, macro.location, CHANGED if changes else UNCHANGED, reasons=tuple(changes), kind="macro"
            )
        )
    by_file: dict[str, list[Macro]] = {}
    for macro in wanted.values():
        by_file.setdefault(_path(project, macro), []).append(macro)
    return {path: _yaml_text(macros, translator) for path, macros in by_file.items()}, entries


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
    if macro.package == DBT or macro.package in project.built_in:
        return f"{FOLDER}/{macro.package}.sql"
    package = next(package for package in project.packages if package.name == macro.package)
    path = PurePosixPath(macro.file.removeprefix(f"{package.folder}/") if package.folder else macro.file)
    below = path.parts[1:] if len(path.parts) > 1 else path.parts
    return "/".join((FOLDER, *((package.name,) if package.folder else ()), *below))


def _yaml_text(macros: list[Macro], translator: Translator) -> str:
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
