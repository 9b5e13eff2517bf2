"""Models, seeds, sources and snapshots as joints, before their checks are known; what a joint has no use for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from rivet_dagster.dbt.declared import Config, DbtNode, DbtProject, DeclaredColumn, Macro, Owner, SourceTable
from rivet_dagster.dbt.files import read_file
from rivet_dagster.dbt.template import apply_edits, lines_of
from rivet_dagster.dbt.translation.annotations import SEEDS, SESSION, WAREHOUSE, JointDraft
from rivet_dagster.dbt.translation.compiled_text import CompiledTexts
from rivet_dagster.dbt.translation.names import Names, clean_name
from rivet_dagster.dbt.translation.postgres import DatabaseCatalogs, spark_type
from rivet_dagster.dbt.translation.python_models import asked_settings, config_of_python, translate_python
from rivet_dagster.dbt.translation.seeds import SeedFile, read_seed
from rivet_dagster.dbt.translation.strategy import LeftOutError, Strategy, history_of, strategy_of, unknown_keys
from rivet_dagster.dbt.translation.template_text import TemplateFindings, TemplateProblem
from rivet_dagster.dbt.translation.translator import Translator
from rivet_dagster.dbt.translation.variables import unescape_value
from rivet_dagster.dbt.values import NOT_READ, ImportEnvironment, UnknownValueError
from rivet_dagster.model.joint import OWNER, TAG_KEY
from rivet_dagster.project.text_file import TextError
from rivet_dagster.secrets.variables import references

WITH_MEANING = ("sql_header",)

OF_ALL = frozenset(
    "materialized incremental_strategy unique_key partition_by on_schema_change full_refresh tags enabled alias group "
    "description grants pre-hook post-hook access docs name event_time begin batch_size lookback "
    "concurrent_batches".split()
)

OF_SNAPSHOTS = frozenset(
    "strategy updated_at check_cols invalidate_hard_deletes hard_deletes snapshot_meta_column_names "
    "dbt_valid_to_current target_schema target_database".split()
)

OF_SEEDS = frozenset("column_types delimiter quote_columns".split())

WHY = {
    "file_format": "is the catalog's affair",
    "location_root": "is the catalog's affair",
    "tblproperties": "are the catalog's affair (`properties` in `options` of a joint on Iceberg)",
    "clustered_by": "is the catalog's affair",
    "buckets": "are the catalog's affair",
    "schema": "is not used: the catalog has one folder of tables",
    "database": "is not used",
    "meta": "has no counterpart",
    "persist_docs": "is not needed: descriptions are those of Dagster's assets",
    "contract": "has no counterpart: a check of the type `schema` is one",
    "sql_header": "has no counterpart",
}


class JointTranslator:
    """Translates one node after another; ``refused`` are the errors of earlier results, by joint.

    ``sessions`` are the catalogs of the session's tables, with their databases.
    """

    def __init__(
        self,
        root: Path,
        project: DbtProject,
        names: Names,
        databases: DatabaseCatalogs,
        translator: Translator,
        compiled: CompiledTexts,
        refused: Mapping[str, list[str]],
        environment: ImportEnvironment = NOT_READ,
    ) -> None:
        self._root, self._project, self._names, self._databases = root, project, names, databases
        self._translator, self._compiled, self._refused, self._environment = translator, compiled, refused, environment
        self.sessions = {SESSION: project.target.schema}
        self._groups: dict[str, Owner] = {}
        for package in reversed(project.packages):
            self._groups |= package.groups
        self._tables: dict[str, str] = {}
        self._seed_files: set[str] = set()

    def model(self, node: DbtNode) -> JointDraft:
        """Return the joint of a model."""
        joint = self._names.joints.get(node.key, node.versioned_name)
        extension = "sql" if node.code is None else "py"
        draft = JointDraft(node, joint, self._path("joints", node, f"{joint}.{extension}"), node.location)
        if self._is_refused(node, draft):
            return draft
        try:
            config = node.config if node.code is None else config_of_python(node.config)
            strategy = strategy_of(config, self._project.target.adapter)
            self._header(node, draft)
            self._stored(node, draft, strategy)
            if node.code is None:
                self._text(node, draft, strategy)
            else:
                draft.code, draft.refs, notes = translate_python(node, self._names)
                draft.reasons += notes
        except LeftOutError as error:
            self._leave_out(draft, str(error), error.key)
        of_python = {"packages", *asked_settings(node.code)} if draft.code is not None and node.code else set()
        draft.reasons += self._unused(node, OF_ALL | of_python)
        draft.phase = "audit" if strategy_is_incremental(draft) else "assertion"
        return draft

    def snapshot(self, node: DbtNode) -> list[JointDraft]:
        """Return the joint of a snapshot."""
        joint = self._names.joints.get(node.key, node.name)
        draft = JointDraft(
            node, joint, self._path("joints", node, f"{joint}.sql", "snapshots"), node.location, phase="audit"
        )
        if self._is_refused(node, draft):
            return [draft]
        try:
            history = history_of(node.config)
            self._header(node, draft)
            table = str(node.config.get("alias") or node.name)
            draft.keys |= {"catalog": self._databases.published} | self._table(draft, table, node)
            draft.keys["write_strategy"] = dict(history.write)
            draft.reasons += history.notes
            if self._databases.is_postgres:
                draft.reasons.append("a table that dbt has made has other columns: rename it, or name another `table`")
            if node.template is None:
                self._relation(node, draft)
            else:
                self._text(node, draft, Strategy(True, {"mode": "scd2"}))
        except LeftOutError as error:
            self._leave_out(draft, str(error), error.key)
        draft.reasons += self._unused(node, OF_ALL | OF_SNAPSHOTS)
        return [draft]

    def seed(self, node: DbtNode) -> JointDraft:
        """Return the source on a seed's file."""
        joint = self._names.joints.get(node.key, node.name)
        draft = JointDraft(node, joint, self._path("sources", node, f"{joint}.yaml", "seeds"), node.location)
        if self._is_refused(node, draft):
            return draft
        types = node.config.get("column_types", {})
        try:
            text = read_file(self._root / node.file)
            declared = {str(k): str(v) for k, v in types.items()} if isinstance(types, Mapping) else {}
            seed = self._read_seed(text, str(node.config.get("delimiter", ",")), declared)
        except (TextError, ValueError, TypeError) as error:
            self._leave_out(draft, f"the file cannot be read: {error}", None)
            return draft
        table = self._seed_file(node, joint)
        draft.keys |= {"name": joint, "type": "source", "catalog": SEEDS, "table": table}
        draft.keys |= self._described(node)
        draft.keys["options"] = {"schema": seed.schema, **seed.options}
        draft.copied = (node.file, seed.text)
        if table != self._below(node):
            draft.reasons.append(f"its file is '{table}': another seed's is '{self._below(node)}'")
        draft.reasons += [*self._renamed(node.name, joint), *seed.notes]
        draft.reasons += self._unused(node, OF_ALL | OF_SEEDS)
        return draft

    def _read_seed(self, text: str, delimiter: str, declared: Mapping[str, str]) -> SeedFile:
        if not self._project.target.is_postgres:
            return read_seed(text, delimiter, declared)
        seed = read_seed(text, delimiter, {column: spark_type(kind) for column, kind in declared.items()})
        # What dbt takes for a time has no zone there.
        columns = ((name, kind if name in declared else spark_type(kind)) for name, kind in seed.columns)
        return replace(seed, columns=tuple(columns))

    def source(self, table: SourceTable, joint: str) -> JointDraft:
        """Return the source on a table that was there before."""
        folder = re.sub(r"[^\w-]", "_", table.source)
        draft = JointDraft(table, joint, f"sources/{folder}/{joint}.yaml", table.location)
        if joint in self._refused:
            draft.left_out = list(self._refused[joint])
            return draft
        try:
            catalog, notes = self._databases.of_source(table)
        except LeftOutError as error:
            self._leave_out(draft, str(error), None)
            return draft
        draft.reasons += notes
        try:
            placed = self._place(table, catalog)
        except UnknownValueError as error:
            self._leave_out(draft, f"its schema is not known: {error}", None)
            return draft
        draft.keys |= {"name": joint, "type": "source", **placed}
        if placed["catalog"] in self.sessions and placed["catalog"] != SESSION:
            draft.reasons.append(f"its schema, {table.schema}, is the database of the catalog '{placed['catalog']}'")
        tags = tags_of(table.tags, draft.reasons)
        description = description_of(table.description, table.columns)
        draft.keys |= {"description": description} if description else {}
        draft.keys |= {"tags": tags} if tags else {}
        draft.reasons += self._renamed(table.name, joint)
        if catalog is None and table.database is not None and table.database not in ("spark_catalog", table.schema):
            draft.reasons.append(
                f"its database '{table.database}' is not used: the table is looked for in the session's catalog"
            )
        draft.reasons += [*unused_keys(table.config, OF_ALL | {"freshness", "loaded_at_field"}), *table.notes]
        return draft

    def _place(self, table: SourceTable, catalog: str | None) -> dict[str, str]:
        """Return the catalog and the table of a source. Raise UnknownValueError.

        A schema that a run reads from the environment is the database of a catalog of its own.
        """
        if not references(table.schema):
            return {"catalog": catalog or SESSION, "table": f"{unescape_value(table.schema)}.{table.identifier}"}
        if catalog is not None:
            schema = self._environment.expand(table.schema, table.location)
            return {"catalog": catalog, "table": f"{schema}.{table.identifier}"}
        same = [name for name, database in self.sessions.items() if database == table.schema]
        wanted = clean_name(f"{SESSION}_{'_'.join(references(table.schema))}")
        name, number = wanted, 1
        while not same and (name in self.sessions or name in self._databases.by_name):
            number += 1
            name = f"{wanted}_{number}"
        self.sessions.setdefault(same[0] if same else name, table.schema)
        return {"catalog": same[0] if same else name, "table": table.identifier}

    def _is_refused(self, node: DbtNode, draft: JointDraft) -> bool:
        reason = self._names.refused.get(id(node))
        if reason is not None:
            draft.left_out.append(reason)
        elif node.problem is not None:
            draft.left_out.append(node.problem[0])
            draft.problem_location = node.problem[1]
        return bool(draft.left_out)

    def _header(self, node: DbtNode, draft: JointDraft) -> None:
        config = node.config
        for key in unknown_keys(config, node.kind):
            raise LeftOutError(f"{key} is not known: {config.unknown[key]}", key)
        for key in WITH_MEANING:
            if config.get(key):
                raise LeftOutError(f"{key} {WHY[key]}", key)
        draft.reasons += self._renamed(node.versioned_name, draft.joint)
        draft.keys |= self._described(node)
        tags = tags_of(map(str, config.get("tags", ())), draft.reasons)
        draft.keys |= {"tags": tags} if tags else {}
        group = config.get("group")
        if group is not None:
            known = re.sub(r"[^A-Za-z0-9_/]", "_", str(group))
            draft.keys["group"] = known
            draft.reasons += [] if known == str(group) else [f"its group is '{known}', not '{group}'"]
            owner = self._groups.get(str(group))
            owners = owners_of(owner) if owner is not None else []
            draft.keys |= {"owners": owners} if owners else {}

    def _stored(self, node: DbtNode, draft: JointDraft, strategy: Strategy) -> None:
        draft.reasons += strategy.notes
        alias = str(node.config.get("alias") or node.versioned_name)
        if not strategy.is_stored:
            if alias != node.versioned_name:
                draft.reasons.append(f"alias '{alias}' is not used: it is not stored")
            return
        draft.keys |= {"catalog": self._databases.published} | self._table(draft, alias, node)
        if strategy.partitions is not None:
            draft.keys["partitions"] = dict(strategy.partitions)
        if strategy.write:
            draft.keys["write_strategy"] = dict(strategy.write)
        elif node.config.get("partition_by") and node.config.get("materialized") == "table":
            on_hive = "a table of Hive that is taken over keeps its partitions"
            draft.reasons.append(
                f"partition_by is the catalog's affair (`partitioned_by` in `options` on Iceberg; {on_hive})"
            )

    def _table(self, draft: JointDraft, alias: str, node: DbtNode) -> dict[str, str]:
        """Return the key ``table``, where it is not the joint's name; two tables of one name get their schemas'."""
        given = node.config.get("schema")
        whole = node.config.get("target_schema") if node.kind == "snapshot" and given is None else None
        custom = whole if given is None else given
        table, notes = self._databases.table(alias, None if custom is None else str(custom), whole is not None)
        draft.reasons += notes
        taken = self._tables.get(table.lower())
        if taken is not None and taken != draft.joint:
            schema = str(given)
            known = given is not None and re.fullmatch(r"\w+", schema)
            table = f"{schema if known else node.package}_{alias}"
            draft.reasons.append(f"its table is '{table}', since '{alias}' is that of {taken}")
        self._tables[table.lower()] = draft.joint
        return {} if table == draft.joint else {"table": table}

    def _text(self, node: DbtNode, draft: JointDraft, strategy: Strategy) -> None:
        """Set the query: the model's own, else the one that dbt has compiled."""
        assert node.template is not None and node.inner is not None
        table = str(draft.keys.get("table", draft.joint))
        name = table if self._databases.published == WAREHOUSE else table.rpartition(".")[2]
        in_batches = strategy.partitions is not None
        findings = self._translator.of_node(node, strategy.is_incremental, name, in_batches)
        reached = self._translator.reached(findings)
        refs = dict.fromkeys([*findings.refs, *(ref for m in reached for ref in self._translator.of_macro(m).refs)])
        draft.refs = tuple(refs)
        if strategy.overwrites:
            self._refuse_increment(strategy, findings, reached)
        problems = [*findings.problems, *self._translator.refusals(reached), *self._translator.silent_problems(reached)]
        if not strategy.is_stored:
            asking = [macro for macro in reached if self._translator.of_macro(macro).asks_incremental]
            problems += [
                TemplateProblem(
                    f"calls {macro.name}, which asks is_incremental() of a model that is not stored", node.location
                )
                for macro in asking
            ]
        errors = self._refused.get(draft.joint, [])
        if not problems and not errors:
            draft.reasons += findings.changes
            text = apply_edits(node.template.text, findings.edits, *node.inner)
            draft.body, draft.macros = text.strip(), tuple(reached)
            blank = text[: len(text) - len(text.lstrip())].count("\n")
            draft.lines = lines_of(node.template.text, findings.edits, *node.inner)[blank:]
            return
        within = [str(p) for macro in reached for p in self._translator.of_macro(macro).problems]
        wrong = list(dict.fromkeys([*map(str, problems), *errors, *([] if problems else within)]))
        if problems:
            draft.problem_location = problems[0].location
        if len(errors) + bool(problems) > 1:  # the compiled text has been tried, too
            draft.left_out += wrong
            return
        if findings.asks_incremental and strategy.is_incremental:
            wrong.append("the text that dbt compiled is not used: it is that of a first run or of a later one")
            draft.left_out += wrong
            return
        compiled = self._compiled.text(node)
        if compiled is None:
            draft.left_out += wrong
            return
        draft.body, draft.status = compiled.sql, "compiled"
        draft.refs = tuple(dict.fromkeys((*draft.refs, *compiled.refs)))
        draft.reasons += [*wrong, f"so the query is the one that dbt compiled, {compiled.file}"]

    def _refuse_increment(self, strategy: Strategy, findings: TemplateFindings, reached: Iterable[Macro]) -> None:
        """Raise LeftOutError for a query that has other rows in an incremental run, where all rows are replaced."""
        all_findings = [findings, *(self._translator.of_macro(macro) for macro in reached)]
        asks = any(each.asks_incremental or each.uses_this for each in all_findings)
        if asks and strategy.partitions is not None:
            raise LeftOutError("a batch of microbatch is computed anew: ask no is_incremental(), and read no `this`")
        if asks:
            raise LeftOutError(
                "insert_overwrite without partition_by replaces all rows of the table in each run, also by those of "
                "is_incremental(): no write strategy does that; give it a partition_by, or make it a table",
                "incremental_strategy",
            )

    def _relation(self, node: DbtNode, draft: JointDraft) -> None:
        """Set the query of a snapshot that names a relation in place of a query."""
        relation = node.properties.relation if node.properties is not None else None
        match = re.fullmatch(r"\s*(ref|source)\s*\(\s*(.*?)\s*\)\s*", str(relation))
        names = [name.strip().strip("'\"") for name in match[2].split(",")] if match else []
        try:
            if match is not None and match[1] == "ref":
                joint = self._names.ref(node.package, names)[0]
            elif match is not None and len(names) == 2:
                joint = self._names.source(*names)[0]
            else:
                raise LeftOutError(f"its relation '{relation}' is neither ref(...) nor source(...)")
        except LeftOutError:
            raise
        except ValueError as error:
            raise LeftOutError(str(error)) from None
        draft.refs = (joint,)
        draft.body = f"select * from {{{{ ref('{joint}') }}}}"
        draft.reasons.append(f"its relation {relation} is a query")

    def _unused(self, node: DbtNode, used: Set[str]) -> list[str]:
        used = used | {"schema"} if self._databases.published != WAREHOUSE else used
        return [*unused_keys(node.config, used), *(node.properties.notes if node.properties is not None else ())]

    def _leave_out(self, draft: JointDraft, reason: str, key: str | None) -> None:
        draft.left_out.append(reason)
        if key is not None and isinstance(draft.node, DbtNode):
            draft.problem_location = draft.node.config.locations.get(key)

    def _described(self, node: DbtNode) -> dict[str, Any]:
        if node.properties is None:
            return {}
        text = description_of(node.properties.description, node.properties.columns)
        return {"description": text} if text else {}

    def _renamed(self, name: str, joint: str) -> list[str]:
        return [] if name == joint else [f"the joint is '{joint}', not '{name}'"]

    def _below(self, node: DbtNode) -> str:
        """Return a node's file below its folder: fqn holds the folders."""
        name = PurePosixPath(node.file).name
        folders = node.fqn[1:-1] if node.version is None else node.fqn[1:-2]
        return "/".join((*(() if node.package == self._names.root else (node.package,)), *folders, name))

    def _seed_file(self, node: DbtNode, joint: str) -> str:
        """Return the path that a seed's file gets, which no other seed has, where case does not count either."""
        below, number = self._below(node), 1
        table = below
        while table.lower() in self._seed_files:
            table = f"{joint}.csv" if number == 1 else f"{joint}_{number}.csv"
            number += 1
        self._seed_files.add(table.lower())
        return table

    def _path(self, top: str, node: DbtNode, name: str, *subfolders: str) -> str:
        folders = node.fqn[1:-1] if node.version is None else node.fqn[1:-2]
        if node.kind == "snapshot" and node.template is not None:  # that of a properties file is not in its fqn
            folders = folders[:-1]
        package = () if node.package == self._names.root else (node.package,)
        return "/".join((top, *package, *subfolders, *(re.sub(r"^[._]+", "", f) or "folder" for f in folders), name))


def strategy_is_incremental(draft: JointDraft) -> bool:
    """Return whether the checks of a joint must look at the whole table, since a run writes only some of its rows."""
    return "write_strategy" in draft.keys


def description_of(text: str, columns: tuple[DeclaredColumn, ...]) -> str:
    """Return a description, with those of the columns below it."""
    described = [f"- `{column.name}`: {column.description}" for column in columns if column.description]
    return "\n\n".join(part for part in (text, "\n".join(described)) if part)


def tags_of(tags: Iterable[str], notes: list[str]) -> list[str]:
    """Return the tags as Dagster allows them, and add what that changes to ``notes``."""
    allowed: list[str] = []
    for tag in dict.fromkeys(tags):
        cleaned = re.sub(r"[^A-Za-z0-9_.-]", "_", tag)[:63]
        if cleaned != tag:
            notes.append(f"the tag '{tag}' is '{cleaned}': Dagster allows letters, digits, _, . and -")
        if TAG_KEY.fullmatch(cleaned) and cleaned not in allowed:
            allowed.append(cleaned)
    return allowed


def owners_of(owner: Owner) -> list[str]:
    """Return the owners of a group as those of its joints."""
    emails = [email for email in owner.emails if OWNER.fullmatch(email)]
    if emails:
        return emails
    return [f"team:{owner.name}"] if owner.name else []


def unused_keys(config: Config, used: Set[str]) -> list[str]:
    """Return what is told of the keys of a configuration that are not ``used``."""
    notes = []
    for key, value in config.values.items():
        is_off = value in (None, False, "", [], {}) or (key == "contract" and not _enforced(value))
        if key not in used and not is_off:
            notes.append(f"{key} {WHY.get(key, 'has no counterpart')}")
    return notes


def _enforced(value: Any) -> bool:
    return isinstance(value, Mapping) and bool(value.get("enforced"))
