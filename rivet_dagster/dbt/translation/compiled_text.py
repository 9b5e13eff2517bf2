"""Queries that dbt has compiled, in ``target/``, with the names of joints in place of those of tables.

One that cannot be moved has a CTE that hides a reference, or a variable of the environment in place of a name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rivet_dagster.cache import CompileCache
from rivet_dagster.dbt.declared import DbtNode, DbtProject
from rivet_dagster.dbt.files import read_file
from rivet_dagster.dbt.translation.names import Names
from rivet_dagster.dbt.values import UnknownValueError
from rivet_dagster.project.text_file import TextError
from rivet_dagster.sql.error import SqlError
from rivet_dagster.sql.parsing.known_query import know_query
from rivet_dagster.sql.parsing.lexer import pieces, without_comments

_MARKED = re.compile(r"\{[{%#]")


@dataclass(frozen=True)
class CompiledText:
    """A compiled query, the joints that it reads, and the file that it stands in."""

    sql: str
    refs: tuple[str, ...]
    file: str


class CompiledTexts:
    """The compiled queries of a project."""

    def __init__(self, root: Path, project: DbtProject, names: Names) -> None:
        self._root, self._project, self._names = root, project, names
        self._relations: dict[str, str] | None = None
        self._quote = '"' if project.target.is_postgres else "`"

    def text(self, node: DbtNode) -> CompiledText | None:
        """Return the compiled query of a model; None where there is none, or one that reads its own table."""
        file = f"{self._project.target_path}/compiled/{node.package}/{self._file_in_package(node)}"
        try:
            sql = read_file(self._root / file).strip()
        except TextError:
            return None
        if not sql:
            return None
        refs: list[str] = []
        try:
            replaced = _replaced(sql, self._known(), refs, self._quote)
        except SqlError:
            return None
        joint = self._names.joints.get(node.key)
        if joint in refs:
            return None
        text = f"{{% raw %}}{replaced}{{% endraw %}}" if _MARKED.search(replaced) else replaced
        return CompiledText(text, tuple(dict.fromkeys(refs)), file)

    def _file_in_package(self, node: DbtNode) -> str:
        folder = next(package.folder for package in self._project.packages if package.name == node.package)
        return node.file.removeprefix(f"{folder}/") if folder else node.file

    def _known(self) -> dict[str, str]:
        """Return the joints by the names of the tables that dbt has for them, in lower case."""
        if self._relations is None:
            self._relations = dict(self._guessed()) | dict(self._of_manifest())
        return self._relations

    def _guessed(self) -> Iterator[tuple[str, str]]:
        target = self._project.target.schema
        for key, node in self._names.nodes.items():
            alias = str(node.config.get("alias") or node.versioned_name)
            declared = node.config.get("schema")
            for schema in (
                target,
                f"{target}_{declared}" if declared else target,
                str(node.config.get("target_schema", target)),
            ):
                yield f"{schema}.{alias}".lower(), self._names.joints[key]
        for table, joint in self._names.sources.values():
            yield f"{table.schema}.{table.identifier}".lower(), joint

    def _of_manifest(self) -> Iterator[tuple[str, str]]:
        try:
            manifest = json.loads(read_file(self._root / self._project.target_path / "manifest.json"))
        except (TextError, ValueError):
            return
        for section in ("nodes", "sources"):
            for entry in _mappings(manifest, section):
                relation = entry.get("relation_name")
                joint = self._joint(entry)
                if isinstance(relation, str) and joint is not None:
                    yield relation.replace(self._quote, "").lower(), joint

    def _joint(self, entry: Mapping[str, Any]) -> str | None:
        package, name, version = entry.get("package_name"), entry.get("name"), entry.get("version")
        if entry.get("resource_type") == "source":
            declared = self._names.sources.get((str(entry.get("source_name")), str(name)))
            return declared[1] if declared is not None else None
        return self._names.joints.get((str(package), str(name) if version is None else f"{name}_v{version}"))


def _mappings(manifest: Any, section: str) -> Iterator[Mapping[str, Any]]:
    entries = manifest.get(section) if isinstance(manifest, Mapping) else None
    for entry in entries.values() if isinstance(entries, Mapping) else ():
        if isinstance(entry, Mapping):
            yield entry


def _replaced(sql: str, relations: Mapping[str, str], refs: list[str], quote: str = "`") -> str:
    """Return a query with the names of joints in place of tables, outside of texts and comments. Raise SqlError.

    >>> refs = []
    >>> _replaced("select 'db.a', x from db.a join `db`.`b` on 1 -- db.a", {"db.a": "a", "db.b": "joint_b"}, refs), refs
    ("select 'db.a', x from a join joint_b on 1 -- db.a", ['a', 'joint_b'])
    """
    hidden = [
        (p.start, p.end) for p in pieces(sql) if p.kind == "comment" or (p.kind == "quoted" and p.text[0] != quote)
    ]

    def name(match: re.Match[str]) -> str:
        key = match[0].replace(quote, "").lower()
        within = any(start <= match.start() < end for start, end in hidden)
        if within or key not in relations:
            return match[0]
        refs.append(relations[key])
        return relations[key]

    part = rf"(?:{quote}[^{quote}\n]+{quote}|\w+)"
    return re.sub(rf"(?<![\w.{quote}]){part}(?:\.{part}){{1,2}}(?![\w{quote}.(])", name, sql)


_BEFORE_VALUES = frozenset(
    "select distinct all where and or not on having when then else case in like ilike rlike regexp between values by "
    "limit offset is div tablesample set interval using filter qualify escape return current".split()
)

_FROM_WITHIN = re.compile(r"(?:\bdistinct|\b(?:extract|trim|substring|substr|overlay|position)\s*\([^()]*)\s+from\Z")

_WORD = re.compile(r"(\w+)\Z")

MARK = "rivet_marked_"

_CTE = re.compile(r"\b(\w+)(?=\s*(?:\([^)]*\))?\s+as\s*\()", re.IGNORECASE)


def hidden_refs(body: str, refs: Iterable[str], render: Callable[[str, str, bool], str]) -> list[str]:
    """Return the joints that a query reads by ``ref`` where its own CTE of that name is meant.

    ``render`` returns the text of a template with a prefix before each joint, in a first or an incremental run.
    """
    named = {name.lower() for name in _CTE.findall(body)}
    ctes = [ref for ref in refs if ref.lower() in named]
    if not ctes:
        return []
    cache = CompileCache()
    hidden = []
    for incremental in (False, True):
        try:
            plain = know_query(render(body, "", incremental), cache).reads
            marked = know_query(render(body, MARK, incremental), cache).reads
        except (SqlError, UnknownValueError):
            continue
        hidden += [ref for ref in ctes if plain.get(ref, 0) != marked.get(f"{MARK}{ref}", 0)]
    return list(dict.fromkeys(hidden))


def names_in_place_of_values(sql: str, marks: dict[str, str]) -> list[str]:
    """Return the variables of which the mark in a query stands where no value can stand; ``marks`` are by name.

    >>> marks = {name: f"x_{name}" for name in "12345"}
    >>> names_in_place_of_values("select x_1, -x_2 from x_3.t where a = x_4 order by a x_5", marks)
    ['3', '5']
    """
    try:
        text = without_comments(sql)
    except SqlError:
        return []
    wrong = []
    for name, mark in marks.items():
        for match in re.finditer(re.escape(mark) + r"(?!\w)", text):
            if not _is_value(text[: match.start()], text[match.end() :]):
                wrong.append(name)
                break
    return wrong


def _is_value(before: str, after: str) -> bool:
    if re.match(r"[\w.`(]", after) or re.search(r"[\w.`]\Z", before):
        return False
    before = before.rstrip().lower()
    word = _WORD.search(before)
    if word is None:
        return bool(before) and before[-1] not in ")]\"'`"
    return word[1] in _BEFORE_VALUES or _FROM_WITHIN.search(before) is not None
