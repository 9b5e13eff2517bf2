"""Data tests as checks: the four built-in ones as checks of the same meaning, all others as SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rivet_dagster.checks.expression import judges_rows_alone
from rivet_dagster.dbt.declared import Config, DataTest, DbtLocation, DbtNode, Macro
from rivet_dagster.dbt.template import apply_edits
from rivet_dagster.dbt.translation.annotations import scalar
from rivet_dagster.dbt.translation.macros import DBT, CheckRenderer, MacroScope, literal
from rivet_dagster.dbt.translation.names import Names
from rivet_dagster.dbt.translation.strategy import LeftOutError
from rivet_dagster.dbt.translation.translator import Translator
from rivet_dagster.dbt.translation.variables import DbtVariables, plain, unescape_value
from rivet_dagster.dbt.values import UnknownValueError, render_value
from rivet_dagster.errors import nearest

_COLUMN = re.compile(r"[A-Za-z_]\w*")
_SHORTHAND = re.compile(r"\s*(?:env_var|ref|var|source|doc)\s*\(.+\)\s*", re.DOTALL)
_THIS = "{{ this }}"
_KNOWN_CONFIG = frozenset(
    "severity where limit warn_if error_if fail_calc enabled description name alias store_failures store_failures_as "
    "schema database docs".split()
)


@dataclass(frozen=True)
class TestRules:
    """The configuration of a test: when it fails, and how badly."""

    severity: str
    where: str | None
    condition: str | None
    notes: tuple[str, ...]
    fail_calc: str = "count(*)"
    limit: int | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the test fails if there is a row, and looks at all rows."""
        return self.where is None and self.condition is None and self.fail_calc == "count(*)"


@dataclass(frozen=True)
class TranslatedCheck:
    """A check: one of our kinds as ``options``, or a query; ``reads`` are the other joints that it reads."""

    name: str
    rules: TestRules
    options: Mapping[str, Any] | None = None
    sql: str | None = None
    reads: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    description: str = ""
    is_named: bool = False

    def annotation(self) -> str:
        """Return the check as an annotation's value."""
        assert self.options is not None
        return scalar(self.entry())

    def entry(self) -> dict[str, Any]:
        """Return the check as an entry of ``quality``."""
        entry = dict(self.options or {})
        if self.is_named:
            entry["name"] = self.name
        if self.rules.severity != "error":
            entry["severity"] = self.rules.severity
        if self.description:
            entry["description"] = " ".join(self.description.split())
        return entry

    def file(self, phase: str) -> str:
        """Return the text of the check's file."""
        head = ""
        if self.rules.severity != "error":
            head += f"-- @severity: {self.rules.severity}\n"
        if phase != "assertion":
            head += f"-- @phase: {phase}\n"
        if self.description:
            head += f"-- @description: {' '.join(self.description.split())}\n"
        return f"{head}{(self.sql or '').strip()}\n"


class CheckTranslator:
    """Translates data tests; ``context`` is that of values in YAML."""

    def __init__(
        self,
        names: Names,
        scope: MacroScope,
        variables: DbtVariables,
        translator: Translator,
        context: Mapping[str, Any],
        folder_config: Callable[[DbtLocation, str, bool], Mapping[str, Any]],
    ) -> None:
        self._names, self._scope, self._variables = names, scope, variables
        self._translator, self._context, self._folder_config = translator, context, folder_config

    def generic(self, test: DataTest, package: str, of: str | None = None) -> TranslatedCheck:
        """Return the check of a generic test. Raise LeftOutError.

        It is one of the tested joint itself, or of another joint, which reads the tested one, ``of``.
        """
        macro = self._scope.test(test.macro, package)
        if macro is None and (reason := self._scope.reason_without(test.macro)) is not None:
            raise LeftOutError(f"{test.macro} {reason}")
        if macro is None:
            raise LeftOutError(f"there is no generic test '{test.macro}'{nearest(test.macro, _BUILT_IN, listed=False)}")
        name = test.name or self._default_name(test)
        findings = self._translator.of_macro(macro)
        macros = [macro, *self._translator.reached(findings)]
        rules = self._rules(self._config(test, macros) | ({"tags": test.tags} if test.tags else {}))
        arguments, reads = self._arguments(test.arguments, package)
        if test.column is not None and "column_name" not in arguments:
            arguments["column_name"] = f"`{test.column}`" if test.quote else test.column
        check = TranslatedCheck(
            clean_check(name), rules, reads=tuple(reads), description=test.description, is_named=bool(test.name)
        )
        is_row_check = self._scope.is_built_in(macro) and rules.is_plain and of is None
        if is_row_check:
            options = _options(f"{macro.package}.{macro.name}", arguments, test)
            if options is not None:
                return replace(check, options=options)
        model = of or _THIS
        model = model if rules.where is None else f"(select * from {model} where {rules.where}) dbt_subquery"
        given = ", ".join(f"{key}={literal(value)}" for key, value in {"model": model, **arguments}.items())
        self._refuse_silent(macros)
        sql = self._rendered(f"{{{{ {self._scope.name_of(macro)}({given}) }}}}", macros, findings.problems)
        condition = read_row_condition(sql) if is_row_check else None
        if condition is not None:
            return replace(check, options={"type": "expression", "sql": condition}, is_named=True)
        refs = [ref for each in macros for ref in self._translator.of_macro(each).refs]
        return replace(check, sql=_with_condition(sql, rules), reads=tuple(dict.fromkeys([*reads, *refs])))

    def is_enabled(self, test: DataTest) -> bool:
        """Return whether a generic test is part of the project. Raise LeftOutError."""
        value = self._config(test).get("enabled")
        try:
            return Config({"enabled": render_value(value, self._context)}).is_enabled
        except UnknownValueError as error:
            raise LeftOutError(f"whether it is enabled is not known: {error}") from None

    def _config(self, test: DataTest, macros: Iterable[Macro] = ()) -> dict[str, Any]:
        """Return the configuration of a generic test: its package's, its macros', its own, and the whole project's."""
        of_macros = [self._translator.of_macro(macro).test_config for macro in macros]
        name = test.name or self._default_name(test)
        folders = (self._folder_config(test.location, name, last) for last in (False, True))
        config = dict(next(folders))
        for given in (*of_macros, test.config, next(folders)):
            config |= given
        return config

    def singular(self, node: DbtNode) -> TranslatedCheck:
        """Return the check of a singular test; its own joint is among ``reads``. Raise LeftOutError."""
        assert node.template is not None
        rules = self._rules(node.config.values)
        findings = self._translator.of_node(node, False, node.name)
        if findings.problems:
            raise LeftOutError("; ".join(map(str, findings.problems)))
        macros = self._translator.reached(findings)
        self._refuse_silent(macros)
        refs = [*findings.refs, *(ref for macro in macros for ref in self._translator.of_macro(macro).refs)]
        sql = self._rendered(_edited(node, findings.edits), macros, [])
        description = node.properties.description if node.properties is not None else ""
        return TranslatedCheck(
            clean_check(node.name),
            rules,
            sql=_with_condition(sql, rules),
            reads=tuple(dict.fromkeys(refs)),
            description=description,
            is_named=True,
        )

    def _refuse_silent(self, macros: list[Any]) -> None:
        problems = self._translator.silent_problems(macros)
        if problems:
            raise LeftOutError("; ".join(map(str, problems)))

    def _rendered(self, text: str, macros: list[Any], problems: list[Any]) -> str:
        texts = [(self._scope.name_of(macro), self._translator.text_of_macro(macro)) for macro in macros]
        named = [text, *(each for _, each in texts)]
        try:
            return CheckRenderer(texts, self._variables.literal() | self._variables.imported_in(named)).render(text)
        except UnknownValueError as error:
            raised = [message for macro in macros for message in self._translator.of_macro(macro).raised]
            if raised and "'exceptions'" in str(error):
                raise LeftOutError(f"it raises an error: {'; or '.join(dict.fromkeys(raised))}") from None
            wrong = [*problems, *(p for macro in macros for p in self._translator.of_macro(macro).problems)]
            wrong += self._variables.bound_in(named)
            raise LeftOutError(str(wrong[0]) if wrong else f"its template cannot be rendered: {error}") from None

    def _arguments(self, given: Mapping[str, Any], package: str) -> tuple[dict[str, Any], list[str]]:
        """Return the arguments with their relations as joints, and these joints."""
        reads: list[str] = []

        def ref(*names: str, v: Any = None, version: Any = None) -> str:
            reads.append(self._names.ref(package, names, v if v is not None else version)[0])
            return reads[-1]

        def source(source_name: str, table: str) -> str:
            reads.append(self._names.source(source_name, table)[0])
            return reads[-1]

        context = {**self._context, "ref": ref, "source": source}

        def value(item: Any) -> Any:
            if isinstance(item, str) and _SHORTHAND.fullmatch(item):
                item = f"{{{{ {item} }}}}"
            if isinstance(item, list):
                return [value(each) for each in item]
            if isinstance(item, Mapping):
                return {key: value(each) for key, each in item.items()}
            return unescape_value(plain(render_value(item, context)))

        try:
            return {key: value(item) for key, item in given.items() if key != "model"}, reads
        except UnknownValueError as error:
            raise LeftOutError(f"an argument is not known: {error}") from None

    def _rules(self, config: Mapping[str, Any]) -> TestRules:
        try:
            config = render_value(dict(config), self._context)
        except UnknownValueError as error:
            raise LeftOutError(f"its configuration is not known: {error}") from None
        odd = next((key for key in _TEXTS if isinstance(config.get(key), Mapping | list)), None)
        if odd is not None:
            raise LeftOutError(f"its {odd} must be a text")
        severity = str(config.get("severity") or "error").lower()
        if severity not in ("error", "warn"):
            raise LeftOutError(f"its severity '{severity}' is neither error nor warn")
        notes = []
        error_if, warn_if = _condition(config.get("error_if")), _condition(config.get("warn_if"))
        condition = error_if if severity == "error" else warn_if
        if severity == "error" and warn_if != error_if:
            if config.get("error_if") is None:
                notes.append(f"warn_if {warn_if or '!= 0'} is left out: a check has one severity, and this one fails")
            else:
                notes.append(f"only error_if {error_if or '!= 0'} is the check, which has no warning for warn_if")
        for key in ("store_failures", "store_failures_as"):
            if config.get(key):
                notes.append(f"{key} is left out: a result shows up to 10 rows")
        unknown = sorted(key for key, value in config.items() if key not in _KNOWN_CONFIG and value)
        notes += [f"its configuration `{key}` has no counterpart" for key in unknown]
        limit, where = config.get("limit"), config.get("where")
        return TestRules(
            severity,
            None if where is None else str(where),
            condition,
            tuple(notes),
            str(config.get("fail_calc") or "count(*)"),
            int(limit) if isinstance(limit, int | str) and str(limit).isdecimal() else None,
        )

    def _default_name(self, test: DataTest) -> str:
        parts = [test.macro.replace(".", "_"), test.column or ""]
        return "_".join(part for part in parts if part)


_TEXTS = ("severity", "where", "fail_calc", "error_if", "warn_if", "limit")
_BUILT_IN = ("unique", "not_null", "accepted_values", "relationships")


_SAME = {
    "dbt_expectations.expect_column_values_to_be_unique": "dbt.unique",
    "dbt_expectations.expect_column_values_to_not_be_null": "dbt.not_null",
}
"""Tests of packages with the verdict of one of dbt's own."""


def _options(name: str, arguments: Mapping[str, Any], test: DataTest) -> dict[str, Any] | None:
    """Return the check of ours with the meaning of a test that is built in; None where only its SQL has it."""
    package, _, kind = _SAME.get(name, name).rpartition(".")
    if package != DBT:
        return _row_count(kind, arguments)
    column = test.column if test.quote else arguments.get("column_name")
    if not isinstance(column, str) or not _COLUMN.fullmatch(column):
        return None
    if kind in ("unique", "not_null") and set(arguments) == {"column_name"}:
        return {"type": kind, "columns": [column]}
    if kind == "accepted_values" and set(arguments) <= {"column_name", "values", "quote"}:
        values = arguments.get("values")
        if not isinstance(values, list) or not values:
            return None
        if arguments.get("quote", True):
            return {"type": kind, "column": column, "values": [str(value) for value in values]}
        numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
        booleans = all(isinstance(value, bool) for value in values)
        return {"type": kind, "column": column, "values": values} if numbers or booleans else None
    if kind == "relationships" and set(arguments) == {"column_name", "to", "field"}:
        to, field = str(arguments["to"]), str(arguments["field"])
        if not re.fullmatch(r"[a-z][a-z0-9_]*", to) or not _COLUMN.fullmatch(field):
            return None
        return {"type": "relationship", "column": column, "to": f"{to}.{field}"}
    return None


def _row_count(kind: str, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the check of the number of rows that a test of dbt_expectations is."""
    bounds = {"min_value": "min", "max_value": "max"}
    if kind == "expect_table_row_count_to_equal" and set(arguments) == {"value"}:
        given = dict.fromkeys(("min", "max"), arguments["value"])
    elif kind == "expect_table_row_count_to_be_between" and arguments and set(arguments) <= bounds.keys():
        given = {bounds[key]: value for key, value in arguments.items()}
    else:
        return None
    is_whole = all(isinstance(value, int) and not isinstance(value, bool) and value >= 0 for value in given.values())
    is_ordered = is_whole and given.get("min", 0) <= given.get("max", given.get("min", 0))
    return {"type": "row_count", **given} if is_ordered else None


_ROWS = re.compile(r"\s*select \* from \{\{ this }} where not\((.*)\)\s*", re.DOTALL)


def read_row_condition(sql: str) -> str | None:
    """Return the condition of each row alone that a query of violations has; None of any other query.

    >>> read_row_condition("select * from {{ this }} where not(net >= 0)")
    'net >= 0'
    >>> read_row_condition("select * from {{ this }} where not(net > (select avg(net) from other))")
    """
    match = _ROWS.fullmatch(sql)
    return match[1] if match is not None and judges_rows_alone(match[1]) else None


def _condition(value: Any) -> str | None:
    """Return a condition on the number of failures; None for any failure."""
    text = None if value is None else " ".join(str(value).split())
    return None if text in (None, "", "!= 0", "!=0", "> 0", ">0", ">= 1", ">=1", "<> 0") else text


def _with_condition(sql: str, rules: TestRules) -> str:
    """Return the query of violations: the rows of the test, or one row where their number meets a condition."""
    sql = sql.strip().rstrip(";").rstrip()
    if rules.condition is None and rules.fail_calc == "count(*)":
        return sql
    inner = sql if rules.limit is None else f"{sql}\nlimit {rules.limit}"
    condition = rules.condition or "!= 0"
    counted = f"select {rules.fail_calc} as failures\nfrom (\n{inner}\n) dbt_internal_test"
    return f"select failures\nfrom (\n{counted}\n) counted\nwhere failures {condition}"


def _edited(node: DbtNode, edits: list[Any]) -> str:
    assert node.template is not None and node.inner is not None
    return apply_edits(node.template.text, edits, *node.inner)


def clean_check(name: str) -> str:
    """Return the nearest name that a check can have.

    >>> clean_check("not_null.id")
    'not_null_id'
    """
    return re.sub(r"[^A-Za-z0-9_]", "_", name)[:100]
