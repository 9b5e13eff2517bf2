"""Configuration of nodes, by folder in dbt_project.yml and by ``config(...)`` in a file; and all of a node as one."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import nodes

from rivet_dagster.dbt.declared import Config, DbtLocation, Other
from rivet_dagster.dbt.files import line_of, read_file
from rivet_dagster.dbt.template import DbtTemplate
from rivet_dagster.dbt.values import UnknownValueError, evaluate_statements, render_value, without_environment
from rivet_dagster.project.text_file import TextError
from rivet_dagster.project.yaml_text import Located

_HOOKS = frozenset({"pre-hook", "post-hook"})
_ADDED = _HOOKS | {"tags"}
_UNUSED = frozenset(
    "schema database grants meta docs access persist_docs file_format location_root tblproperties clustered_by buckets "
    "pre-hook post-hook".split()
)
_MERGED = frozenset({"meta", "grants", "docs"})
_SPELLINGS = {"pre_hook": "pre-hook", "post_hook": "post-hook", "tests": "data_tests"}


def folder_configs(tree: Mapping[str, Any], fqn: Iterable[str], file: str) -> Iterator[Config]:
    """Yield the configurations on the way from the top of a tree to a node, the nearest last.

    A key that begins with ``+`` is one of configuration, and one whose value is no mapping; all others are folders.

    >>> tree = {"+tags": "all", "shop": {"marts": {"materialized": "table"}}}
    >>> [config.values for config in folder_configs(tree, ("shop", "marts", "orders"), "")]
    [{'tags': 'all'}, {}, {'materialized': 'table'}]
    """
    level: Any = tree
    for name in (None, *fqn):
        level = level if name is None else level.get(name)
        if not isinstance(level, Mapping):
            return
        yield located_config(
            {
                key.removeprefix("+").strip(): (value, line_of(level, key))
                for key, value in level.items()
                if key.startswith("+") or not isinstance(value, Mapping)
            },
            file,
        )


def located_config(values: Mapping[str, tuple[Any, int]], file: str) -> Config:
    """Return a configuration of values with their lines."""
    named = {_SPELLINGS.get(key, key): entry for key, entry in values.items()}
    return Config(
        {key: value for key, (value, _) in named.items()},
        {key: DbtLocation(file, line) for key, (_, line) in named.items()},
    )


def config_of(value: Any, file: str) -> Config:
    """Return the configuration in a mapping of a properties file."""
    if not isinstance(value, Located):
        return Config()
    return located_config({key.removeprefix("+"): (item, line_of(value, key)) for key, item in value.items()}, file)


def is_used(key: str) -> bool:
    """Return whether a joint depends on a configuration: what is told of the others does not need their values."""
    return _SPELLINGS.get(key, key) not in _UNUSED


def rendered_config(config: Config, context: Mapping[str, Any]) -> tuple[Config, list[Other]]:
    """Return a configuration with the templates in its values rendered, and what is not known of it.

    Hooks are rendered by dbt when they run, and not here.
    """
    values: dict[str, Any] = {}
    reasons: dict[str, str] = {}
    unknown = []
    for key, value in config.values.items():
        try:
            known = context if is_used(key) or key == "schema" else without_environment(context)
            values[key] = value if key in _HOOKS else render_value(value, known, config.locations.get(key))
        except UnknownValueError as error:
            if is_used(key):
                unknown.append(Other("config", key, config.locations[key], str(error)))
                reasons[key] = str(error)
            else:
                values[key] = value
    return Config(values, config.locations, reasons), unknown


def merge_configs(configs: Iterable[Config]) -> Config:
    """Return one configuration: the last value counts, but tags and hooks add up, and ``meta`` and grants are merged.

    >>> merge_configs([Config({"tags": "a", "enabled": True}), Config({"tags": ["b"], "enabled": False})]).values
    {'tags': ['a', 'b'], 'enabled': False}
    """
    values: dict[str, Any] = {}
    locations: dict[str, DbtLocation] = {}
    unknown: dict[str, str] = {}
    for config in configs:
        unknown = {key: reason for key, reason in unknown.items() if key not in config.values} | dict(config.unknown)
        for key, value in config.values.items():
            if key in _ADDED:
                values[key] = list(dict.fromkeys([*values.get(key, ()), *_hashable(value)]))
            elif key in _MERGED and isinstance(value, Mapping) and isinstance(values.get(key), Mapping):
                values[key] = {**values[key], **value}
            else:
                values[key] = value
        locations |= config.locations
    return Config(values, locations, unknown)


def _hashable(value: Any) -> list[Any]:
    given = value if isinstance(value, list) else [] if value is None else [value]
    return [str(item.get("sql", item)) if isinstance(item, Mapping) else str(item) for item in given]


_CAPTURE = "__capture"


@dataclass(frozen=True)
class UnknownConfig:
    """A value of a configuration that is not known before a run, or all of ``config(...)`` where ``key`` is None."""

    key: str | None
    line: int
    reason: str


@dataclass(frozen=True)
class FileConfig:
    """The configurations of the calls that are reached, in order, and what is not known of them."""

    configs: tuple[Config, ...] = ()
    unknown: tuple[UnknownConfig, ...] = ()


def file_config(template: DbtTemplate, inner: tuple[int, int], file: str, context: Mapping[str, Any]) -> FileConfig:
    """Return the configuration within a span of a template."""
    if "config" not in template.text:
        return FileConfig()
    body = list(template.bodies(inner))
    calls = [call for node in body for call in node.find_all(nodes.Call) if _is_config(call)]
    if not calls:
        return FileConfig()
    reader = _Reader(template, file, body, {**context, "execute": False, "is_incremental": lambda: False})
    literal = reader.literal_configs(calls)
    if literal is not None:
        return FileConfig(tuple(literal))
    try:
        return FileConfig(tuple(reader.configs(None)))
    except UnknownValueError as error:
        nothing = FileConfig((), (UnknownConfig(None, template.line(calls[0].node.lineno), str(error)),))
    try:
        reader.configs("")
    except UnknownValueError:
        return nothing  # not even which calls are reached
    configs: list[Config] = []
    unknown: list[UnknownConfig] = []
    for pair in {pair.key: pair for call in reversed(calls) for pair in call.kwargs}.values():
        try:
            configs += reader.configs(pair.key)
        except UnknownValueError as error:
            unknown.append(UnknownConfig(pair.key, template.line(pair.lineno), str(error)))
    return FileConfig(tuple(configs), tuple(unknown)) if unknown else nothing


def python_config(path: Path, file: str) -> Config:
    """Return the constants that a Python model gives ``dbt.config(...)``."""
    try:
        tree = ast.parse(read_file(path))
    except (TextError, SyntaxError, ValueError, RecursionError, MemoryError):
        return Config()
    values: dict[str, tuple[Any, int]] = {}
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "dbt.config":
            for pair in call.keywords:
                with suppress(ValueError):
                    values[str(pair.arg)] = (ast.literal_eval(pair.value), pair.lineno)
    return located_config(values, file)


@dataclass(frozen=True)
class _Reader:
    """Evaluates what leads to the calls: the branches that they stand in, and what is set for them."""

    template: DbtTemplate
    file: str
    body: list[nodes.Node]
    context: Mapping[str, Any]
    calls: list[nodes.Call] = field(default_factory=list)

    def literal_configs(self, calls: list[nodes.Call]) -> list[Config] | None:
        """Return the configurations of calls in tags of their own, with literals alone; None where one is another.

        Most are such calls, which nothing has to be evaluated for.
        """
        tags = [item for node in self.body if isinstance(node, nodes.Output) for item in node.nodes]
        in_tags = [tag for tag in tags if isinstance(tag, nodes.Call) and _is_config(tag)]
        if len(in_tags) < len(calls) or any(call.args or call.dyn_args or call.dyn_kwargs for call in calls):
            return None
        try:
            return [self._located(call, {p.key: _literal(p.value) for p in call.kwargs}) for call in in_tags]
        except ValueError:
            return None

    def configs(self, key: str | None) -> list[Config]:
        """Return the configurations that are reached: all of each, or only the argument ``key``."""
        configs: list[Config] = []

        def capture(index: int, *args: Any, **kwargs: Any) -> str:
            values = {str(name): item for arg in args if isinstance(arg, Mapping) for name, item in arg.items()}
            configs.append(self._located(self.calls[index], {**values, **kwargs}))
            return ""

        def within(*args: Any, **kwargs: Any) -> str:
            self.calls.append(first)
            return capture(len(self.calls) - 1, *args, **kwargs)

        first = next(call for node in self.body for call in node.find_all(nodes.Call) if _is_config(call))
        self.calls.clear()
        needed: set[str] = set()
        while True:
            statements = list(self._relevant_nodes(self.body, key, needed))
            names = {name.name for node in statements for name in node.find_all(nodes.Name) if name.ctx == "load"}
            if names <= needed:
                break
            needed |= names
        location = DbtLocation(self.file, self.template.line(first.node.lineno))
        evaluate_statements(statements, {**self.context, _CAPTURE: capture, "config": within}, location)
        return configs

    def _located(self, call: nodes.Call, values: Mapping[str, Any]) -> Config:
        assert isinstance(call.node, nodes.Name)
        line = self.template.line(call.node.lineno)
        lines = {pair.key: self.template.line(pair.lineno) for pair in call.kwargs}
        return located_config({key: (value, lines.get(key, line)) for key, value in values.items()}, self.file)

    def _relevant_nodes(self, body: Iterable[nodes.Node], key: str | None, needed: set[str]) -> Iterator[nodes.Node]:
        for node in body:
            if not any(map(_is_config, node.find_all(nodes.Call))) and not _sets(node, needed):
                continue
            if isinstance(node, nodes.If):
                elifs = [
                    nodes.If(e.test, list(self._relevant_nodes(e.body, key, needed)), [], [], lineno=1)
                    for e in node.elif_
                ]
                inner, others = (list(self._relevant_nodes(part, key, needed)) for part in (node.body, node.else_))
                yield nodes.If(node.test, inner, elifs, others, lineno=1)
            elif isinstance(node, nodes.For):
                inner, others = (list(self._relevant_nodes(part, key, needed)) for part in (node.body, node.else_))
                yield nodes.For(node.target, node.iter, inner, others, node.test, node.recursive, lineno=1)
            elif isinstance(node, nodes.With):
                yield nodes.With(
                    node.targets, node.values, list(self._relevant_nodes(node.body, key, needed)), lineno=1
                )
            elif isinstance(node, nodes.Output):
                for child in node.nodes:
                    if _is_config(child):
                        yield self._captured(child, key)
                    elif any(map(_is_config, child.find_all(nodes.Call))):
                        yield nodes.ExprStmt(child, lineno=1)  # one of several, as in `a if b else c`
            elif isinstance(node, nodes.ExprStmt) and _is_config(node.node):
                yield self._captured(node.node, key)
            elif isinstance(node, nodes.Assign | nodes.AssignBlock | nodes.ExprStmt):
                yield node
            else:
                raise UnknownValueError("it stands in a block that is called from elsewhere")

    def _captured(self, call: Any, key: str | None) -> nodes.Node:
        self.calls.append(call)
        given = [pair for pair in call.kwargs if key in (None, pair.key)]
        args = call.args if key is None else [arg for arg in call.args if isinstance(arg, nodes.Dict)]
        dynamic = (call.dyn_args, call.dyn_kwargs) if key is None else (None, None)
        index = nodes.Const(len(self.calls) - 1, lineno=1)
        name = nodes.Name(_CAPTURE, "load", lineno=1)
        return nodes.ExprStmt(nodes.Call(name, [index, *args], given, *dynamic, lineno=1), lineno=1)


def _literal(node: nodes.Expr) -> Any:
    """Return the value of a text, a number, a truth value, or a list of these. Raise ValueError for any other."""
    if isinstance(node, nodes.Const):
        return node.value
    if isinstance(node, nodes.List):
        return [_literal(item) for item in node.items]
    raise ValueError("is computed")


def _is_config(node: nodes.Node) -> bool:
    return isinstance(node, nodes.Call) and isinstance(node.node, nodes.Name) and node.node.name == "config"


def _sets(node: nodes.Node, needed: set[str]) -> bool:
    """Return whether a statement sets a name that is needed, or calls something of it, as ``do names.append(...)``."""
    if isinstance(node, nodes.ExprStmt):
        wanted = set(needed) - {_CAPTURE}
        return any(name.name in wanted for name in node.find_all(nodes.Name))
    stored = [name for name in node.find_all(nodes.Name) if name.ctx == "store"]
    is_statement = isinstance(node, nodes.Assign | nodes.AssignBlock | nodes.If | nodes.For)
    return is_statement and any(name.name in needed for name in stored)
