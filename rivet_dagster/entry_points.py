"""Find plugins by entry point, and expand and validate the options that a profile gives them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar, Protocol, TypeVar

from rivet_dagster.errors import Diagnostic, RivetError, nearest
from rivet_dagster.secrets.variables import UnsetVariablesError, expand

_Fact = TypeVar("_Fact")

CATALOGS = "rivet_dagster.catalogs"
ENGINES = "rivet_dagster.engines"
CHECKS = "rivet_dagster.checks"

_ALMOST = 0.8
"""The similarity from which a key, where any key is allowed, is taken for a misspelt one."""

_WORDS = {CATALOGS: "catalog", ENGINES: "engine", CHECKS: "check"}
_BUILT_IN = {
    CATALOGS: {
        "filesystem": "rivet_dagster.catalogs.filesystem:FilesystemCatalog",
        "jdbc": "rivet_dagster.catalogs.jdbc:JdbcCatalog",
        "spark": "rivet_dagster.catalogs.spark:SparkCatalog",
    },
    ENGINES: {
        "arrow": "rivet_dagster.engines.arrow:ArrowEngine",
        "databricks": "rivet_dagster.engines.databricks:DatabricksEngine",
        "duckdb": "rivet_dagster.engines.duckdb:DuckDBEngine",
        "polars": "rivet_dagster.engines.polars:PolarsEngine",
        "postgres": "rivet_dagster.engines.postgres:PostgresEngine",
        "pyspark": "rivet_dagster.engines.pyspark:PySparkEngine",
    },
    CHECKS: {
        "not_null": "rivet_dagster.checks.not_null:NotNull",
        "unique": "rivet_dagster.checks.unique:Unique",
        "row_count": "rivet_dagster.checks.row_count:RowCount",
        "accepted_values": "rivet_dagster.checks.accepted_values:AcceptedValues",
        "expression": "rivet_dagster.checks.expression:Expression",
        "custom": "rivet_dagster.checks.custom:Custom",
        "schema": "rivet_dagster.checks.schema:SchemaCheck",
        "freshness": "rivet_dagster.checks.freshness:Freshness",
        "relationship": "rivet_dagster.checks.relationship:Relationship",
    },
}
"""Built-in plugins are also found when the package runs from its source tree, without an installed distribution."""


class Plugin(Protocol):
    """The class attributes and methods that catalogs and engines have in common."""

    options: ClassVar[frozenset[str]]
    other_options: ClassVar[bool]

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> Mapping[str, str]:
        """Return what is wrong with the values of ``options``: the end of a sentence about the option, by its key."""


def plugins(group: str) -> dict[str, EntryPoint]:
    """Return the plugins of ``group`` by type, without importing them.

    >>> sorted(plugins(CATALOGS))
    ['filesystem'...]
    """
    built_in = {name: EntryPoint(name, value, group) for name, value in _BUILT_IN[group].items()}
    return built_in | _installed(group, tuple(sys.path))


@cache
def _installed(group: str, path: tuple[str, ...]) -> dict[str, EntryPoint]:
    """Return the plugins of ``group`` in the distributions on ``path``; to scan them takes long."""
    return {point.name: point for point in entry_points(group=group)}


def plugin_class(group: str, type_: str, base: type) -> Any:
    """Return the class of the plugin ``type_``. Raise RVT-109 if there is none, or if it is no subclass of ``base``."""
    known = plugins(group)
    if type_ not in known:
        raise RivetError("RVT-109", f"no {_WORDS[group]} is of type '{type_}'{nearest(type_, known)}")
    loaded = _loaded(known[type_])
    if not (isinstance(loaded, type) and issubclass(loaded, base)):
        message = f"the {_WORDS[group]} type '{type_}' ({known[type_].value}) is no subclass of {base.__name__}"
        raise RivetError("RVT-109", message)
    return loaded


class ByType(Mapping[str, _Fact]):
    """Facts about the plugins of a group by type, each found when it is asked for: a broken plugin harms no other."""

    def __init__(self, group: str, fact: Callable[[str], _Fact]) -> None:
        self._types = plugins(group)
        self._fact = cache(fact)

    def __getitem__(self, type_: str) -> _Fact:
        if type_ not in self._types:
            raise KeyError(type_)
        return self._fact(type_)

    def __contains__(self, type_: object) -> bool:
        return type_ in self._types

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)


@cache
def check_kind(name: str) -> Any:
    """Return the class of a kind of check, None where there is none. Raise RVT-109 where it cannot be imported.

    A built-in kind is found without scanning the installed distributions, which takes long.
    """
    built_in = _BUILT_IN[CHECKS].get(name)
    if built_in is not None:
        return _loaded(EntryPoint(name, built_in, CHECKS))
    plugin = plugins(CHECKS).get(name)
    return None if plugin is None else _loaded(plugin)


def is_own_kind(name: str) -> bool:
    """Return whether a kind of check is built in, so that its behaviour changes only with this package's version."""
    return name in _BUILT_IN[CHECKS]


def _loaded(plugin: EntryPoint) -> Any:
    try:
        return plugin.load()
    except (ImportError, AttributeError) as error:
        message = f"the {_WORDS[plugin.group]} type '{plugin.name}' ({plugin.value}) cannot be imported: {error}"
        raise RivetError("RVT-109", message) from error


def expand_variables(value: Any, environ: Mapping[str, str]) -> Any:
    """Return options or a text with the values of their ``${VAR}``, redacted in all texts from now on. Raises RVT-107.

    >>> expand_variables({"url": "jdbc://${HOST}"}, {"HOST": "db"})
    {'url': 'jdbc://db'}
    """
    try:
        return expand(value, environ)
    except UnsetVariablesError as error:
        raise RivetError("RVT-107", str(error)) from None


def option_errors(plugin: type[Plugin], subject: str, options: Mapping[str, Any]) -> list[Diagnostic]:
    """Return what is wrong with the options given to ``plugin``: unknown keys, wrong values, missing keys.

    ``subject`` begins each message, as in ``catalog 'raw'``.
    """
    errors = []
    for key in unknown_options(options, plugin.options, plugin.other_options):
        message = f"{subject} has the unknown option '{key}'{nearest(key, plugin.options)}"
        errors.append(Diagnostic("RVT-103", message))
    for key, sentence in plugin.check(options).items():
        errors.append(Diagnostic("RVT-104" if key in options else "RVT-105", f"{subject}: `{key}` {sentence}"))
    return errors


def unknown_options(options: Iterable[str], known: frozenset[str], others: bool) -> list[str]:
    """Return the keys that are not ``known``; where any ``others`` are allowed, only those that look misspelt.

    >>> unknown_options(["uri", "warehous", "s3.region"], frozenset({"uri", "warehouse"}), others=True)
    ['warehous']
    """
    unknown = sorted(set(options) - known)
    return [key for key in unknown if not others or nearest(key, known, listed=False, cutoff=_ALMOST)]


def refuse_wrong_options(plugin: type[Plugin], subject: str, options: Mapping[str, Any]) -> None:
    """Raise one RivetError with all errors of ``option_errors``, if there are any."""
    if errors := option_errors(plugin, subject, options):
        raise RivetError.of(errors)


def is_unexpanded(value: Any) -> bool:
    """Return whether ``value`` refers to an environment variable not yet expanded, so that it cannot be validated yet.

    >>> is_unexpanded("${DATA}/raw"), is_unexpanded(2)
    (True, False)
    """
    return isinstance(value, str) and "${" in value
