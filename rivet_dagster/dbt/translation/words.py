"""Translation of the words of dbt's templates into ours."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import nodes

from rivet_dagster.dbt.declared import Config, DbtNode, Macro
from rivet_dagster.dbt.template import constant
from rivet_dagster.dbt.translation.macros import DBT, OWN_WORDS, MacroScope, other_macros_of_dbt
from rivet_dagster.dbt.translation.names import Names
from rivet_dagster.dbt.translation.template_text import TemplateChanges, TemplateFindings, Use, bound_names, uses
from rivet_dagster.dbt.translation.variables import DbtVariables
from rivet_dagster.errors import nearest

OF_JINJA = frozenset(
    "range dict namespace cycler joiner lipsum caller loop varargs kwargs super self return true false none".split()
)

CONSTANT = {"execute": "true", "should_store_failures": "false"}
"""Words that always have the same value here: a check shows rows, and stores none."""

OBJECTS_OF_JINJA = frozenset(("loop", "varargs", "kwargs"))
"""Words of Jinja that have attributes."""

OF_TESTS = frozenset("severity warn_if error_if fail_calc limit store_failures store_failures_as".split())
"""The configuration that tests alone have."""

QUERIES = frozenset("run_query statement load_result store_result store_raw_result get_columns_in_relation".split())

SILENT = frozenset(("log", "print"))

AT_RUN_TIME = {
    "adapter": "the warehouse",
    "api": "dbt's own classes",
    "builtins": "dbt's own functions",
    "context": "dbt's own state",
    "database": "dbt's target",
    "dbt_version": "dbt's own state",
    "fromjson": "a function of dbt's",
    "fromyaml": "a function of dbt's",
    "graph": "dbt's manifest",
    "invocation_args_dict": "the run at hand",
    "invocation_id": "the run at hand",
    "local_md5": "a function of dbt's",
    "model": "dbt's manifest",
    "modules": "Python's modules",
    "schema": "dbt's target",
    "selected_resources": "the run at hand",
    "set": "a function of dbt's",
    "submit_python_job": "dbt's own functions",
    "thread_id": "the run at hand",
    "tojson": "a function of dbt's",
    "toyaml": "a function of dbt's",
    "zip": "a function of dbt's",
}

OF_DBT = frozenset(
    "column compiled_code connection_name dbt_metadata_envs defer_relation diff_of_two_dicts doc function metric "
    "post_hooks pre_hooks render set_strict sql sql_now try_or_compiler_error validation write zip_strict".split()
)
"""Other words of dbt's that are defined there."""


@dataclass(frozen=True)
class VariableWords:
    """The words of one template of ``package``, of which ``changes`` take what they become.

    ``node`` is the model, snapshot or test that the template belongs to, None for a macro; ``table`` is what it writes.
    """

    names: Names
    scope: MacroScope
    variables: DbtVariables
    changes: TemplateChanges
    package: str
    node: DbtNode | None = None
    is_incremental: bool = False
    table: str = ""
    in_batches: bool = False

    def _var(self, use: Use) -> None:
        if use.call is None:
            if use.path[1:] != ("has_var",):
                self.changes.problem("uses var without its parentheses", use.node)
            return
        if use.path != ("var",):
            self.changes.problem("asks whether there is a variable", use.node)
            return
        try:
            name = str(constant(use.call.args[0] if use.call.args else use.call.kwargs[0].value))
        except (ValueError, IndexError):
            return  # a name that is computed
        default = len(use.call.args) > 1 or any(pair.key == "default" for pair in use.call.kwargs)
        try:
            known = self.variables.use(self._viewer(name, default), name)
        except KeyError:
            if not default:
                self.changes.problem(f"var('{name}') has no value in dbt_project.yml and no default", use.node, True)
            elif use.call.kwargs:
                self._positional(use.call, name)
            return
        if known != name or use.call.kwargs:
            self._positional(use.call, known)

    def _viewer(self, name: str, has_default: bool) -> str:
        """Return the package as which a variable is seen: a macro sees those of its callers, here of the project."""
        root = self.names.root
        if self.node is None and (has_default or self.variables.knows(root, name)):
            return root
        return self.package

    def _positional(self, call: nodes.Call, name: str) -> None:
        """Write the call of a variable as our templates read it: a name, and a default without a keyword."""
        given = [*call.args[1:], *(pair.value for pair in call.kwargs if pair.key == "default")]
        try:
            texts = [repr(constant(value)) for value in given[:1]]
        except ValueError:
            self.changes.problem(f"gives var('{name}') a default that is computed, by a keyword", call.node)
            return
        self.changes.replace(call, f"var({', '.join([repr(name), *texts])})", f"the variable is var('{name}')")

    def _env_var(self, use: Use) -> None:
        try:
            assert use.call is not None
            name, *default = [str(constant(arg)) for arg in use.call.args]
        except (AssertionError, ValueError):
            self.changes.problem("computes the name of an environment variable", use.node)
            return
        try:
            known = self.variables.use_environment(name, default[0] if default else None)
        except ValueError as error:
            self.changes.problem(str(error), use.node)
            return
        value = f"its default {default[0]!r}" if default else f"{self.variables.values[known]}"
        self.changes.unquoted(
            use.call, f"var('{known}')", f"env_var('{name}') is var('{known}'), which is {value}", not default
        )

    def _target(self, use: Use) -> None:
        if len(use.path) != 2 or use.call is not None:
            self.changes.problem("uses dbt's target as a whole", use.node)
            return
        try:
            known = self.variables.use_target(use.path[1])
        except KeyError:
            self.changes.problem(f"uses target.{use.path[1]}, which the profile does not give", use.node)
            return
        self.changes.replace(use.node, f"var('{known}')", f"target.{use.path[1]} is var('{known}')")


@dataclass(frozen=True)
class DbtWords(VariableWords):
    """The words of dbt's in one template."""

    def read(self, body: Sequence[nodes.Node]) -> TemplateFindings:
        """Return what is found in a template, or a part of one."""
        assigned = set(bound_names(body))

        def is_missing(path: Sequence[str]) -> bool:
            return path[0] not in assigned and self._is_missing(path)

        for part in body:
            for use in uses(part, is_missing):
                if use.path[0] not in assigned and not self.changes.is_dropped(use):
                    self._use(use)
        for part in body:
            for statement in part.find_all((nodes.Import, nodes.FromImport, nodes.Include, nodes.Extends)):
                word = type(statement).__name__.lower()
                self.changes.problem(f"holds {{% {word} %}}, which dbt does not have either", statement)
        return self.changes.findings

    def _is_missing(self, path: Sequence[str]) -> bool:
        """Return whether there is no such name among the words of dbt, Jinja and our templates, macros and packages."""
        name, *attributes = path
        if name in self.scope.packages:
            others = other_macros_of_dbt() if name == DBT else ()
            return bool(attributes) and attributes[0] not in others and self.scope.find_in(name, attributes[0]) is None
        words = (
            _TRANSLATIONS,
            CONSTANT,
            OF_JINJA,
            QUERIES,
            SILENT,
            AT_RUN_TIME,
            OF_DBT,
            OWN_WORDS,
            other_macros_of_dbt(),
        )
        return not any(name in known for known in words) and self.scope.find(name, self.package) is None

    def _is_answered(self, use: Use) -> bool:
        """Return whether it is settled that a name is defined, or is not; write dbt's answer where ours is another."""
        name, *attributes = use.path
        if self._is_missing(use.path):
            if attributes:  # of what is not there, our templates ask no attribute
                self.changes.replace(use.node, name, f"{'.'.join(use.path)} is not defined")
            return True
        if attributes or name in OWN_WORDS or name in OF_JINJA or self.scope.find(name, self.package) is not None:
            return False
        self.changes.replace(use.node, "true", f"{name} is defined")
        return True

    def _use(self, use: Use) -> None:
        name, attribute = use.path[0], use.path[1] if len(use.path) > 1 else None
        if use.is_asked and self._is_answered(use):
            return
        if name in _TRANSLATIONS:
            _TRANSLATIONS[name](self, use)
        elif name in CONSTANT and attribute is None:
            self.changes.replace(
                use.call if use.call is not None else use.node, CONSTANT[name], f"{name} is {CONSTANT[name]}"
            )
        elif name in OF_JINJA and (attribute is None or name in OBJECTS_OF_JINJA):
            return
        elif name in QUERIES and attribute is None:
            self.changes.problem(f"calls {name}, which needs a query before the query", use.node)
        elif name in SILENT and self.changes.drop(use):
            return
        elif attribute is not None and name in self.scope.packages:
            self._macro(use, self.scope.find_in(name, attribute))
        else:
            macro = self.scope.find(name, self.package) if attribute is None else None
            if macro is None and name in AT_RUN_TIME:
                self.changes.problem(f"uses {'.'.join(use.path)}, which is {AT_RUN_TIME[name]}", use.node)
            elif macro is not None or not use.may_miss:
                self._macro(use, macro)

    def _macro(self, use: Use, macro: Macro | None) -> None:
        shown = ".".join(use.path)
        if macro is None and use.path[-1] in other_macros_of_dbt() and len(use.path) == 1 + (use.path[0] == DBT):
            self.changes.problem(f"uses '{shown}', a macro of dbt's own that has no counterpart", use.node, True)
            return
        reason = self.scope.reason_without(shown) if macro is None else None
        if reason is not None:
            self.changes.problem(f"calls {shown}, which {reason}", use.node)
            return
        if macro is None:
            hint = nearest(shown, self.scope.known(self.package), listed=False)
            what = f"calls '{shown}'" if use.call is not None else f"uses '{shown}'"
            self.changes.problem(
                f"{what}, which is no macro of the project or of a package that is installed{hint}", use.node, True
            )
            return
        self.changes.findings.macros.append(macro)
        name = self.scope.name_of(macro)
        if name != shown:
            called = use.call.node if use.call is not None else use.node
            self.changes.replace(called, name, f"{shown} is the macro {name}")

    # What dbt's own words become

    def _config(self, use: Use) -> None:
        if use.call is not None and len(use.path) == 1:
            if self.node is None:
                self._config_in_macro(use, use.call)
            elif not self.changes.drop(use):
                self.changes.findings.dropped.append(self.changes.template.span(use.call))
                self.changes.replace(use.call, "''", "config(...) is an empty text")
            return
        if use.call is not None and use.path[1:] in (("get",), ("require",)) and self.node is not None:
            try:
                key, *default = [constant(arg) for arg in use.call.args]
                default += [constant(pair.value) for pair in use.call.kwargs if pair.key == "default"]
            except ValueError:
                pass
            else:
                value = self.node.config.get(str(key), default[0] if default else None)
                if value is None or isinstance(value, str | int | float | list):
                    self.changes.replace(use.call, repr(value), f"config.get('{key}') is its value, {value!r}")
                    return
        self.changes.problem("asks for its own configuration", use.node)

    def _config_in_macro(self, use: Use, call: nodes.Call) -> None:
        """Note what only tests have; any other configuration would be that of the model that calls the macro."""
        try:
            given = {pair.key: constant(pair.value) for pair in call.kwargs}
        except ValueError:
            given = {}
        if given and not call.args and given.keys() <= OF_TESTS and self.changes.drop(use):
            self.changes.findings.test_config |= given
        else:
            self.changes.problem("calls config(...), which would be that of the model that calls it", use.node)

    def _ref(self, use: Use) -> None:
        if use.call is None:
            return
        try:
            args = [constant(arg) for arg in use.call.args]
            version = next((constant(pair.value) for pair in use.call.kwargs), None)
        except ValueError:
            return  # a name that is computed
        if len(args) not in (1, 2):
            self.changes.problem("gives ref something else than a name, or a package and a name", use.node)
            return
        try:
            joint, read = self.names.ref(self.package, [str(arg) for arg in args], version)
        except ValueError as error:
            self.changes.problem(str(error), use.node, True)
            return
        self.changes.findings.refs.append(joint)
        if self._limited_to_batch(use.call, joint, read.config):
            return
        if len(args) > 1 or version is not None or joint != args[0]:
            start, end = self.changes.template.span(use.call)
            self.changes.replace(
                use.call, f"ref('{joint}')", f"{self.changes.template.text[start:end]} is ref('{joint}')"
            )

    def _source(self, use: Use) -> None:
        if use.call is None:
            return
        try:
            args = [str(constant(arg)) for arg in use.call.args]
            args += [str(constant(pair.value)) for pair in use.call.kwargs]
        except ValueError:
            self.changes.problem("computes the name of a source", use.node)
            return
        try:
            joint, table = self.names.source(*args[:2])
        except (ValueError, TypeError) as error:
            self.changes.problem(
                str(error) if isinstance(error, ValueError) else "gives source something else than two names", use.node
            )
            return
        self.changes.findings.refs.append(joint)
        if self._limited_to_batch(use.call, joint, table.config):
            return
        self.changes.replace(use.call, f"ref('{joint}')", f"source('{args[0]}', '{args[1]}') is ref('{joint}')")

    def _limited_to_batch(self, call: nodes.Call, joint: str, config: Config) -> bool:
        """Write what a model in batches reads of a relation that has a time, and return whether that is so."""
        column = config.get("event_time")
        if not self.in_batches or column is None:
            return False
        if not self.changes.template.is_alone(call) or not re.fullmatch(r"[A-Za-z_]\w*", str(column)):
            self.changes.problem(f"reads the batch of {joint} otherwise than by a tag of its own", call)
            return True
        rows = f"{column} >= :partition_start AND {column} < :partition_end"
        text = f"(SELECT * FROM {{{{ ref('{joint}') }}}} WHERE {rows})"
        self.changes.replace_tag(call, text, f"the rows of the batch are read of {joint}, by its event_time {column}")
        return True

    def _this(self, use: Use) -> None:
        if len(use.path) == 1:
            self.changes.findings.uses_this = True
        elif use.path[1] in ("identifier", "table", "name") and use.call is None and self.node is not None:
            self.changes.replace(use.node, repr(self.table), f"this.{use.path[1]} is '{self.table}'")
        else:
            self.changes.problem(f"uses {'.'.join(use.path)}", use.node)

    def _is_incremental(self, use: Use) -> None:
        self.changes.findings.asks_incremental = True
        if self.node is not None and not self.is_incremental:
            replaced = use.call if use.call is not None else use.node
            self.changes.replace(replaced, "false", "is_incremental() is false: it is no incremental model")

    def _flags(self, use: Use) -> None:
        if use.path[1:] == ("FULL_REFRESH",):
            self.changes.replace(use.node, "false", "flags.FULL_REFRESH is false")
        else:
            self.changes.problem(f"uses {'.'.join(use.path)}, which is the run at hand", use.node)

    def _project_name(self, use: Use) -> None:
        self.changes.replace(use.node, repr(self.names.root), "project_name is its value")

    def _run_started_at(self, use: Use) -> None:
        if len(use.path) > 1:
            self.changes.problem(f"uses {'.'.join(use.path)}: only a run knows when it started", use.node)
        else:
            self.changes.unquoted(use.node, "run_started_at", "run_started_at is a TIMESTAMP, without quotes", True)

    def _exceptions(self, use: Use) -> None:
        if use.path[1:] == ("warn",):
            self.changes.drop(use)
        elif use.call is not None:  # an error is one, too, where our templates reach it
            self.changes.findings.raised.extend(arg.value for arg in use.call.args if isinstance(arg, nodes.Const))

    def _adapter(self, use: Use) -> None:
        if use.path[1:] == ("dispatch",) and use.call is not None:
            try:
                given = [constant(arg) for arg in use.call.args]
                given += [constant(pair.value) for pair in use.call.kwargs]
            except ValueError:
                self.changes.problem("computes which macro to dispatch", use.node)
                return
            if not given:
                self.changes.problem("dispatches without a name", use.node)
                return
            namespace = str(given[1]) if len(given) > 1 and given[1] is not None else None
            macro = self.scope.dispatched(str(given[0]), namespace, self.package)
            if macro is None:
                self.changes.problem(f"dispatches '{given[0]}', of which there is no variant for Spark", use.node)
                return
            self.changes.findings.macros.append(macro)
            name = self.scope.name_of(macro)
            self.changes.replace(use.call, name, f"adapter.dispatch('{given[0]}') is the macro {name}")
        elif use.path[1:] == ("quote",) and use.call is not None:
            self._macro(use, self.scope.find_in(DBT, "quote"))
        else:
            self.changes.problem(f"uses {'.'.join(use.path)}, which is the warehouse", use.node)


_TRANSLATIONS = {
    "config": DbtWords._config,
    "ref": DbtWords._ref,
    "source": DbtWords._source,
    "var": DbtWords._var,
    "env_var": DbtWords._env_var,
    "target": DbtWords._target,
    "this": DbtWords._this,
    "is_incremental": DbtWords._is_incremental,
    "flags": DbtWords._flags,
    "project_name": DbtWords._project_name,
    "run_started_at": DbtWords._run_started_at,
    "exceptions": DbtWords._exceptions,
    "adapter": DbtWords._adapter,
}
