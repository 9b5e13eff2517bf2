"""Finding plugins by entry point, and judging what a profile gives them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar, Protocol

from rivet_dagster.errors import Diagnostic, RivetError, nearest

CATALOGS = "rivet_dagster.catalogs"
ENGINES = "rivet_dagster.engines"
CHECKS = "rivet_dagster.checks"

_WORDS = {CATALOGS: "catalog", ENGINES: "engine", CHECKS: "check"}
_BUILT_IN = {
    CATALOGS: {"filesystem": "rivet_dagster.catalogs.filesystem:FilesystemCatalog"},
    ENGINES: {"pyspark": "rivet_dagster.engines.pyspark:PySparkEngine"},
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
"""Also found where the package runs from its source tree, without an installed distribution."""


class Plugin(Protocol):
    """What catalogs and engines have in common."""

    options: ClassVar[frozenset[str]]

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> Mapping[str, str]:
        """What is wrong with the values of ``options``: a sentence by key."""


def plugins(group: str) -> dict[str, EntryPoint]:
    """The plugins of ``group`` by their type, none of them imported.

    >>> sorted(plugins(CATALOGS))
    ['filesystem'...]
    """
    built_in = {name: EntryPoint(name, value, group) for name, value in _BUILT_IN[group].items()}
    return built_in | {point.name: point for point in entry_points(group=group)}


def plugin_class(group: str, type_: str) -> Any:
    """The class of the plugin ``type_``. Raises RVT-109 where there is none or it cannot be imported."""
    known = plugins(group)
    if type_ not in known:
        raise RivetError("RVT-109", f"no {_WORDS[group]} is of type '{type_}'{nearest(type_, known)}")
    return _loaded(known[type_])


@cache
def check_kind(name: str) -> Any:
    """Return the class of a kind of checks, None where there is none. Raises RVT-109 where it cannot be imported.

    A kind of our own is found without a look at what is installed, which takes long.
    """
    built_in = _BUILT_IN[CHECKS].get(name)
    if built_in is not None:
        return _loaded(EntryPoint(name, built_in, CHECKS))
    found = plugins(CHECKS).get(name)
    return None if found is None else _loaded(found)


def is_own_kind(name: str) -> bool:
    """Return whether a kind of checks comes with this package, so that it says the same as long as the package does."""
    return name in _BUILT_IN[CHECKS]


def _loaded(plugin: EntryPoint) -> Any:
    try:
        return plugin.load()
    except (ImportError, AttributeError) as error:
        message = f"the {_WORDS[plugin.group]} type '{plugin.name}' ({plugin.value}) cannot be imported: {error}"
        raise RivetError("RVT-109", message) from error


def option_errors(plugin: type[Plugin], subject: str, options: Mapping[str, Any]) -> list[Diagnostic]:
    """What is wrong with the options given to ``plugin``: unknown keys, wrong values, missing ones.

    ``subject`` begins each message, as in ``catalog 'raw'``.
    """
    found = []
    for key in sorted(set(options) - plugin.options):
        message = f"{subject} has the unknown option '{key}'{nearest(key, plugin.options)}"
        found.append(Diagnostic("RVT-103", message))
    for key, sentence in plugin.check(options).items():
        found.append(Diagnostic("RVT-104" if key in options else "RVT-105", f"{subject}: `{key}` {sentence}"))
    return found


def refuse_wrong_options(plugin: type[Plugin], subject: str, options: Mapping[str, Any]) -> None:
    """Raise one RivetError with all of ``option_errors`` where there are any."""
    if found := option_errors(plugin, subject, options):
        raise RivetError.of(found)


def is_unexpanded(value: Any) -> bool:
    """Return whether ``value`` still waits for an environment variable, so that nobody can judge it yet.

    >>> is_unexpanded("${DATA}/raw"), is_unexpanded(2)
    (True, False)
    """
    return isinstance(value, str) and "${" in value
